"""Runs one link that pushes, or that accepts pushes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import structlog

from catalog.client import ClientError, Refused
from catalog.model.entity import Origin
from catalog.model.masking import counted
from catalog.operations.feed import MOST_CHANGES
from catalog.store import links
from catalog.store.changes import Position, read_head
from catalog.store.links import Link, LinkReplaced
from catalog.store.loghistory import why_lost
from replication.deciding.pinning import policy_of
from replication.feed.confirmations import SAVE_SECONDS
from replication.feed.feedpages import CursorGone, Page, ServerLeft, read_feed
from replication.feed.ownlog import LOG, next_page
from replication.links.linkrunner import LinkRunner, SnapshotNeeded
from replication.peers.handshake import describe, shake_hands
from replication.peers.linkerrors import class_of
from replication.sinks.push import PushFlow, push_again, push_everything, push_page, why_no_target
from replication.sinks.pushcomparison import push_differing
from replication.sinks.pushconflicts import learn_conflicts

_OUT_OF_STEP, _AWAITS_ANSWER = "push_out_of_step", "push_awaits_answer"
# A target that waits for its operator's answer is asked again after so many seconds.
_ANSWER_SECONDS = 2.0


_log = structlog.get_logger(__name__)


class AcceptanceRunner(LinkRunner):
    """Drops and renames pushed replicas as an operator asks. Requests do everything else."""

    async def _follow(self) -> None:
        await self._drop_replicas()
        own = self._database.node.authority
        policy = policy_of(self.link.definition, own=own, source=self.link.authority or "")
        await self._reconsider(self.link, policy)
        await asyncio.Event().wait()


class PushRunner(LinkRunner):
    """Pushes what the target of a link does not have, then every change.

    The target keeps the cursor, with the copies before it. So nothing is lost or sent twice for
    long, whichever of the two catalogs stops, or goes back to a backup.
    """

    # The copies that came spoilt at the target, and that are of nothing that is here.
    _strays: Sequence[Origin] = ()
    # What the target asked its operator last.
    _question = ""

    async def _follow(self) -> None:
        try:
            flow, saved = await self._meet_target()
            position = await self._known_position(flow, saved)
            if position is None:
                position = await self._push_all(flow)
            await self._push_changes(flow, position)
        except CursorGone as error:
            await self._begin_again(error.title)
        except SnapshotNeeded as error:
            await self._begin_again(error.message)
        except Refused as error:
            if error.problem.name == _AWAITS_ANSWER:
                await self._await_answer(error)
                return
            if error.problem.name != _OUT_OF_STEP:
                raise
            await self._remember("out of step", describe(error, self._peer.url))
            await self._resources.timing.sleep(self._delay(1))

    async def _await_answer(self, error: Refused) -> None:
        """Wait before the target is asked again: its operator's answer takes effect soon."""
        message, self._failures = describe(error, self._peer.url)[:1000], 0
        is_new = message != self._question
        self._question = message
        if is_new:
            _log.warning("link waits for the answer to its target's question", link=self.id)
        error_class = class_of(error) if is_new else None
        await self._report("refused", error=message, error_class=error_class)
        await self._resources.timing.sleep(_ANSWER_SECONDS)

    async def _begin_again(self, reason: str) -> None:
        async with self._database.transaction() as connection:
            await links.forget_cursor(connection, self.link)
        await self._remember("resynchronise", reason)
        await self._resources.timing.sleep(self._delay(1))

    async def _meet_target(self) -> tuple[PushFlow, str | None]:
        """Ask the target who it is; another instance gets a complete copy."""
        context = self._resources.context
        target = await shake_hands(self._peer)
        if fault := why_no_target(context, target):
            raise ClientError(
                f"Nothing can be pushed to {self._peer.url}: {fault}.",
                "Let the link lead to another catalog.",
            )
        async with self._database.transaction() as connection:
            link = await links.get(connection, self.id)
            if link is None:
                raise LinkReplaced(self.id)
            _check_authority(link, target.authority)
            other = await links.find_pushing(connection, target.instance, link)
            if other is not None:
                raise ClientError(
                    f"Link {other} pushes to the same target.",
                    f"Remove one of the two: `concord link remove {self.id}`.",
                )
            saved = await links.meet(
                connection, self.link, target.instance, target.authority, target.base
            )
        if link.instance not in (None, target.instance):
            detail = f"the target is {target.instance} now, it was {link.instance}"
            await self._remember("another instance", detail)
        flow = PushFlow(context=context, link=link, peer=self._peer, target=target)
        return flow, saved

    async def _known_position(self, flow: PushFlow, saved: str | None) -> Position | None:
        """The position up to which the target has everything, if it can be gone on from."""
        self._strays = await learn_conflicts(flow)
        cursor = flow.own_cursor(flow.after)
        async with self._database.snapshot(self._database.pools.tasks) as connection:
            head = await read_head(connection)
            flow.loss = "" if cursor is None else await why_lost(connection, cursor)
        if flow.loss:
            await self._remember("lost data", f"This node lost what it had sent: {flow.loss}.")
        if saved is None:
            # The complete copy brings what they were of.
            self._strays = []
            return None
        if flow.loss:
            return None
        if cursor is None or not head.reaches(cursor.position):
            await self._remember("resynchronise", "the target has no cursor of this log")
            return None
        return cursor.position

    async def _push_all(self, flow: PushFlow) -> Position:
        await self._report("copying")
        found = None if flow.needs_all or flow.loss else await push_differing(flow)
        if found is not None:
            differing = f"{found.differing} of {counted(found.rows, 'origins')} differ"
            await self._remember("compared", f"{differing}: {counted(found.copies, 'copies')}")
            return found.position
        position, number = await push_everything(flow)
        await self._remember("copied", counted(number, "copies"))
        return position

    async def _push_changes(self, flow: PushFlow, position: Position) -> None:
        """Push the pages of the log as it grows, for ever."""
        loop = asyncio.get_running_loop()
        interval = self._resources.context.settings.pull_interval_seconds
        page: Page | None = None
        left = self._database.shared.servers_left
        told_at, reported_at = -interval, float("-inf")
        while True:
            self.wakeup.clear()
            if self._database.shared.servers_left != left:
                raise ServerLeft(LOG)
            page = page or await read_feed(self._database, LOG, position, MOST_CHANGES)
            is_last = page.end < page.seen
            number = await push_page(flow, page)
            position = page.end
            if is_last:
                told_at = loop.time() if number else told_at
                await self._push_refused(flow)
                if loop.time() - told_at >= interval:
                    await flow.confirm(position)
                    told_at = loop.time()
                # The progress of copies, if there were any, was saved with the state `current`.
                if not number or loop.time() - reported_at >= SAVE_SECONDS:
                    self._failures, reported_at = 0, loop.time()
                    await self._report("current", currentat=datetime.now(UTC))
                page = await next_page(self._database, self.wakeup, page.seen, interval)
            else:
                page = None

    async def _push_refused(self, flow: PushFlow) -> None:
        """Push again what the target did not apply, since the cause may be gone."""
        now, requested = asyncio.get_running_loop().time(), self._requested
        interval = self._resources.context.settings.pull_interval_seconds
        is_requested = requested != self._retried
        if not is_requested and now - self._retried_at < interval:
            return
        self._retried_at, self._retried = now, requested
        await push_again(flow, with_refused=is_requested)
        await self._replace_strays(self._strays)


def _check_authority(link: Link, claimed: str) -> None:
    """Check that the target is the authority that it is pinned to.

    Raises:
        ClientError: it claims another one.
    """
    if link.authority not in (None, claimed):
        raise ClientError(
            f"The target is pinned to the authority {link.authority}, and claims to be {claimed}.",
            f"If it is, pin the link to it with `concord link pin {link.id}`.",
        )
