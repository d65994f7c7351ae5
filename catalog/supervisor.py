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

from catalog.model.backoff import Backoff
from catalog.model.errors import ServerBusy
from catalog.settings import Settings
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
    """The waits of a subscription or link after failures."""
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

    The remaining processes try every few seconds to become the leader, and succeed once the
    leader's connection has ended. After an error, `serve` begins again.

    Args:
        role: the name of the lock, and of the role in the log.
        serve: gets the connection that holds the lock, and fails when the connection is lost.
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
        role: the name of the role in the log.
        serve: gets a connection, and fails when the connection is lost.
    """
    while True:
        attempt = asyncio.create_task(_serve_once(database, role, serve))
        # A task group that is cancelled while a child fails raises the child's error in place of
        # the cancellation. In a separate task, the error cannot hide the cancellation of this task.
        try:
            await asyncio.wait([attempt])
        finally:
            attempt.cancel()
            # Bounded, so that a task that does not end cannot hold up the cancellation for ever.
            await asyncio.wait([attempt], timeout=_STOP_SECONDS)
        if attempt.result():
            # Random, so that the processes do not compete for the lock at the same moments.
            await timing.sleep(_TAKE_OVER_SECONDS * (1 + timing.random.random()))
        else:
            await database.recovered()


async def _serve_once(
    database: Database, role: str, serve: Callable[[Connection], Awaitable[None]]
) -> bool:
    """Serve until a failure, or until `serve` returns.

    Returns:
        whether the database works, as far as known.
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
    """Serves a revision of a row until cancelled."""

    id: str
    revision: int

    async def run(self) -> None: ...


ChildT = TypeVar("ChildT", bound=Child)


class Supervisor(Generic[ChildT]):
    """Keeps exactly one child running for each row to serve.

    The cost of a change of a row does not depend on the number of rows. All rows are compared every
    few seconds, since an announcement can be lost. The log lines of a child have the id of the
    child, under the name in `row`.
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
        """The revision of every row to serve, by id."""
        raise NotImplementedError

    async def load(self, connection: Connection, ids: Collection[str]) -> Sequence[ChildT]:
        """Children, not running yet, for the given rows that are to be served."""
        raise NotImplementedError

    async def prepare(self, leaving: Sequence[ChildT], coming: Sequence[ChildT]) -> None:
        """Prepare for the stop of some children and the start of others."""

    def ended(self, child: ChildT, successor: ChildT | None) -> None:
        """Handle the end of a child, before its successor starts."""

    def announce(self, id: str) -> None:
        """Compare a row soon; every row if `id` is empty."""
        self._announced.add(id)
        self._is_announced.set()

    async def run(self) -> None:
        """Compare rows with children, for ever."""
        loop = asyncio.get_running_loop()
        due_at = loop.time()
        while True:
            await wait_for(self._is_announced, due_at - loop.time())
            # Cleared and taken before the rows are read: an announcement during the read leads to a
            # further comparison.
            self._is_announced.clear()
            ids, self._announced = self._announced, set()
            try:
                if "" in ids or loop.time() >= due_at:
                    await self.compare_all_once()
                    due_at = loop.time() + _COMPARE_SECONDS
                else:
                    await self.compare_once(ids)
            except ServerBusy:
                # The announced ids are consumed, so that every row has to be compared.
                await self._database.recovered()
                due_at = loop.time()

    async def compare_all_once(self) -> int:
        """Start, replace and stop children as the rows have changed; return how many."""
        async with self._database.acquire() as connection:
            wanted = await self.read_revisions(connection)
        changed = {id for id, revision in wanted.items() if self._revision(id) != revision}
        return await self.compare_once(changed | (self.children.keys() - wanted.keys()))

    async def compare_once(self, ids: Collection[str]) -> int:
        """Start, replace and stop children for the given rows only, which may be missing."""
        async with self._database.acquire() as connection:
            found = {child.id: child for child in await self.load(connection, ids)}
        coming = [child for child in found.values() if child.revision != self._revision(child.id)]
        outdated = {child.id for child in coming} | (set(ids) - found.keys())
        leaving = [self.children[id] for id in outdated if id in self.children]
        await self.prepare(leaving, coming)
        # Stopped first, so that a successor does not run beside the predecessor.
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
        # The task has inherited the context variables of the task that started the child.
        clear_contextvars()
        bind_contextvars(**{self.row: child.id})
        await child.run()

    async def _stop(self, child: ChildT) -> None:
        """Cancel a child, and wait for at most ten seconds until no request is in flight."""
        del self.children[child.id]
        task = self._tasks.pop(child.id)
        task.cancel()
        await asyncio.wait([task], timeout=_STOP_SECONDS)
