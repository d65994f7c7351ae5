"""The sink of bringing links: this node's own catalog."""

from __future__ import annotations

from dataclasses import replace

from catalog.model.masking import counted
from catalog.store import links
from replication.applying.apply import AppliedBatch, Batch, apply_batch
from replication.applying.deletionlimit import check_losses
from replication.applying.eviction import (
    doubt_copies,
    drop_deselected,
    drop_doubted,
    drop_unlabelled,
    evict,
)
from replication.applying.renaming import rename_groups, rewrite_endpoints
from replication.deciding.decide import CONFLICTS
from replication.deciding.placement import mapping_of, rules_of
from replication.peers.keyhistories import ensure_keys
from replication.peers.linkbounds import MEASURED_AGAIN, check_held
from replication.sources.copypages import CopyPage
from replication.sources.sourcecomparison import SourceComparison, losses_in
from replication.store import doubtedcopies
from replication.transfer.linkrun import Applied, LinkRun
from replication.transfer.transfer import LinkSink


class Here(LinkSink):
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
        return counted(await evict(self._run.context, self._run.link), "replicas")

    async def reconsider(self) -> None:
        """Drop deselected replicas, and give the remaining replicas new names and addresses."""
        run, policy = self._run, self._run.policy
        if run.link.former is None:
            return
        if number := await drop_deselected(run.context, run.link, policy):
            await run.remember("left", f"{counted(number, 'replicas')} no longer selected")
        if number := await rename_groups(run.context, run.link, policy):
            await run.remember("renamed", counted(number, "groups"))
        if number := await rewrite_endpoints(run.context, run.link, policy):
            await run.remember("readdressed", counted(number, "endpoints"))
        async with run.database.transaction() as connection:
            await links.note_reconsidered(connection, run.link)
        run.link = replace(run.link, former=())

    async def begin(self, found: SourceComparison | None) -> None:
        """Doubt the held copies of the source's authority, before they are copied.

        The complete copy, or the comparison, then shows the entities that the source lacks. Doubted
        copies are replaced or dropped only if an operator has set up the link since the last copy:
        a source that lost data by accident does not delete the replicas.

        Args:
            found: the comparison, if only differing origins are copied.

        Raises:
            TooManyDeletions: nothing was doubted, and the link asks.
        """
        run, link = self._run, self._run.link
        self._doubts_compared = False
        if found is None:
            overruled = self._overrules and link.doubts
            await doubt_copies(run.context, link, run.policy, overruled=overruled)
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
            left = await drop_unlabelled(run.context, run.link, run.policy, page.labelled)
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
        run, definition = self._run, self._run.link.definition
        await ensure_keys(run.context, run.peer, page.copies, sender=run.policy.sender)
        batch = Batch(
            copies=page.copies,
            policy=run.policy,
            link=run.link,
            cursor=page.cursor,
            behind=page.behind,
            size=run.arrived.take(run.peer.received),
            is_bulk=page.is_bulk or self._doubts_compared,
            mapping=mapping_of(definition),
            addresses=rules_of(definition),
        )
        async with run.resources.gate.turn(is_bulk=batch.is_bulk) as turn:
            applied = await apply_batch(run.context, batch)
            turn.has_delayed = applied.has_delayed
        return applied

    async def _settle(self) -> None:
        """Drop the copies that their authority lacks after a complete copy, and unlabelled copies.

        Raises:
            TooManyDeletions: nothing was dropped, and the link asks.
        """
        run, policy = self._run, self._run.policy
        number = await drop_doubted(run.context, run.link, policy, is_allowed=run.is_allowed)
        if number:
            await run.remember("dropped", f"{counted(number, 'replicas')} not at their authority")
        if number := await drop_unlabelled(run.context, run.link, policy):
            await run.remember("left", f"{counted(number, 'replicas')} without the labels")
