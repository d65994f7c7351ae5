"""Decides about a batch of incoming copies, given the entities of a node, without I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from catalog.model.change import Action, Change, changes_between
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.schema import Model
from catalog.model.xid import depth, parent_of
from catalog.operations.feed import Verdict
from replication.deciding.copychecks import Copy, Incoming, MalformedCopy
from replication.deciding.decide import CONFLICTS, LocalState, decide, signed_as
from replication.deciding.provenance import MOST_LEAP, Policy
from replication.store.linkconflicts import CopyFinding


class HeldEntities:
    """The entities of a node that a batch touches, in the state after each decided copy.

    Args:
        entities: entities by xid, with the parents of incoming copies and the subtrees of deleted
            entities.
        tombstones: tombstones by origin.
    """

    def __init__(
        self, entities: Mapping[str, Entity], tombstones: Mapping[Origin, Tombstone]
    ) -> None:
        self.entities = dict(entities)
        self.tombstones = dict(tombstones)
        self._by_origin = {origin_of(e): e for e in entities.values()}
        self._by_folded_xid = {xid.lower(): xid for xid in entities}
        self._children: dict[str, set[str]] = defaultdict(set)
        for xid in entities:
            self._children[parent_of(xid)].add(xid)

    def local_state(self, copy: Copy) -> LocalState:
        origin = origin_of(copy)
        occupant = self.entities.get(self._by_folded_xid.get(copy.xid.lower(), ""))
        if occupant is not None and origin_of(occupant) == origin:
            occupant = None
        parent = self.entities.get(parent_of(copy.xid))
        return LocalState(held=self.by_origin(origin), occupant=occupant, parent=parent)

    def put(self, entity: Entity) -> None:
        """Add or replace an entity."""
        origin = origin_of(entity)
        self.tombstones.pop(origin, None)
        self.entities[entity.xid] = entity
        self._by_origin[origin] = entity
        self._by_folded_xid[entity.xid.lower()] = entity.xid
        self._children[parent_of(entity.xid)].add(entity.xid)

    def delete(self, tombstone: Tombstone) -> None:
        """Add a tombstone; remove the entity with every entity below."""
        held = self._by_origin.get(origin_of(tombstone))
        if held is not None:
            self._remove(held.xid)
        self.tombstones[origin_of(tombstone)] = tombstone

    def sign(self, copy: Copy) -> None:
        """Give the entity or the tombstone of a copy the signature of the copy."""
        origin, signature, id = origin_of(copy), copy.signature, copy.signedby
        if (held := self._by_origin.get(origin)) is not None:
            self.put(replace(held, signature=signature, signedby=id))
        elif (tombstone := self.tombstones.get(origin)) is not None:
            self.tombstones[origin] = replace(tombstone, signature=signature, signedby=id)

    def by_origin(self, origin: Origin) -> Copy | None:
        return self._by_origin.get(origin) or self.tombstones.get(origin)

    def _remove(self, xid: str) -> None:
        for child in list(self._children[xid]):
            self._remove(child)
        entity = self.entities.pop(xid)
        del self._by_origin[origin_of(entity)]
        del self._by_folded_xid[xid.lower()]
        self._children[parent_of(xid)].discard(xid)


@dataclass(slots=True, kw_only=True)
class BatchDecision:
    """The findings of a batch and the rows to write.

    `written` are the new states of entities; `deleted` are tombstones of stored entities,
    `remembered` tombstones of unknown entities; `dropped` are the xids of entities below deleted
    entities, whose tombstones are still to come; `revived` are the origins whose tombstones are
    removed; `signed` are unchanged copies with new signatures.
    """

    findings: list[CopyFinding]
    written: list[Entity] = field(default_factory=list)
    deleted: list[Tombstone] = field(default_factory=list)
    remembered: list[Tombstone] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    revived: list[Origin] = field(default_factory=list)
    signed: list[Copy] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether the decision writes nothing."""
        return not (self.written or self.deleted or self.remembered or self.signed)

    def gone_among(self, before: Mapping[str, Entity]) -> list[Origin]:
        """The removed entities, except entities replaced at the same xid.

        Args:
            before: the entities before the batch, by xid.
        """
        taken = {entity.xid for entity in self.written}
        gone = [origin_of(each) for each in self.deleted if each.xid not in taken]
        return gone + [origin_of(before[xid]) for xid in self.dropped]

    @property
    def conflicts(self) -> list[CopyFinding]:
        return [finding for finding in self.findings if finding.verdict in CONFLICTS]


def decide_batch(
    batch: Iterable[Incoming],
    entities: Mapping[str, Entity],
    tombstones: Mapping[Origin, Tombstone],
    policy: Policy,
) -> BatchDecision:
    """Decide about every checked copy of a batch in sequence.

    Deletions come first, deepest first, then entities, parents first, so the order within the batch
    does not matter. Copies of the same origin are ordered by epoch.
    """
    held = HeldEntities(entities, tombstones)
    touched: dict[Origin, None] = {}
    signed: dict[Origin, None] = {}
    findings = []
    for copy in sorted(batch, key=order_of):
        finding = _find(copy, held, policy)
        findings.append(finding)
        if finding.verdict is Verdict.APPLY and not isinstance(copy, MalformedCopy):
            touched[finding.origin] = None
            if isinstance(copy, Tombstone):
                held.delete(copy)
            else:
                held.put(copy)
        if finding.verdict is Verdict.SIGNED and not isinstance(copy, MalformedCopy):
            signed[finding.origin] = None
            held.sign(copy)
    decision = _conclude(findings, touched, entities, tombstones, held)
    kept = (held.by_origin(origin) for origin in signed if origin not in touched)
    decision.signed = [copy for copy in kept if copy is not None]
    return decision


def changes_of(
    decision: BatchDecision, before: Mapping[str, Entity], registry: Entity | None, model: Model
) -> list[Change]:
    """The change rows of a decision.

    Args:
        before: the entities before the batch, by xid.
        registry: the registry's new state, if groups were created or deleted.
        model: names the attributes of documents.
    """
    successors = {entity.xid: entity for entity in decision.written}
    # A replaced entity is deleted, and the successor at the same xid is created; both are changes.
    replaced = [end for end in decision.deleted if _is_replaced(end, before, successors)]
    now_new = {end.xid for end in replaced}
    handed = [end for end in decision.deleted if end.xid in successors.keys() - now_new]
    handed += [end for end in decision.remembered if end.xid in successors]
    gone = [end for end in decision.remembered if end.xid not in successors]
    after: dict[str, Entity | Tombstone] = {t.xid: t for t in decision.deleted} | successors
    if registry is not None:
        after["/"] = registry
    changes = changes_between({x: e for x, e in before.items() if x not in now_new}, after, model)
    changes += [change_of(end, "deleted") for end in (*replaced, *gone)]
    changes += [change_of(end, "handed") for end in handed]
    changes += [change_of(copy, "signed") for copy in decision.signed]
    return sorted(changes, key=order_of_change)


def _is_replaced(
    end: Tombstone, before: Mapping[str, Entity], successors: Mapping[str, Entity]
) -> bool:
    """Whether a new entity replaces a deleted entity at the same xid, without a handover.

    After a handover, the entity keeps the time of creation, and the epochs continue.
    """
    successor, held = successors.get(end.xid), before.get(end.xid)
    if successor is None:
        return False
    return held is None or successor.createdat != held.createdat or successor.epoch <= end.epoch


def order_of_change(change: Change) -> tuple[int, str, bool]:
    """The order in the log: parents first, and at each xid deletions before the successor."""
    return depth(change.xid), change.xid, change.action not in ("handed", "deleted")


def change_of(copy: Copy, action: Action, changed: Iterable[str] = ()) -> Change:
    """The change of one copy.

    Followers of the node learn of the copies that were `handed` over or `signed`.

    Args:
        changed: the names of the changed attributes.
    """
    return Change(
        xid=copy.xid,
        kind=copy.kind,
        action=action,
        authority=copy.authority,
        origin=copy.origin,
        epoch=copy.epoch,
        digest=copy.digest,
        changed=tuple(sorted(changed)),
    )


def end_of(entity: Entity, at: datetime, epoch: int) -> Tombstone:
    """The tombstone of an entity."""
    return Tombstone(
        xid=entity.xid,
        kind=entity.kind,
        authority=entity.authority,
        origin=entity.origin,
        epoch=epoch,
        deletedat=at,
    )


def raised_registry(
    registry: Entity, decision: BatchDecision, before: Mapping[str, Entity], at: datetime
) -> Entity | None:
    """The registry with the next epoch if a group is created or deleted (core/spec.md, "epoch")."""
    is_created = any(e.kind == "group" and e.xid not in before for e in decision.written)
    is_deleted = any(t.kind == "group" for t in decision.deleted)
    if not (is_created or is_deleted):
        return None
    modifiedat = max(at, registry.modifiedat)
    return replace(registry, epoch=registry.epoch + 1, modifiedat=modifiedat).sealed()


def origin_of(copy: Copy) -> Origin:
    return Origin(copy.authority, copy.origin)


def order_of(copy: Incoming) -> tuple[int, int, str, int]:
    """The sort key for the order of decisions about copies."""
    match copy:
        case Tombstone():
            return 0, -depth(copy.xid), copy.xid, copy.epoch
        case Entity():
            return 1, depth(copy.xid), copy.xid, copy.epoch
        case MalformedCopy():
            return 2, 0, copy.origin, copy.epoch


def _find(copy: Incoming, held: HeldEntities, policy: Policy) -> CopyFinding:
    if isinstance(copy, MalformedCopy):
        is_own = policy.is_own(copy.authority)
        verdict, detail = (Verdict.OWN, "") if is_own else (Verdict.INVALID, copy.reason)
    else:
        local = held.local_state(copy)
        verdict = decide(local, copy, policy)
        detail = _explain(verdict, local, copy, policy) if verdict in CONFLICTS else ""
    origin = Origin(copy.authority, copy.origin)
    return CopyFinding(
        origin=origin, xid=copy.xid, epoch=copy.epoch, verdict=verdict, detail=detail
    )


def _explain(verdict: Verdict, local: LocalState, copy: Copy, policy: Policy) -> str:
    if verdict in (Verdict.UNSIGNED, Verdict.FORGED):
        return policy.trust.fault_of(signed_as(local.held, copy, policy))
    if verdict is Verdict.AWAITED:
        return "its group is being handed over to this catalog, which takes it as a whole"
    if verdict is Verdict.COLLIDED and (reservation := policy.reservation_of(copy.xid)):
        return f"the path is kept for what {reservation.authority} hands over to this catalog"
    if verdict is Verdict.COLLIDED:
        holder = local.occupant or local.parent
        assert holder is not None
        subject = "it" if local.occupant else "its parent"
        return f"here {subject} is {holder.xid} of {holder.authority}"
    if verdict is Verdict.DIVERGED:
        return "the copy here has the same epoch and other content"
    epoch = 0 if local.held is None else local.held.epoch
    if verdict is Verdict.AHEAD:
        return f"the copy here has epoch {epoch}: it is forged, or the authority has lost data"
    if verdict is Verdict.LEAPT:
        return f"its epoch {copy.epoch} is more than {MOST_LEAP} above {epoch}, the one here"
    return "its parent is not here"


def _conclude(
    findings: Sequence[CopyFinding],
    touched: Iterable[Origin],
    entities: Mapping[str, Entity],
    tombstones: Mapping[Origin, Tombstone],
    held: HeldEntities,
) -> BatchDecision:
    """Compare the entities before and after the batch."""
    decision = BatchDecision(findings=list(findings))
    live = {origin_of(e): e.xid for e in entities.values()}
    deleted = set()
    for origin in touched:
        tombstone = held.tombstones.get(origin)
        if tombstone is None:
            # A later copy of the batch may have deleted an ancestor, and the entity with it.
            if isinstance(entity := held.by_origin(origin), Entity):
                decision.written.append(entity)
                decision.revived += [origin] * (origin in tombstones)
        elif origin in live:
            decision.deleted.append(replace(tombstone, xid=live[origin]))
            deleted.add(live[origin])
        else:
            decision.remembered.append(tombstone)
    decision.dropped = [xid for xid in entities if xid not in held.entities and xid not in deleted]
    return decision
