"""Runs one task for each row of a table, in one process of a node at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Generic, Protocol, TypeVar

import structlog
from structlog.contextvars import bind_contextvars, clear_contextvars

from catalog.config import Settings
from catalog.model.backoff import Backoff
from catalog.model.errors import ServerBusy
from catalog.store.database import Connection, Database, wait_for
from catalog.store.leadership import take_over

_log = structlog.get_logger(__name__)

_TAKE_OVER_SECONDS = 2.0
_COMPARE_SECONDS = 5.0
_STOP_SECONDS = 10.0
_NOW = partial(datetime.now, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopTiming:
    """The clock, the sleep and the random numbers of loops; tests replace them."""

    now: Callable[[], datetime] = _NOW
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Random = field(default_factory=Random)


def backoff_from(settings: Settings) -> Backoff:
    """The waits of one subscription or link after failures."""
    return Backoff(
        initial=settings.backoff_initial_seconds,
        factor=2.0,
        cap=settings.backoff_cap_seconds,
        jitter=0.5,
    )


async def run_as_leader(
    database: Database,
    role: str,
    serve: Callable[[Connection], Awaitable[None]],
    *,
    timing: LoopTiming,
) -> None:
    """Run `serve` for ever, in one process of the node at a time.

    The other processes try every few seconds to become the leader, which they can once the
    leader's connection has ended. After an error, `serve` begins again.

    Args:
        role: names the lock and the lines of the log.
        serve: gets the connection that holds the lock, and fails when that is lost.
    """

    async def lead(connection: Connection) -> None:
        async with take_over(connection, role) as is_leader:
            if is_leader:
                await serve(connection)

    await run_again(database, role, lead, timing=timing)


async def run_again(
    database: Database,
    role: str,
    serve: Callable[[Connection], Awaitable[None]],
    *,
    timing: LoopTiming,
) -> None:
    """Run `serve` again and again, for ever, whether it returns or fails.

    Args:
        role: names it in the log.
        serve: gets a connection, and fails when that is lost.
    """
    while True:
        attempt = asyncio.create_task(_serve_once(database, role, serve))
        # A task group that is cancelled while a child fails raises the child's error in place of
        # the cancellation. In a task of its own it cannot hide the cancellation of this one.
        try:
            await asyncio.wait([attempt])
        finally:
            attempt.cancel()
            await asyncio.wait([attempt], timeout=_STOP_SECONDS)
        if attempt.result():
            await timing.sleep(_TAKE_OVER_SECONDS * (1 + timing.random.random()))
        else:
            await database.recovered()


async def _serve_once(
    database: Database, role: str, serve: Callable[[Connection], Awaitable[None]]
) -> bool:
    """Serve until something fails or there is nothing to do.

    Returns:
        whether the database works, as far as is known.
    """
    is_database_up = True
    try:
        async with database.acquire() as connection:
            await serve(connection)
    except* ServerBusy:
        is_database_up = False
    # An error that recurs must not end the node.
    except* Exception as error:
        _log.error(f"{role} interrupted", exc_info=error)
    return is_database_up


class Child(Protocol):
    """Serves one revision of a row until it is cancelled."""

    id: str
    revision: int

    async def run(self) -> None: ...


ChildT = TypeVar("ChildT", bound=Child)


class Supervisor(Generic[ChildT]):
    """Keeps exactly one child running for each row that is to be served.

    A change of one row costs the same however many there are. All rows are compared every few
    seconds, since an announcement can be lost. Each child tells its id in its lines of the log, as
    `row`.
    """

    row = "id"

    def __init__(self, database: Database, group: asyncio.TaskGroup) -> None:
        self.children: dict[str, ChildT] = {}
        self._database = database
        self._group = group
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._announced: set[str] = set()
        self._is_announced = asyncio.Event()

    async def read_revisions(self, connection: Connection) -> dict[str, int]:
        """The revision of every row that is to be served, by id."""
        raise NotImplementedError

    async def load(self, connection: Connection, ids: Collection[str]) -> Sequence[ChildT]:
        """Children, not running yet, for those of the rows that are to be served."""
        raise NotImplementedError

    async def prepare(self, leaving: Sequence[ChildT], coming: Sequence[ChildT]) -> None:
        """Prepare for the stop of some children and the start of others."""

    def ended(self, child: ChildT, successor: ChildT | None) -> None:
        """Handle the end of a child, before its successor starts."""

    def announce(self, id: str) -> None:
        """Compare a row soon; all of them if `id` is empty."""
        self._announced.add(id)
        self._is_announced.set()

    async def run(self) -> None:
        """Compare rows with children, for ever."""
        loop = asyncio.get_running_loop()
        due_at = loop.time()
        while True:
            await wait_for(self._is_announced, due_at - loop.time())
            self._is_announced.clear()
            ids, self._announced = self._announced, set()
            try:
                if "" in ids or loop.time() >= due_at:
                    await self.compare_all_once()
                    due_at = loop.time() + _COMPARE_SECONDS
                else:
                    await self.compare_once(ids)
            except ServerBusy:
                await self._database.recovered()
                due_at = loop.time()

    async def compare_all_once(self) -> int:
        """Start, replace and stop children as the rows have changed; return how many."""
        async with self._database.acquire() as connection:
            wanted = await self.read_revisions(connection)
        changed = {id for id, revision in wanted.items() if self._revision(id) != revision}
        return await self.compare_once(changed | (self.children.keys() - wanted.keys()))

    async def compare_once(self, ids: Collection[str]) -> int:
        """The same for these rows only, whether or not they exist."""
        async with self._database.acquire() as connection:
            found = {child.id: child for child in await self.load(connection, ids)}
        coming = [child for child in found.values() if child.revision != self._revision(child.id)]
        outdated = {child.id for child in coming} | (set(ids) - found.keys())
        leaving = [self.children[id] for id in outdated if id in self.children]
        await self.prepare(leaving, coming)
        for child in leaving:
            await self._stop(child)
            self.ended(child, found.get(child.id))
        for child in coming:
            self.children[child.id] = child
            self._tasks[child.id] = self._group.create_task(self._run_child(child))
        return len({child.id for child in (*leaving, *coming)})

    def _revision(self, id: str) -> int | None:
        child = self.children.get(id)
        return None if child is None else child.revision

    async def _run_child(self, child: ChildT) -> None:
        clear_contextvars()
        bind_contextvars(**{self.row: child.id})
        await child.run()

    async def _stop(self, child: ChildT) -> None:
        """Wait until none of the child's requests is in flight."""
        del self.children[child.id]
        task = self._tasks.pop(child.id)
        task.cancel()
        await asyncio.wait([task], timeout=_STOP_SECONDS)
