"""The sink of bringing links, this node's own catalog: applies pages, or predicts their effect.

A dry run finds out the effect by digests or by a walk, without a write. Its decisions are the
decisions of a real run, but only the digests of copies are known. Faults in the content, such as a
value of a wrong type, appear only when the copies arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from catalog.context import Context
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.masking import counted
from catalog.model.xid import Xid, parent_of
from catalog.operations.feed import Verdict
from catalog.store import links
from catalog.store.database import Connection
from catalog.store.links import Link
from replication.applying import replicas
from replication.applying.apply import AppliedBatch, Batch, apply_batch, load_local
from replication.applying.deletionlimit import check_losses, find_question
from replication.deciding.batch import BatchDecision, decide_batch, order_of, origin_of
from replication.deciding.copychecks import Copy, Incoming, MalformedCopy
from replication.deciding.decide import CONFLICTS
from replication.deciding.placement import groups_of, mapping_of, place_copies, rules_of
from replication.deciding.provenance import Policy, meet_claim, met
from replication.peers.handshake import shake_hands, why_lost
from replication.peers.keyhistories import ensure_keys
from replication.peers.linkbounds import MEASURED_AGAIN, LinkGate, check_held
from replication.sources.copypages import CopyPage, without_content
from replication.sources.sourcecomparison import SourceComparison, compare, losses_in
from replication.sources.topicsource import TopicSource
from replication.sources.walkedcopies import find_absent
from replication.sources.walksource import WalkSource
from replication.store import doubtedcopies
from replication.store.copies import load_held
from replication.transfer.comparison import DifferingOrigin
from replication.transfer.linkrun import Applied, LinkRun
from replication.transfer.transfer import DryRun, LinkSink, outcome_of

_AT_ONCE = 1000


async def apply_in_turn(context: Context, gate: LinkGate, link: Link, batch: Batch) -> AppliedBatch:
    """Apply a batch when the gate admits it, with the local names and addresses of a link."""
    mapping, addresses = mapping_of(link.definition), rules_of(link.definition)
    batch = replace(batch, link=link, mapping=mapping, addresses=addresses)
    async with gate.turn(is_bulk=batch.is_bulk) as turn:
        applied = await apply_batch(context, batch)
        turn.has_delayed = applied.has_delayed
    return applied


class OwnCatalog(LinkSink):
    """Applies pages of copies; the copies and the cursor after them share a transaction.

    Args:
        overrules: from the beginning of a complete copy, a newly set up link replaces held copies
            whatever the epochs.
    """

    def __init__(self, run: LinkRun, *, overrules: bool = True) -> None:
        self._run = run
        self._overrules = overrules
        # Changes since the last count of replicas; the initial value makes the first page count
        # them.
        self._unmeasured = run.settings.link_copies
        self._doubts_compared = False

    async def drop(self) -> str:
        """Drop the replicas as an operator asked; return a description for the history."""
        return counted(await replicas.evict(self._run.context, self._run.link), "replicas")

    async def reconsider(self) -> None:
        """Drop deselected replicas, and give the remaining replicas new names and addresses."""
        run, policy = self._run, self._run.policy
        if run.link.former is None:
            return
        if number := await replicas.drop_deselected(run.context, run.link, policy):
            await run.remember("left", f"{counted(number, 'replicas')} no longer selected")
        if number := await replicas.rename_groups(run.context, run.link, policy):
            await run.remember("renamed", counted(number, "groups"))
        if number := await replicas.rewrite_endpoints(run.context, run.link, policy):
            await run.remember("readdressed", counted(number, "endpoints"))
        async with run.database.transaction() as connection:
            await links.note_reconsidered(connection, run.link)
        run.link = replace(run.link, former=())

    async def begin(self, found: SourceComparison | None) -> None:
        """Doubt the held copies of the source's authority, before all or `found` ones are copied.

        The complete copy, or the comparison, then shows the entities that the source lacks. Doubted
        copies are replaced or dropped only if an operator has set up the link since the last copy:
        a source that lost data by accident does not delete the replicas.

        Raises:
            TooManyDeletions: nothing was doubted, and the link asks.
        """
        run, link = self._run, self._run.link
        self._doubts_compared = False
        if found is None:
            overruled = self._overrules and link.doubts
            await replicas.doubt_copies(run.context, link, run.policy, overruled=overruled)
            return
        if not run.is_allowed:
            losses = losses_in(found, link)
            await check_losses(run.context, link, run.policy, losses, pending=len(found.differing))
        async with run.database.transaction() as connection:
            await links.expect(connection, link, len(found.wanted))
            doubted = {
                each.origin.xid: each.here.digest
                for each in found.differing
                if each.here is not None and found.policy.is_own_word(each.origin)
            }
            # Copies doubted by an earlier, interrupted comparison stay doubted if they still
            # differ.
            if link.doubts:
                await doubtedcopies.doubt_only(connection, link, doubted)
                self._doubts_compared = bool(doubted)
            else:
                self._doubts_compared = await doubtedcopies.keep_among(
                    connection, link.id, list(doubted)
                )

    async def apply(self, page: CopyPage) -> Applied:
        """Apply a page, and save its cursor in the same transaction.

        Raises:
            LinkReplaced
            TooManyDeletions: the deletion was not applied, and the link asks.
            TooMuchSent: this node has more replicas than a link may bring.
        """
        run, applied = self._run, Applied()
        if page.losses:
            await check_losses(run.context, run.link, run.policy, page.losses)
        if page.labelled:
            left = await replicas.drop_unlabelled(run.context, run.link, run.policy, page.labelled)
            applied = Applied(changes=left, deleted=left)
        own = [each.xid for each in page.present if run.policy.is_own_word(each)]
        if own:
            # The origins are no longer doubted, even if their copies came by a different link.
            async with run.database.transaction() as connection:
                await doubtedcopies.settle(connection, run.link.id, own)
        if page.copies or page.cursor is not None:
            page.applied = brought = await self._apply(page)
            applied.copies = len(brought.findings)
            applied.changes += brought.changes
            applied.deleted += brought.deleted
            applied.conflicts = sum(each.verdict in CONFLICTS for each in brought.findings)
        if page.cursor is not None:
            self._doubts_compared = False
        if page.lists_all:
            await self._settle()
        self._unmeasured += applied.changes
        if self._unmeasured >= run.settings.link_copies // MEASURED_AGAIN:
            await check_held(run.context, run.policy)
            self._unmeasured = 0
        return applied

    def told(self, total: Applied) -> tuple[str, str]:
        """The event of a complete copy in the history of the link, and its details."""
        return "copied", total.text

    async def _apply(self, page: CopyPage) -> AppliedBatch:
        run = self._run
        await ensure_keys(run.context, run.peer, page.copies, sender=run.policy.sender)
        batch = Batch(
            copies=page.copies,
            policy=run.policy,
            cursor=page.cursor,
            behind=page.behind,
            size=run.peer.take_received(),
            is_bulk=page.is_bulk or self._doubts_compared,
        )
        return await apply_in_turn(run.context, run.resources.gate, run.link, batch)

    async def _settle(self) -> None:
        """Drop the copies that their authority lacks after a complete copy, and unlabelled ones."""
        run, policy = self._run, self._run.policy
        number = await replicas.drop_doubted(
            run.context, run.link, policy, is_allowed=run.is_allowed
        )
        if number:
            await run.remember("dropped", f"{counted(number, 'replicas')} not at their authority")
        if number := await replicas.drop_unlabelled(run.context, run.link, policy):
            await run.remember("left", f"{counted(number, 'replicas')} without the labels")


async def try_feed(run: LinkRun) -> DryRun | None:
    """Compare a link with the node that it would follow, and decide about the differing origins.

    Returns `None` if the source offers no digests to compare, or too much differs to be listed.
    """
    run.source = await shake_hands(run.peer)
    await _meet(run, why_lost(run.link, run.source.instance))
    found = await compare(run, is_whole=True)
    if found is None:
        return None
    result = DryRun(rows=found.rows, differing=len(found.differing))
    async with run.context.database.snapshot() as connection:
        promised = await _place(connection, run, [*_promised(found.differing, result)])
        gone = await _decide_all(connection, _policy(run, found), promised, result)
    # The source of a newly set up link does not have these entities of this node at all.
    for each in found.differing if run.link.doubts else ():
        if each.here is None or each.here.is_deleted or each.there is not None:
            continue
        if found.policy.is_own_word(each.origin) and each.origin.xid not in gone:
            result.note("deleted", each.origin, each.here.epoch)
    losses = losses_in(found, run.link)
    result.question = await find_question(run.context, run.link, run.policy, losses)
    return result


async def try_walk(run: LinkRun) -> DryRun:
    """Walk the server of a link, and decide about the differing entities."""
    source = WalkSource(run)
    await source.meet()
    await _meet(run)
    walk = source.new_walk()
    copies, gone = await walk.preview()
    result = DryRun(rows=walk.walked.entities, differing=len(copies) + len(gone))
    await _decide_copies(run, copies, result)
    for xid in gone:
        result.note("deleted", Origin(run.policy.sender, xid))
    losses = walk.losses_among(gone)
    result.question = await find_question(run.context, run.link, run.policy, losses)
    return result


async def try_topic(run: LinkRun) -> DryRun:
    """Read the topic of a link to the end, and decide about every copy in the topic."""
    source, policy = TopicSource(run), run.policy
    newest: dict[Origin, Incoming] = {}
    async with source.opened():
        await source.meet()
        await _meet(run)
        await source.resume(None)
        async with contextlib.aclosing(source.everything(None)) as pages:
            async for page in pages:
                if page.lists_all:
                    break
                for copy in map(without_content, page.copies):
                    origin = Origin(copy.authority, copy.origin)
                    if policy.admits(origin):
                        newest[origin] = copy
    result = DryRun(rows=len(newest), differing=0)
    await _decide_copies(run, [*newest.values()], result)

    def is_expected(xid: str) -> bool:
        origin = Origin(policy.sender, xid)
        return origin in newest or not policy.admits(origin)

    for xid in await find_absent(run, is_expected) if run.link.doubts else ():
        result.note("deleted", Origin(policy.sender, xid))
    result.differing = result.numbers.total() - result.numbers[Verdict.CURRENT.value]
    return result


async def _meet(run: LinkRun, loss: str = "") -> None:
    """Check the authority of the source as a real run does, and store nothing."""
    source = run.source
    assert source is not None, "the link has met its source"
    async with run.database.snapshot() as connection:
        await meet_claim(connection, run.link, source.authority)
    run.link = met(run.link, source.instance, source.authority, loss)


def _policy(run: LinkRun, found: SourceComparison) -> Policy:
    """The policy of a run; a newly set up link overrules copies of the source's authority."""
    if not run.link.doubts:
        return found.policy
    doubted = frozenset(
        each.here.digest
        for each in found.differing
        if each.here is not None and found.policy.is_own_word(each.origin)
    )
    return replace(found.policy, overruled=found.policy.overruled | doubted)


async def _decide_copies(run: LinkRun, copies: Sequence[Incoming], result: DryRun) -> None:
    """Decide about arrived copies without their content."""
    malformed = [copy for copy in copies if isinstance(copy, MalformedCopy)]
    readable = [copy for copy in copies if not isinstance(copy, MalformedCopy)]
    async with run.context.database.snapshot() as connection:
        placed = await _place(connection, run, readable)
        await _decide_all(connection, run.policy, [*placed, *malformed], result)


async def _place(connection: Connection, run: LinkRun, promised: Sequence[Copy]) -> list[Incoming]:
    """Place the copies at their xids in this catalog."""
    groups = (await load_held(connection, (), groups_of(promised))).entities
    held = {origin_of(group): group.xid for group in groups.values()}
    return place_copies(promised, mapping_of(run.link.definition), held)


async def _decide_all(
    connection: Connection, policy: Policy, promised: Iterable[Incoming], result: DryRun
) -> set[str]:
    """Decide in parts, each on the state after the earlier parts; return the deleted paths."""
    promised = sorted(promised, key=order_of)
    coming: dict[str, Entity] = {}
    gone: set[str] = set()
    for start in range(0, len(promised), _AT_ONCE):
        part = promised[start : start + _AT_ONCE]
        valid = [copy for copy in part if not isinstance(copy, MalformedCopy)]
        held, tombstones = await load_local(connection, valid)
        held = {xid: entity for xid, entity in held.items() if xid not in gone}
        held |= {entity.xid: entity for entity in _coming_among(valid, coming)}
        decision = decide_batch(part, held, tombstones, policy)
        _note(decision, held, result)
        coming |= {entity.xid.lower(): entity for entity in decision.written}
        gone |= {tombstone.xid for tombstone in decision.deleted} | {*decision.dropped}
        await asyncio.sleep(0)
    return gone


def _coming_among(part: Iterable[Copy], coming: Mapping[str, Entity]) -> Iterator[Entity]:
    """The entities from earlier parts that are at or directly above the copies of a part."""
    for copy in part:
        for xid in (copy.xid, parent_of(copy.xid)):
            if (entity := coming.get(xid.lower())) is not None:
                yield entity


def _note(decision: BatchDecision, held: Mapping[str, Entity], result: DryRun) -> None:
    live = {*map(origin_of, held.values())}
    deleted = {*map(origin_of, (*decision.deleted, *decision.remembered))}
    for finding in decision.findings:
        outcome = finding.verdict.value
        if finding.verdict is Verdict.APPLY:
            is_here, is_deletion = finding.origin in live, finding.origin in deleted
            outcome = outcome_of(is_deletion=is_deletion, is_there=is_here)
        result.add(outcome, finding)
    for xid in decision.dropped:
        result.note("deleted", origin_of(held[xid]), held[xid].epoch, xid)


def _promised(differing: Sequence[DifferingOrigin], result: DryRun) -> Iterator[Copy]:
    """The copies that the source has; a path that is no xid counts as invalid."""
    now = datetime.now(UTC)
    for each in differing:
        if each.there is None:
            continue
        origin, there = each.origin, each.there
        try:
            kind = Xid.parse(origin.xid).kind
        except ValueError:
            result.note(Verdict.INVALID.value, origin, there.epoch)
            continue
        if there.is_deleted:
            yield Tombstone(
                xid=origin.xid,
                kind=kind,
                authority=origin.authority,
                origin=origin.xid,
                epoch=there.epoch,
                deletedat=now,
            )
        else:
            # The digest is not checked, since the content is unknown.
            yield Entity(
                xid=origin.xid,
                kind=kind,
                authority=origin.authority,
                origin=origin.xid,
                epoch=there.epoch,
                attributes={},
                createdat=now,
                modifiedat=now,
                digest=there.digest,
            )
