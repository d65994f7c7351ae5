"""Runs the links of a node: in one process at a time, one task per link."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import structlog

from catalog.context import Context
from catalog.http.outbound import open_session
from catalog.model.errors import ServerBusy
from catalog.store import configuration, links
from catalog.store.database import Connection, Signal, wait_for
from catalog.store.leadership import listening, run_beats, take_over
from catalog.store.links import Link
from replication.linkrunner import LinkResources, LinkTiming, Runner
from replication.notifications import forget_subscription
from replication.remote import RemoteError

_log = structlog.get_logger(__name__)

_TAKE_OVER_SECONDS = 2.0
_LOOK_SECONDS = 5.0
_STOP_SECONDS = 10.0
_FAREWELL_SECONDS = 10.0
_MOST_AT_ONCE = 3


async def run_links(context: Context, *, timing: LinkTiming | None = None) -> None:
    """Run every link of this node, for ever.

    Of several processes of one node the first runs them; the others try every few seconds
    to take its place, which they can when its database connection has ended.
    """
    timing = timing or LinkTiming()
    while True:
        pause = _TAKE_OVER_SECONDS * (1 + timing.random.random())
        try:
            await serve_once(context, timing=timing)
        except* ServerBusy:
            await context.database.recovered()
            pause = 0.0
        # A fault that would come again at once must not end the node.
        except* Exception:
            _log.exception("links interrupted")
        await timing.sleep(pause)


async def serve_once(context: Context, *, timing: LinkTiming) -> None:
    """Run the links until something fails, or return at once while another process does."""
    async with (
        context.database.pool.acquire(timeout=30) as connection,
        take_over(connection, "links") as is_in_charge,
    ):
        if is_in_charge:
            await _serve(context, connection, timing)


async def _serve(context: Context, connection: Connection, timing: LinkTiming) -> None:
    signal = Signal()
    async with open_session(context.settings) as session, asyncio.TaskGroup() as group:
        means = LinkResources(
            context=context,
            session=session,
            gate=asyncio.Semaphore(_MOST_AT_ONCE),
            timing=timing,
        )
        roster = _Roster(means, group)

        def hear(id: str) -> None:
            if id:
                roster.wake(id)
            else:
                signal.set()

        async with (
            listening(connection, links.CHANNEL, hear),
            listening(connection, configuration.CHANNEL, lambda _: roster.reconsider()),
        ):
            group.create_task(run_beats(connection))
            await roster.run(signal)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    runner: Runner
    task: asyncio.Task[None]


class _Roster:
    """Keeps exactly one runner for each link."""

    def __init__(self, means: LinkResources, group: asyncio.TaskGroup) -> None:
        self._means = means
        self._group = group
        self._running: dict[str, _Running] = {}

    async def run(self, signal: Signal) -> None:
        while True:
            ticket = signal.ticket()
            try:
                await self.compare_once()
            except ServerBusy:
                await self._means.context.database.recovered()
            else:
                await wait_for(ticket, _LOOK_SECONDS)

    def wake(self, id: str) -> None:
        if id in self._running:
            self._running[id].runner.bell.ring()

    def reconsider(self) -> None:
        """The model decides what can be applied, and it may be another one."""
        for running in self._running.values():
            running.runner.reconsider()

    async def compare_once(self) -> int:
        """Start, replace and stop what changed since the last look, and say how many."""
        async with self._means.context.database.pool.acquire(timeout=30) as connection:
            wanted = await links.read_revisions(connection)
            changed = [id for id, revision in wanted.items() if not self._runs(id, revision)]
            found = [await links.get(connection, id) for id in changed]
        stopped = [id for id in self._running if id in changed or id not in wanted]
        for id in stopped:
            await self._stop(self._running.pop(id))
        for link in found:
            if link is not None:
                self._start(link)
        return len({*stopped, *changed})

    def _runs(self, id: str, revision: int) -> bool:
        running = self._running.get(id)
        return (
            running is not None
            and running.runner.link.revision == revision
            and not running.task.done()
        )

    def _start(self, link: Link) -> None:
        runner = Runner(link, self._means)
        self._running[link.id] = _Running(runner=runner, task=self._group.create_task(runner.run()))

    async def _stop(self, running: _Running) -> None:
        """Wait until nothing of a link is in flight, then let the source forget it."""
        running.task.cancel()
        await asyncio.wait([running.task], timeout=_STOP_SECONDS)
        if running.runner.subscription is not None:
            self._group.create_task(self._take_leave(running.runner))

    async def _take_leave(self, runner: Runner) -> None:
        """A source that can't be told now is told by 410 when it wakes the link again."""
        assert runner.subscription is not None
        try:
            async with asyncio.timeout(_FAREWELL_SECONDS):
                remote = self._means.remote(runner.link)
                await forget_subscription(remote, runner.subscription)
        except (RemoteError, TimeoutError) as error:
            _log.warning("subscription left behind", link=runner.link.id, error=str(error))
