"""The database of a node: connections, transactions, and the node's identity."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
from asyncpg.exceptions import UniqueViolationError

from catalog.model.caller import Author, Caller
from catalog.model.change import Change
from catalog.model.concorderrors import DatabaseUnavailable, OutcomeUnknown, StorageFull
from catalog.model.errors import BadRequest, ServerBusy
from catalog.store.auditnotes import note_author
from catalog.store.connections import (
    ACQUIRE_SECONDS,
    Availability,
    Connections,
    DatabaseFailure,
    DatabaseUnusable,
    Loan,
    Pools,
    PoolSizes,
    RestrictedConnections,
    cut,
    give_up,
    is_closed,
    is_servers_end,
)
from catalog.store.connections import Connection as Connection
from catalog.store.queries import Queries, to_json
from catalog.store.schemamigration import migrate
from catalog.store.servers import check_sessions, connect, why_unusable
from catalog.store.sharedwrites import SharedWrites

T = TypeVar("T")

_queries = Queries("database")
# The duplicate key in PostgreSQL's error detail, in any language.
_SIBLING = re.compile(r"=\((.*), ([^,()]*)\)")
_CONNECT_SECONDS = 10.0
_ROLLBACK_SECONDS = 2.0
_SETTLING_SECONDS = 0.1
_SIZES = PoolSizes()

# The settings of every connection.
SETTINGS = {
    "synchronous_commit": "on",
    "jit": "off",
    # Most reads are from memory. With the default, which stands for a disk that has to seek,
    # PostgreSQL would sort large collections instead of reading them in order.
    "random_page_cost": "1.1",
    "application_name": "concord",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The identity of the node, from the database.

    `instance` changes when the log may not continue the log that peers have read, because the
    database was restored from a backup, on the same server or on another server.
    """

    instance: uuid.UUID
    authority: str


class Signal:
    """Wakes all tasks that wait for the change log to grow, or for links to read on.

    `unannounced` is set until other processes are notified; `listeners` are called with the changes
    of this process at once. `shared` tells the other processes of this host, if a file for shared
    writes is set.
    """

    def __init__(self, shared: SharedWrites | None = None) -> None:
        self.shared = shared
        self._event = asyncio.Event()
        self._progress = asyncio.Event()
        self.listeners: list[Callable[[Sequence[Change]], None]] = []
        self.unannounced = asyncio.Event()
        # Set when the process stops serving: tasks that wait for writes then end the wait.
        self.is_ended = False

    def end(self) -> None:
        """Signal that the process stops serving."""
        self.is_ended = True
        self.hear()

    def set(self, changes: Sequence[Change] = ()) -> None:
        """Signal a write of this process; called before the process answers."""
        if self.shared is not None:
            self.shared.count()
        for listener in self.listeners:
            listener(changes)
        self.unannounced.set()
        self.hear()

    def hear(self) -> None:
        """Signal a write of any process."""
        # A set ticket stays set, even for a task that has yet to wait; later waits take the new
        # event.
        self._event.set()
        self._event = asyncio.Event()
        self._hear_progress()

    def set_progress(self) -> None:
        """Signal that a link of this process has read on at the source without writing."""
        self.unannounced.set()
        self._hear_progress()

    def _hear_progress(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()

    def progress_ticket(self) -> asyncio.Event:
        """The event to wait for the progress of links, as `ticket`."""
        return self._progress

    def ticket(self) -> asyncio.Event:
        """The event to wait for. Take the ticket before reading, to miss no change in between."""
        return self._event


async def wait_for(ticket: asyncio.Event, timeout_seconds: float) -> bool:
    """Whether the signal came within `timeout_seconds`."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_seconds):
            await ticket.wait()
    return ticket.is_set()


@dataclass(slots=True, kw_only=True)
class SharedDatabase:
    """The shared state of all callers of a node's database. Only a `Database` reads and writes.

    Args:
        servers_left: the number of times that a different server answered, or the same server after
            a restart.
        reconfigured: set when a process may have changed the configuration.
    """

    dsn: str
    pools: Pools
    availability: Availability
    node: Node
    signal: Signal
    servers_left: int = 0
    reconfigured: asyncio.Event = field(default_factory=asyncio.Event)
    _parts: dict[type, Any] = field(init=False, default_factory=dict)

    def part(self, kind: type[T], make: Callable[[], T]) -> T:
        """The shared object of a class for all callers: made on the first request."""
        if kind not in self._parts:
            self._parts[kind] = make()
        found: T = self._parts[kind]
        return found


class Database:
    """A node's database, as a caller may read and write it.

    Use `Database.open`, and `for_caller` for further callers.
    """

    __slots__ = ("caller", "has_committed", "shared")

    def __init__(self, shared: SharedDatabase, caller: Caller) -> None:
        self.shared = shared
        self.caller = caller
        # Whether a transaction was committed through this object.
        self.has_committed = False

    def for_caller(self, caller: Caller) -> Database:
        """The same database for another caller."""
        return Database(self.shared, caller)

    @property
    def node(self) -> Node:
        return self.shared.node

    @property
    def signal(self) -> Signal:
        return self.shared.signal

    @property
    def pools(self) -> Pools:
        return self.shared.pools

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls,
        dsn: str,
        caller: Caller,
        *,
        modelsource: Mapping[str, Any],
        resolved: Mapping[str, Any] | None = None,
        public_url: str | None = None,
        authority: str | None = None,
        awaits_recovery: bool = False,
        sizes: PoolSizes = _SIZES,
        shared_writes: Path | None = None,
    ) -> AsyncIterator[Database]:
        """Connect, migrate, and read or create the identity of this node.

        Args:
            modelsource: the model of a fresh node; `resolved` has every `$include` resolved.
            public_url: the authority of a fresh node without `authority`; without both, the
                authority is `urn:uuid:` and the instance id. An authority never changes afterwards.
            authority: the authority that the node must have, and that a fresh node gets.
            awaits_recovery: a fresh node takes no writes until it has recovered.
            shared_writes: the file by which the processes of a host tell each other about writes;
                without a file, the processes learn of writes from the database.

        Raises:
            DatabaseUnusable: also if the database belongs to another authority.
        """
        availability = Availability()
        pools = await _connect(dsn, sizes, availability)
        try:
            try:
                await check_sessions(Loan(pools.tasks, caller, ACQUIRE_SECONDS), dsn, SETTINGS)
                async with Loan(pools.tasks, caller, ACQUIRE_SECONDS) as connection:
                    await migrate(connection)
                    name = authority or public_url
                    await _create(connection, modelsource, resolved, name, awaits_recovery)
                    node = await _identify(connection)
            except ServerBusy as error:
                raise DatabaseUnusable(str(error.__cause__)) from error
            if authority not in (None, node.authority):
                raise DatabaseUnusable(f"it is that of the authority {node.authority}")
            with contextlib.ExitStack() as stack:
                shared = None
                if shared_writes is not None:
                    shared = stack.enter_context(contextlib.closing(SharedWrites(shared_writes)))
                yield cls(
                    SharedDatabase(
                        dsn=dsn,
                        pools=pools,
                        availability=availability,
                        node=node,
                        signal=Signal(shared),
                    ),
                    caller,
                )
        finally:
            await pools.close()

    def acquire(self, pool: Connections | None = None, *, timeout: float = ACQUIRE_SECONDS) -> Loan:
        """Lend a connection of a pool, or of a restricted caller, that shows what the caller sees.

        Raises:
            DatabaseUnavailable: no connection can be made, or the connection was lost meanwhile.
            ServerBusy: no connection became free within `timeout` seconds.
            StorageFull: the disk of the database is full.
        """
        if self.caller.is_restricted:
            pool = self.pools.restricted
        return Loan(pool or self._own, self.caller, timeout)

    @property
    def _own(self) -> Connections:
        """The pool that shows everything: the pool of requests if the caller is a client."""
        return self.pools.requests if self.caller.client else self.pools.tasks

    def _acquire_all(self) -> Loan:
        return Loan(self._own, self.caller, ACQUIRE_SECONDS)

    @contextlib.asynccontextmanager
    async def transaction(self, *, is_noted: bool = True) -> AsyncIterator[Connection]:
        """Open the transaction of an interaction, which reads and writes without restriction.

        Args:
            is_noted: whether the audit gets a row about the caller's request, if the transaction
                writes and the request has no row yet.

        Raises:
            ServerBusy: the database did not answer in time, or is away; nothing was written.
            OutcomeUnknown: the database was lost during the commit.
            BadRequest: an id differs from a sibling's id in case only.
        """
        who, is_committing = self.caller.author, False
        try:
            async with (
                _forgotten_on_failure(who),
                self._acquire_all() as connection,
                _in_transaction(connection),
            ):
                yield connection
                if is_noted and who.method and not who.is_noted:
                    await note_author(connection, who)
                # On a closed connection, no commit reaches the server, so the outcome is known.
                is_committing = not is_closed(connection)
            self.has_committed = True
        except UniqueViolationError as error:
            if getattr(error, "constraint_name", "") != "entities_sibling":
                raise
            raise _clash(error) from error
        except StorageFull as error:
            if is_committing and is_servers_end(error.__cause__):
                raise OutcomeUnknown("/") from error
            raise
        except (TimeoutError, DatabaseUnavailable) as error:
            if is_committing:
                raise OutcomeUnknown("/") from error
            if isinstance(error, TimeoutError):
                raise ServerBusy("/") from error
            raise

    @contextlib.asynccontextmanager
    async def snapshot(self, pool: Connections | None = None) -> AsyncIterator[Connection]:
        """Open a read-only transaction in which every statement sees the same state.

        Raises:
            ServerBusy: the database did not answer in time, or is away.
        """
        async with self.acquire(pool) as connection, _in_snapshot(connection):
            yield connection

    @contextlib.asynccontextmanager
    async def overview(self) -> AsyncIterator[Connection]:
        """Open a `snapshot` that shows everything, also for a restricted caller.

        Raises:
            ServerBusy: as `snapshot`.
        """
        try:
            async with self._acquire_all() as connection, _in_snapshot(connection):
                yield connection
        except TimeoutError as error:
            raise ServerBusy("/") from error

    async def recovered(self) -> None:
        """Wait until the database may be used again, in a loop that met `ServerBusy`.

        Raises:
            CancelledError: the task is cancelled already. A `finally` that met `ServerBusy` has put
                the error in place of the cancellation.
        """
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
        await asyncio.sleep(_SETTLING_SECONDS * (0.5 + random.random()))
        await self.shared.availability.wait()


@contextlib.asynccontextmanager
async def _forgotten_on_failure(who: Author) -> AsyncIterator[None]:
    """Unmark a noted author if the transaction fails: a later transaction then notes the author."""
    was_noted = who.is_noted
    try:
        yield
    except BaseException:
        who.is_noted = was_noted
        raise


@contextlib.asynccontextmanager
async def _in_transaction(connection: Connection, **options: Any) -> AsyncIterator[None]:
    """Open a transaction that ends in bounded time even if the server hangs."""
    transaction = connection.transaction(**options)
    try:
        await transaction.start()
        yield
    except BaseException:
        await give_up(connection, _ROLLBACK_SECONDS, transaction.rollback)
        raise
    try:
        await transaction.commit()
    except BaseException:
        # An unanswered commit may have happened or not; only a closed connection ends the doubt.
        cut(connection)
        raise


def _in_snapshot(connection: Connection) -> contextlib.AbstractAsyncContextManager[None]:
    return _in_transaction(connection, isolation="repeatable_read", readonly=True)


async def _connect(dsn: str, sizes: PoolSizes, availability: Availability) -> Pools:
    """Open the pools, and a first connection, which shows whether the database can be used."""
    try:
        return Pools(
            requests=Connections(await _pool(dsn, sizes.requests, 0), availability),
            restricted=RestrictedConnections(
                await _pool(dsn, sizes.restricted, 0, search_path="visible, public"), availability
            ),
            streams=Connections(await _pool(dsn, sizes.streams, 0), availability),
            feed=Connections(await _pool(dsn, sizes.feed, 0), availability),
            tasks=Connections(await _pool(dsn, sizes.tasks, 1), availability),
        )
    except (*DatabaseFailure, ValueError) as error:
        raise DatabaseUnusable(why_unusable(error)) from error


async def _pool(dsn: str, size: int, at_once: int, **settings: str) -> asyncpg.Pool:
    return await asyncpg.create_pool(
        dsn,
        init_size=at_once,
        # With more, asyncpg would reconnect by itself, and log each failure.
        min_size=0,
        max_size=size,
        server_settings={**SETTINGS, **settings},
        timeout=_CONNECT_SECONDS,
        command_timeout=60,
        connect=connect,
        reset=_leave_transaction,
    )


async def _leave_transaction(connection: Connection) -> None:
    """Reset a connection that returns to the pool.

    Most connections skip the reset: after a loan without an error, a connection is lent again
    unchanged. The rest of asyncpg's reset is not needed, as users release session locks and remove
    listeners themselves.
    """
    is_in_transaction = connection.is_in_transaction()
    await connection.execute(_queries.rollback if is_in_transaction else _queries.end_statement)


async def _create(
    connection: Connection,
    modelsource: Mapping[str, Any],
    resolved: Mapping[str, Any] | None,
    authority: str | None,
    awaits_recovery: bool,
) -> None:
    """Store the identity of this node, unless the database has an identity."""
    instance = uuid.uuid4()
    await connection.execute(
        _queries.create,
        instance,
        authority or f"urn:uuid:{instance}",
        to_json(dict(modelsource)),
        to_json(resolved and dict(resolved)),
        awaits_recovery,
    )


async def _identify(connection: Connection) -> Node:
    async with connection.transaction():
        if await connection.fetchval(_queries.is_log_from_elsewhere):
            await connection.execute(_queries.note_losses)
            await connection.execute(_queries.forget_log)
            await connection.execute(_queries.renew_instance, uuid.uuid4())
        await connection.execute(_queries.return_cursors)
        await connection.execute(_queries.move, uuid.uuid4())
        await connection.execute(_queries.begin_incarnation)
    row = await connection.fetchrow(_queries.read)
    return Node(instance=row["instance"], authority=row["authority"])


def _clash(error: UniqueViolationError) -> BadRequest:
    """The error of two sibling ids, with the ids as far as PostgreSQL's detail has them."""
    found = _SIBLING.search(getattr(error, "detail", None) or "")
    which = f'An id "{found[2]}" below {found[1]}' if found else "An id"
    error_detail = f"{which} differs from that of a sibling only in upper and lower case"
    return BadRequest("/", error_detail=error_detail)
