"""Judges a batch of incoming copies against what a node holds, without a database."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from catalog.model.change import Change, changes_between
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.errors import MalformedXref
from catalog.model.schema import STRICT_NAME, GroupType, Model
from catalog.model.xid import Xid, depth, is_valid_id
from catalog.writing.crossreferences import check_xref
from replication.decide import CONFLICTS, Copy, LocalState, Policy, Verdict, decide

_MOST_EPOCH = 2**62
_MOST_AUTHORITY = 1024
_MOST_SHOWN = 500
_ID, _FLAG, _TEXT = "an id", "a boolean", "a string"
# What a server computes and stores nevertheless, and what that has to be.
_STORED_OF_VERSION = {
    "ancestorid": _ID,
    "formatvalidated": _FLAG,
    "formatvalidatedreason": _TEXT,
    "compatibilityvalidated": _FLAG,
    "compatibilityvalidatedreason": _TEXT,
}
_STORED_OF_RESOURCE = {"defaultversionid": _ID, "defaultversionsticky": _FLAG}
_ALWAYS_THERE = frozenset({"ancestorid", *_STORED_OF_RESOURCE})


@dataclass(frozen=True, slots=True, kw_only=True)
class MalformedCopy:
    """What came in the place of a copy, with as much of its identity as could be read."""

    authority: str
    origin: str
    xid: str
    epoch: int
    reason: str


Incoming = Entity | Tombstone | MalformedCopy


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFinding:
    """One copy with its verdict; `detail` says why, where that is not plain."""

    origin: Origin
    xid: str
    epoch: int
    verdict: Verdict
    detail: str = ""


class HeldEntities:
    """What a node holds of everything that a batch touches, as it changes while it is judged.

    Args:
        entities: by xid; with the parents of what comes and all below what may go.
        tombstones: by origin.
    """

    def __init__(
        self, entities: Mapping[str, Entity], tombstones: Mapping[Origin, Tombstone]
    ) -> None:
        self.entities = dict(entities)
        self.tombstones = dict(tombstones)
        self._by_origin = {origin_of(e): e for e in entities.values()}
        self._by_place = {xid.lower(): xid for xid in entities}
        self._children: dict[str, set[str]] = defaultdict(set)
        for xid in entities:
            self._children[_parent(xid)].add(xid)

    def place_of(self, copy: Copy) -> LocalState:
        origin = origin_of(copy)
        held = self._by_origin.get(origin) or self.tombstones.get(origin)
        occupant = self.entities.get(self._by_place.get(copy.xid.lower(), ""))
        if occupant is not None and origin_of(occupant) == origin:
            occupant = None
        return LocalState(held=held, occupant=occupant, parent=self.entities.get(_parent(copy.xid)))

    def put(self, entity: Entity) -> None:
        """Hold an entity; it stays where its origin is held already."""
        self.tombstones.pop(origin_of(entity), None)
        self.entities[entity.xid] = entity
        self._by_origin[origin_of(entity)] = entity
        self._by_place[entity.xid.lower()] = entity.xid
        self._children[_parent(entity.xid)].add(entity.xid)

    def bury(self, tombstone: Tombstone) -> None:
        """Hold a tombstone in place of its entity, and nothing of what was below that."""
        held = self._by_origin.get(origin_of(tombstone))
        if held is not None:
            self._remove(held.xid)
        self.tombstones[origin_of(tombstone)] = tombstone

    def _remove(self, xid: str) -> None:
        for child in list(self._children[xid]):
            self._remove(child)
        entity = self.entities.pop(xid)
        del self._by_origin[origin_of(entity)]
        del self._by_place[xid.lower()]
        self._children[_parent(xid)].discard(xid)


@dataclass(slots=True, kw_only=True)
class BatchDecision:
    """What a batch comes to.

    `written` are the new states of entities; `deleted` the tombstones of those that were
    here, `remembered` of those that were not; `dropped` lay below something deleted, and
    their own tombstones are still to come; `revived` are origins whose tombstones go.
    """

    findings: list[CopyFinding]
    written: list[Entity] = field(default_factory=list)
    deleted: list[Tombstone] = field(default_factory=list)
    remembered: list[Tombstone] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    revived: list[Origin] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is new."""
        return not (self.written or self.deleted or self.remembered)

    @property
    def verdicts(self) -> Counter[Verdict]:
        return Counter(finding.verdict for finding in self.findings)

    @property
    def conflicts(self) -> list[CopyFinding]:
        return [finding for finding in self.findings if finding.verdict in CONFLICTS]


def sift(copies: Iterable[Incoming], model: Model) -> list[Incoming]:
    """The same copies; those that can't be true, whatever is held, are malformed now."""
    sifted: list[Incoming] = []
    for copy in copies:
        if not isinstance(copy, MalformedCopy) and (fault := why_invalid(copy, model)):
            copy = MalformedCopy(
                authority=copy.authority[:_MOST_SHOWN].replace("\0", ""),
                origin=copy.origin[:_MOST_SHOWN].replace("\0", ""),
                xid=copy.xid[:_MOST_SHOWN].replace("\0", ""),
                epoch=min(max(copy.epoch, 0), _MOST_EPOCH),
                reason=fault,
            )
        sifted.append(copy)
    return sifted


def decide_batch(
    batch: Iterable[Incoming],
    entities: Mapping[str, Entity],
    tombstones: Mapping[Origin, Tombstone],
    policy: Policy,
) -> BatchDecision:
    """Decide about every copy of a sifted batch, as if they came one after the other.

    Deletions are taken first, the deepest first, then entities, parents first: the order
    in which a page has them does not matter. A repeated origin counts by its epoch.
    """
    holdings = HeldEntities(entities, tombstones)
    touched: dict[Origin, None] = {}
    findings = []
    for copy in sorted(batch, key=_turn):
        finding = _judge_one(copy, holdings, policy)
        findings.append(finding)
        if finding.verdict is Verdict.APPLY and not isinstance(copy, MalformedCopy):
            touched[finding.origin] = None
            if isinstance(copy, Tombstone):
                holdings.bury(copy)
            else:
                holdings.put(copy)
    return _conclude(findings, touched, entities, tombstones, holdings)


def changes_of(
    judgement: BatchDecision, before: Mapping[str, Entity], registry: Entity | None, model: Model
) -> list[Change]:
    """The change rows of a judgement; none if nothing is new.

    Args:
        judgement: what is about to be written.
        before: what was held, by xid.
        registry: the registry's new state, if groups came or went.
        model: says what documents are called.
    """
    after: dict[str, Entity | Tombstone] = {e.xid: e for e in judgement.written}
    after |= {t.xid: t for t in judgement.deleted if t.xid not in after}
    if registry is not None:
        after["/"] = registry
    changes = changes_between(before, after, model)
    changes += [_end_of(tombstone) for tombstone in judgement.remembered]
    return sorted(changes, key=lambda change: (depth(change.xid), change.xid))


def _end_of(tombstone: Tombstone) -> Change:
    """A deletion of what is not here is a change, too: those who follow this node may have it."""
    return Change(
        xid=tombstone.xid,
        kind=tombstone.kind,
        action="deleted",
        authority=tombstone.authority,
        origin=tombstone.origin,
        epoch=tombstone.epoch,
        digest=tombstone.digest,
    )


def raised_registry(
    registry: Entity, judgement: BatchDecision, before: Mapping[str, Entity], at: datetime
) -> Entity | None:
    """The registry with its next epoch if groups come or go (core/spec.md, "epoch Attribute")."""
    comes = any(e.kind == "group" and e.xid not in before for e in judgement.written)
    goes = any(t.kind == "group" for t in judgement.deleted)
    if not (comes or goes):
        return None
    raised = replace(registry, epoch=registry.epoch + 1, modifiedat=max(at, registry.modifiedat))
    return replace(raised, digest=raised.content_digest())


def origin_of(copy: Copy) -> Origin:
    return Origin(copy.authority, copy.origin)


def _parent(xid: str) -> str:
    """The parent's path, by text: `xid` was checked when it came in."""
    if xid == "/":
        return ""
    return xid.rsplit("/", 2)[0] or "/"


def _turn(copy: Incoming) -> tuple[int, int, str, int]:
    match copy:
        case Tombstone():
            return 0, -depth(copy.xid), copy.xid, copy.epoch
        case Entity():
            return 1, depth(copy.xid), copy.xid, copy.epoch
        case MalformedCopy():
            return 2, 0, copy.origin, copy.epoch


def _judge_one(copy: Incoming, holdings: HeldEntities, policy: Policy) -> CopyFinding:
    if isinstance(copy, MalformedCopy):
        verdict, detail = Verdict.INVALID, copy.reason
    else:
        place = holdings.place_of(copy)
        verdict = _decide(place, copy, policy)
        detail = _explain(verdict, place, copy) if verdict in CONFLICTS else ""
    return CopyFinding(
        origin=Origin(copy.authority, copy.origin),
        xid=copy.xid,
        epoch=copy.epoch,
        verdict=verdict,
        detail=detail,
    )


def _decide(place: LocalState, copy: Copy, policy: Policy) -> Verdict:
    try:
        return decide(place, copy, policy)
    except ValueError:
        # Numbers and text that have no canonical form have no digest either.
        return Verdict.INVALID


def why_invalid(copy: Copy, model: Model) -> str:
    """What is wrong with a copy, whatever is held; empty if nothing is.

    Copies come from other catalogs, so nothing about them is taken for granted.
    """
    try:
        path = Xid.parse(copy.xid)
    except ValueError:
        return "its xid is not the path of an entity"
    if copy.xid != copy.origin:
        return "its xid is not the one that it has at its authority"
    if copy.kind != path.kind or path.kind == "registry":
        return f"it is not a {copy.kind}"
    if not 0 <= copy.epoch <= _MOST_EPOCH:
        return "its epoch is out of range"
    if not 0 < len(copy.authority) <= _MOST_AUTHORITY or "\0" in copy.authority:
        return "its authority is not a URI of reasonable length"
    return _fault_of(copy, path, model) if isinstance(copy, Entity) else ""


def _fault_of(entity: Entity, path: Xid, model: Model) -> str:
    """What would keep an entity from being shown, or make it pass for another one."""
    group = model.group_type(path.groups)
    if group is None or (path.resources and path.resources not in group.resources):
        return f"the model here has no type for {path.groups}/{path.resources}".rstrip("/")
    if path.kind == "resource" and "xref" in entity.attributes:
        return _fault_of_reference(entity, path, model)
    managed, kept = _names_kept_back(group, path)
    for name in entity.attributes:
        if name not in kept and (name in managed or not STRICT_NAME.fullmatch(name)):
            return f'it has an attribute of its own named "{name[:64]}"'
    for name, what in kept.items():
        value = entity.attributes.get(name)
        if not (_is(what, value) or (value is None and name not in _ALWAYS_THERE)):
            return f'its "{name}" is not {what}'
    return ""


def _fault_of_reference(entity: Entity, path: Xid, model: Model) -> str:
    try:
        check_xref(model, path, entity.attributes["xref"])
    except MalformedXref as error:
        return str(error)
    return "" if len(entity.attributes) == 1 else "it has attributes beside its cross reference"


def _is(what: str, value: object) -> bool:
    if what == _FLAG:
        return type(value) is bool
    return isinstance(value, str) and (what != _ID or is_valid_id(value))


def _names_kept_back(group: GroupType, path: Xid) -> tuple[frozenset[str], Mapping[str, str]]:
    """The attributes that a server computes, and those of them that it stores nevertheless."""
    if path.kind == "group":
        return group.managed, {}
    kind = group.resources[path.resources]
    if path.kind == "version":
        return kind.managed, _STORED_OF_VERSION
    return kind.meta_managed, _STORED_OF_RESOURCE


def _explain(verdict: Verdict, place: LocalState, copy: Copy) -> str:
    if verdict is Verdict.COLLIDED:
        holder = place.occupant or place.parent
        assert holder is not None
        what = "it" if place.occupant else "its parent"
        return f"here {what} is {holder.xid} of {holder.authority}"
    if verdict is Verdict.DIVERGED:
        return "the copy here has the same epoch and other content"
    if place.held is None and place.parent is None and copy.kind != "group":
        return "its parent is not here"
    return "its digest does not match its content"


def _conclude(
    findings: Sequence[CopyFinding],
    touched: Iterable[Origin],
    entities: Mapping[str, Entity],
    tombstones: Mapping[Origin, Tombstone],
    holdings: HeldEntities,
) -> BatchDecision:
    """Compare what is held in the end with what was held in the beginning."""
    judgement = BatchDecision(findings=list(findings))
    live = {origin_of(e): e.xid for e in entities.values()}
    buried = set()
    for origin in touched:
        tombstone = holdings.tombstones.get(origin)
        if tombstone is None:
            # It may be gone again, below something that another copy deleted.
            if origin.xid in holdings.entities:
                judgement.written.append(holdings.entities[origin.xid])
                judgement.revived += [origin] * (origin in tombstones)
        elif origin in live:
            judgement.deleted.append(replace(tombstone, xid=live[origin]))
            buried.add(live[origin])
        else:
            judgement.remembered.append(tombstone)
    judgement.dropped = [
        xid for xid in entities if xid not in holdings.entities and xid not in buried
    ]
    return judgement
