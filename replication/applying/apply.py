"""Applies incoming copies to the database: one batch, one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from catalog.context import Context
from catalog.keys.entitysignature import EntitySigner
from catalog.model.caller import EVERYTHING, Author, Everything, WriteScope
from catalog.model.change import Change
from catalog.model.configuration import Configuration
from catalog.model.confluentattribute import schema_id_of
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.errors import ServerBusy
from catalog.model.masking import counted
from catalog.model.schema import Model
from catalog.model.tracecontext import TraceContext
from catalog.model.xid import group_path, parent_of
from catalog.operations.feed import Verdict
from catalog.store import entities as store
from catalog.store import links, schemaids
from catalog.store.database import Connection
from catalog.store.links import Link
from catalog.store.locks import (
    ConfigurationChanged,
    Gate,
    MustBeginAgain,
    Touched,
    is_awaited,
    lock_and_load,
)
from catalog.store.writes import Write, write
from catalog.telemetry.tracing import TraceSpans
from catalog.writing.writescope import check_writes
from replication.applying.deletionlimit import asking, count_losses
from replication.deciding.batch import (
    BatchDecision,
    changes_of,
    decide_batch,
    origin_of,
    raised_registry,
)
from replication.deciding.copychecks import Copy, Incoming, MalformedCopy, check_copies
from replication.deciding.copycontent import side_of
from replication.deciding.decide import NOT_BROUGHT, SETTLED
from replication.deciding.placement import (
    NO_RULES,
    UNMAPPED,
    AddressRules,
    GroupMapping,
    PlacesChanged,
    check_places,
    groups_of,
    place_copies,
    rewrite_copies,
)
from replication.deciding.provenance import Policy, policy_within
from replication.signing.copyverification import read_trust, verify_ahead
from replication.store import copies as stored_copies
from replication.store import doubtedcopies, linkconflicts
from replication.store.handovers import read_reservations
from replication.store.linkconflicts import CopyFinding

# A database has room for some thousand locks. Beyond the limit, the whole catalog is locked.
_MOST_LOCKS = 1000
_MOST_ATTEMPTS = 3
_NOT_RECOVERING: frozenset[Gate] = frozenset({"open", "model"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch of copies received together.

    Args:
        copies: the copies, in arbitrary order.
        policy: decides which copies are admitted.
        link: the link that brings the copies, `None` for a repair.
        cursor: the cursor after the copies, saved in the same transaction; `None` if further
            copies belong to the same cursor.
        size: the size of the copies as received, in bytes.
        behind: the number of changes at the source after the copies, if reported.
        is_bulk: the copies belong to the first copy of a link, or to copies that the link doubts.
        is_repair: compute the digests of stored entities again.
        mapping: the local names of groups.
        addresses: the rules for addresses of endpoints.
        writable: the groups to which the sender may write.
        received: the copies as received, also those that are malformed among `copies`.
    """

    copies: Sequence[Incoming]
    policy: Policy
    link: Link | None = None
    cursor: str | None = None
    size: int = 0
    behind: int | None = None
    is_bulk: bool = False
    is_repair: bool = False
    mapping: GroupMapping = UNMAPPED
    addresses: AddressRules = NO_RULES
    writable: WriteScope | Everything = EVERYTHING
    received: Sequence[Incoming] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedBatch:
    """The result of a batch: findings, rows added to the change log, and deleted entities.

    `has_delayed`: the batch was large, and when it was about to commit, a write was waiting for a
    lock of the batch.
    """

    findings: Sequence[CopyFinding]
    changes: int
    deleted: int = 0
    has_delayed: bool = False

    def count(self, verdict: Verdict) -> int:
        return sum(finding.verdict is verdict for finding in self.findings)


async def apply_batch(context: Context, batch: Batch) -> AppliedBatch:
    """Apply a batch together with the cursor and the conflicts of the link, atomically.

    Raises:
        LinkReplaced: nothing was written; the link was replaced or removed.
        TooManyDeletions: nothing was written; the link waits for permission to delete.
        ServerBusy: nothing was written; the database did not answer in time, or the
            configuration keeps changing.
        CatalogRecovering: nothing was written; the batch is of a recovery that has ended.
        Forbidden, Unauthenticated: nothing was written; the sender may not write every copy.
    """
    by = {} if batch.link is None else {"concord.link": batch.link.id}
    with context.shared.tracing.spans_in(
        "apply", traces_of(batch.copies), kind="consumer", attributes=by
    ) as spans:
        for _ in range(_MOST_ATTEMPTS):
            try:
                async with asking(context):
                    return await _apply_under(context, context.configuration, batch, spans)
            except ConfigurationChanged:
                await context.shared.reload()
        raise ServerBusy("/")


async def _apply_under(
    context: Context, configuration: Configuration, batch: Batch, spans: TraceSpans
) -> AppliedBatch:
    # The traces of copies continue from the spans of the node.
    checked: Sequence[Incoming] = [
        copy
        if isinstance(copy, MalformedCopy) or copy.trace is None
        else replace(copy, trace=spans.goes_on(copy.trace))
        for copy in check_copies(batch.copies, configuration.model)
    ]
    checked = rewrite_copies(checked, batch.addresses)
    # Signatures are verified before the transaction, so that no lock is held meanwhile.
    await verify_ahead(context.database, [c for c in checked if not isinstance(c, MalformedCopy)])
    # Copies are placed without locks, so the places are verified under locks, and corrected.
    held: Mapping[Origin, str] = {}
    is_exclusive = False
    for _ in range(_MOST_ATTEMPTS):
        copies = place_copies(checked, batch.mapping, held)
        placed = replace(batch, copies=copies, received=batch.copies)
        try:
            return await _apply_once(context, configuration, placed, held, is_exclusive)
        except PlacesChanged as error:
            held = error.held
        except MustBeginAgain:
            is_exclusive = True
    raise ServerBusy("/")


async def _apply_once(
    context: Context,
    configuration: Configuration,
    batch: Batch,
    held: Mapping[Origin, str],
    is_exclusive: bool,
) -> AppliedBatch:
    database, model, now = context.database, configuration.model, datetime.now(UTC)
    valid = [copy for copy in batch.copies if not isinstance(copy, MalformedCopy)]
    # A node that recovers its own entities must have closed the gate, and not opened it since.
    refused_at = _NOT_RECOVERING if batch.policy.is_recovering else frozenset()
    touched = replace(_touched_by(valid), revision=configuration.revision, refused_at=refused_at)
    if is_exclusive:
        touched = replace(touched, registry_exclusive=True)
    # A batch without effect is no news for the audit: pushers send copies that are stored already.
    async with database.transaction(is_noted=False) as connection:
        locked = (await lock_and_load(connection, touched)).entities
        groups = groups_of(valid)
        entities, tombstones = await load_local(connection, valid, groups)
        live = {origin_of(e): e.xid for e in entities.values() if e.kind == "group"}
        check_places(batch.mapping, held, {o: live[o] for o in groups if o in live})
        if batch.writable is not EVERYTHING:
            await check_writes(connection, batch.writable, [copy.xid for copy in valid])
        if batch.is_repair:
            entities = await _blank_damaged(connection, entities)
        policy = await _policy_under_locks(connection, batch, valid)
        # A handover of a group to the node may concern tombstones and new groups.
        if any(
            isinstance(copy, Tombstone) or (copy.kind == "group" and origin_of(copy) not in live)
            for copy in valid
        ):
            policy = replace(policy, reserved=tuple(await read_reservations(connection)))
        decision = decide_batch(batch.copies, entities, tombstones, policy)
        if batch.link is not None and batch.link.loss is not None:
            going, coming = decision.gone_among(entities), [origin_of(e) for e in decision.written]
            await count_losses(context, connection, batch.link, batch.policy, going, coming)
        changes: Sequence[Change] = ()
        if not decision.is_empty:
            if "/" in locked:
                entities["/"] = locked["/"]
            author = context.caller.author
            changes = await write_decision(
                connection, decision, entities, model, now, author=author, on_loop=True
            )
        await _record(connection, batch, decision, now)
        # Smaller batches are short: waiting writes need no pause after the commit.
        has_delayed = batch.is_bulk and await is_awaited(connection)
    # Signals come after the commit, so that woken readers see the changes.
    if changes:
        database.signal.set(changes)
    elif batch.cursor is not None:
        database.signal.set_progress()
    return AppliedBatch(
        findings=decision.findings,
        changes=len(changes),
        deleted=len(decision.gone_among(entities)),
        has_delayed=has_delayed,
    )


async def _policy_under_locks(
    connection: Connection, batch: Batch, copies: Sequence[Copy]
) -> Policy:
    """The policy of a batch, given trusted keys, other links and the copies that the link doubts.

    The policy is read under the locks of the batch, so that no copy is applied by an outdated
    policy.
    """
    authorities = {copy.authority for copy in copies}
    policy = await policy_within(connection, batch.policy, authorities)
    policy = replace(policy, trust=await read_trust(connection, authorities))
    if batch.link is None or not batch.is_bulk:
        return policy
    told = [copy.origin for copy in batch.copies if copy.authority == policy.sender]
    doubted = await doubtedcopies.settle(connection, batch.link.id, told)
    return replace(policy, overruled=policy.overruled | doubted)


def _touched_by(copies: Iterable[Copy]) -> Touched:
    groups = {group_path(copy.xid) for copy in copies}
    if len(groups) > _MOST_LOCKS:
        return Touched(catalog_exclusive=True)
    return Touched(
        groups=frozenset(groups),
        groups_exclusive=True,
        registry_exclusive=any(
            isinstance(copy, Tombstone) and copy.kind == "group" for copy in copies
        ),
    )


async def load_local(
    connection: Connection, copies: Sequence[Copy], groups: Iterable[Origin] = ()
) -> tuple[dict[str, Entity], dict[Origin, Tombstone]]:
    """Read the entities and tombstones that a decision about copies depends on.

    Reads the entities at the xids and of the origins of the copies, groups and parents, the
    entities below deleted entities, default versions of resources, and tombstones of the origins.
    """
    xids = {copy.xid for copy in copies}
    parents = {parent_of(xid) for xid in xids} - {"/"}
    # A resource shows the default version, so changes depend on the old and the new default.
    defaults = {
        f"{copy.xid}/versions/{copy.attributes.get('defaultversionid')}"
        for copy in copies
        if isinstance(copy, Entity) and copy.kind == "resource"
    }
    origins = {*(origin_of(copy) for copy in copies), *groups}
    entities, tombstones = await stored_copies.load_held(
        connection, xids | parents, origins, defaults
    )
    deleted = {origin_of(copy) for copy in copies if isinstance(copy, Tombstone)}
    roots = [
        entity.xid
        for entity in entities.values()
        if origin_of(entity) in deleted and entity.kind in ("group", "resource")
    ]
    if roots:
        below = await store.load_subtrees(connection, roots)
        entities.update({entity.xid: entity for entity in below})
    return entities, tombstones


async def _blank_damaged(
    connection: Connection, entities: Mapping[str, Entity]
) -> dict[str, Entity]:
    """Blank the digests of damaged entities, so that a damaged entity matches no copy."""
    versions = [xid for xid, entity in entities.items() if entity.kind == "version"]
    hashes = await stored_copies.rehash_documents(connection, versions)
    return {
        xid: entity
        if hashes.get(xid) == entity.document_sha256 and entity.is_intact()
        else replace(entity, digest=b"")
        for xid, entity in entities.items()
    }


async def write_decision(
    connection: Connection,
    decision: BatchDecision,
    before: Mapping[str, Entity],
    model: Model,
    now: datetime,
    *,
    author: Author,
    signer: EntitySigner | None = None,
    retold: Callable[[Iterable[Change]], list[Change]] = list,
    on_loop: bool = False,
) -> Sequence[Change]:
    """Write a decision, in the transaction of a caller that holds the locks.

    Args:
        before: the entities before the batch, with the registry if groups may be created or
            deleted.
        signer: the signer of the node's authority, if the node takes entities over.
        retold: completes the changes.
        on_loop: as in `write`.
    """
    root = before.get("/")
    registry = None if root is None else raised_registry(root, decision, before, now)
    changes = retold(changes_of(decision, before, registry, model))
    documented = {xid for xid, entity in before.items() if entity.document_sha256 is not None}
    if decision.dropped:
        await stored_copies.drop(connection, decision.dropped)
    copies: list[Copy] = [*decision.written, *decision.deleted, *decision.remembered]
    await write(
        connection,
        Write(
            interaction=uuid.uuid4().hex,
            at=now,
            author=author,
            entities=[*decision.written, *([registry] if registry else [])],
            tombstones=[*decision.deleted, *decision.remembered],
            changes=changes,
            dropped_documents=[
                e.xid for e in decision.written if e.document is None and e.xid in documented
            ],
            revived=decision.revived,
            signed=decision.signed,
            traces={each.xid: each.trace for each in copies if each.trace is not None},
            authors={each.xid: each.author for each in copies if each.author is not None},
        ),
        signer=signer,
        on_loop=on_loop,
    )
    return changes


async def _record(
    connection: Connection, batch: Batch, decision: BatchDecision, now: datetime
) -> None:
    """Save the cursor, the counts and the conflicts of the link."""
    settled = [f.origin for f in decision.findings if f.verdict in SETTLED]
    if batch.link is None:
        await linkconflicts.settle(connection, settled)
        return
    await links.save_progress(
        connection,
        batch.link,
        settled=settled,
        cursor=batch.cursor,
        applied=sum(f.verdict is Verdict.APPLY for f in decision.findings),
        at=now,
        copies=len(decision.findings),
        size=batch.size,
        behind=batch.behind,
    )
    if others := [f.origin for f in decision.findings if f.verdict in NOT_BROUGHT]:
        await linkconflicts.drop(connection, batch.link.id, others)
    if conflicts := decision.conflicts:
        received = {Origin(each.authority, each.origin): each for each in batch.received}
        refused = {each.origin: side_of(received.get(each.origin)) for each in conflicts}
        await linkconflicts.add(connection, batch.link.id, conflicts, refused)
    schemas = [each.xid for each in decision.written if schema_id_of(each.attributes) is not None]
    if schemas and (found := await schemaids.find_conflicts_of(connection, schemas)):
        more = f" {counted(len(found) - 1, 'more such ids')}." if found[1:] else ""
        await links.remember(connection, batch.link, now, "schema id", found[0].text + more)


def traces_of(copies: Iterable[Incoming]) -> Iterator[TraceContext]:
    """The traces of the writes that produced copies."""
    for copy in copies:
        if not isinstance(copy, MalformedCopy) and copy.trace is not None:
            yield copy.trace
