"""The connections of a process to its database, and whether the database can be reached."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import asyncpg
import structlog
from asyncpg.exceptions import (
    AdminShutdownError,
    CannotConnectNowError,
    CrashShutdownError,
    DatabaseDroppedError,
    DiskFullError,
    InterfaceError,
    InternalClientError,
    InvalidCachedStatementError,
    OutdatedSchemaCacheError,
    PostgresConnectionError,
    PostgresError,
    ReadOnlySQLTransactionError,
    TooManyConnectionsError,
)

from catalog.load.limiter import Share
from catalog.model.caller import EVERYTHING, Caller
from catalog.model.concorderrors import DatabaseUnavailable, StorageFull
from catalog.model.errors import ServerBusy
from catalog.store.queries import Queries

_log = structlog.get_logger(__name__)
_queries = Queries("connections")

Connection: TypeAlias = asyncpg.Connection
PRIMARY: Literal["read-write"] = "read-write"
"""Selects the primary among the servers of a URL, since a standby takes no writes."""

# The errors of a database that is down, restarts or hangs.
DatabaseFailure = (OSError, PostgresError, InterfaceError, InternalClientError)

_LOST = (
    AdminShutdownError,
    CannotConnectNowError,
    CrashShutdownError,
    DatabaseDroppedError,
    PostgresConnectionError,
    # The server became a standby, and another server the primary.
    ReadOnlySQLTransactionError,
)
# Signs of a lost connection only if the connection is closed: an OSError may be about an HTTP
# client.
_LOST_IF_CLOSED = (OSError, InterfaceError, InternalClientError)
ACQUIRE_SECONDS = 30.0
_RELEASE_SECONDS = 2.0
_CLOSE_SECONDS = 1.0


class DatabaseUnusable(Exception):
    """A node cannot start with this database, for the reason in the text."""


class EmbeddedPostgresError(DatabaseUnusable):
    """The embedded server cannot run. The message gives the remedy."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"The embedded PostgreSQL cannot be used: {problem.rstrip('.')}. "
            "Set CONCORD_DATABASE_URL to use a PostgreSQL server that runs already."
        )


class StatementsOutdated(DatabaseUnavailable):
    """A different version of Concord has changed a table, so the prepared statements no longer fit.

    Nothing was written. asyncpg has forgotten all prepared statements, so the next try succeeds.
    """


class Availability:
    """Whether the database can be reached, as far as this process knows.

    The watch on the database sets the state for all users of the database. An outage is logged once
    at the beginning and once at the end.
    """

    def __init__(self) -> None:
        self._is_here = asyncio.Event()
        self._is_here.set()
        self._away_since = 0.0
        self._last_problem = ""
        self.is_full = False

    @property
    def is_away(self) -> bool:
        return not self._is_here.is_set()

    def lose(self, cause: str) -> None:
        """Note that the database does not answer."""
        if not self.is_away:
            self._is_here.clear()
            self._away_since = asyncio.get_running_loop().time()
            _log.error("the database is away", cause=cause)

    def complain(self, problem: str) -> None:
        """Log why the database does not come back, unless the same problem was logged last."""
        if problem != self._last_problem:
            self._last_problem = problem
            _log.error("the database does not come back", problem=problem)

    def find(self) -> None:
        """Note that the database answers."""
        if self.is_away:
            seconds = asyncio.get_running_loop().time() - self._away_since
            self._last_problem = ""
            self._is_here.set()
            _log.info("the database is back", seconds=round(seconds, 1))

    def fill(self, cause: str) -> None:
        """Note that a write failed because the disk of the database is full."""
        if not self.is_full:
            self.is_full = True
            _log.error("the disk of the database is full", cause=cause)

    def free(self) -> None:
        """Note that the disk of the database has space."""
        if self.is_full:
            self.is_full = False
            _log.info("the disk of the database has space again")

    async def wait(self) -> None:
        """Wait while the database is away."""
        await self._is_here.wait()


class Connections:
    """A pool that raises the catalog's errors if the database is lost.

    While the database is away, the pool does not try to connect, so that a server that comes back
    is not flooded with connections. Of `limit` connections, `used` are lent, and `waiting` tasks
    wait for a connection. A client gets no more connections than it leaves free.
    """

    def __init__(self, pool: asyncpg.Pool, availability: Availability) -> None:
        self._pool = pool
        self._availability = availability
        self._places = Share(pool.get_max_size(), leaves_free=True)
        # Sound connections skip the pool, whose acquire and release cost as much as a query.
        self._idle: list[Connection] = []
        self._lent: set[Connection] = set()

    @property
    def limit(self) -> int:
        return self._places.limit

    @property
    def used(self) -> int:
        return self._places.used

    @property
    def waiting(self) -> int:
        return self._places.waiting

    async def lend(self, caller: Caller, timeout_seconds: float) -> Connection:
        """A connection for a caller; see `Database.acquire`."""
        if self._availability.is_away:
            # A full disk of the server's log ends the server: callers then learn of the disk.
            raise StorageFull("/") if self._availability.is_full else DatabaseUnavailable("/")
        await self._places.take(caller.client, wait_seconds=timeout_seconds)
        try:
            connection = await self._take(timeout_seconds)
        except BaseException as error:
            self._places.give_back(caller.client)
            self.tell_failure(error)
            raise
        self._lent.add(connection)
        return connection

    async def take_back(self, caller: Caller, connection: Connection, *, is_sound: bool) -> None:
        """End a loan; an unsound connection goes back to the pool, which resets it."""
        self._lent.discard(connection)
        try:
            if is_sound and not is_closed(connection) and not connection.is_in_transaction():
                self._idle.append(connection)
            else:
                await self._release(connection)
        finally:
            self._places.give_back(caller.client)

    async def _take(self, timeout_seconds: float) -> Connection:
        while self._idle:
            idle = self._idle.pop()
            if not is_closed(idle):
                return idle
            await self._release(idle)
        try:
            connection: Connection = await self._pool.acquire(timeout=timeout_seconds)
        except (TimeoutError, TooManyConnectionsError) as error:
            raise ServerBusy("/") from error
        except DatabaseFailure as error:
            raise DatabaseUnavailable("/") from error
        return connection

    def tell_failure(self, error: BaseException) -> None:
        """Log why a user could not use the database, unless an outage has been logged."""
        if isinstance(error, StorageFull):
            self._availability.fill(str(error.__cause__))
        elif isinstance(error, DatabaseUnavailable) and not self._availability.is_away:
            cause = error.__cause__ or error
            _log.warning("the database failed", cause=f"{type(cause).__name__}: {cause}")

    async def _release(self, connection: Connection) -> None:
        # A connection that is no longer usable is terminated; its loss is no error of the caller.
        with contextlib.suppress(*DatabaseFailure):
            await self._pool.release(connection, timeout=_RELEASE_SECONDS)

    async def leave_server(self) -> None:
        """Terminate all connections, since they lead to a server that the node has left."""
        for connection in (*self._idle, *self._lent):
            cut(connection)
        await self._pool.expire_connections()

    async def close(self) -> None:
        """Close all connections; terminate connections that do not close in time."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                while self._idle:
                    await self._release(self._idle.pop())
                await self._pool.close()
        except DatabaseFailure:
            self._pool.terminate()


class Loan:
    """The loan of a connection, for the time of a context.

    A class, since every request has a loan: a generator as a context would cost a tenth of a read.
    """

    __slots__ = ("_caller", "_connection", "_pool", "_timeout")

    def __init__(self, pool: Connections, caller: Caller, timeout_seconds: float) -> None:
        self._pool = pool
        self._caller = caller
        self._timeout = timeout_seconds

    async def __aenter__(self) -> Connection:
        self._connection = await self._pool.lend(self._caller, self._timeout)
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if error is None:
            await self._pool.take_back(self._caller, self._connection, is_sound=True)
            return
        told = _told(self._connection, error)
        self._pool.tell_failure(told)
        await self._pool.take_back(self._caller, self._connection, is_sound=False)
        if told is not error:
            raise told


class RestrictedConnections(Connections):
    """A pool whose connections show only the entities visible to the borrowing caller.

    The `search_path` of the connections begins with the schema `visible`, whose views fail without
    settings.
    """

    def __init__(self, pool: asyncpg.Pool, availability: Availability) -> None:
        super().__init__(pool, availability)
        # The rules in the settings of each connection that skips the pool, by the connection's id.
        self._given: dict[int, tuple[str, ...]] = {}

    async def lend(self, caller: Caller, timeout_seconds: float) -> Connection:
        shown = caller.sees
        assert shown is not EVERYTHING, "only restricted callers are lent these"
        connection = await super().lend(caller, timeout_seconds)
        try:
            # The rules are stored again only after success: a failed statement leaves the settings
            # unknown.
            if self._given.pop(id(connection), None) != shown.rules:
                await connection.execute(_queries.restrict, [*shown.rules])
        except BaseException as error:
            told = _told(connection, error)
            self.tell_failure(told)
            await self.take_back(caller, connection, is_sound=False)
            if told is error:
                raise
            raise told from error
        self._given[id(connection)] = shown.rules
        return connection

    async def _release(self, connection: Connection) -> None:
        # A later connection object may get the id of the released object.
        self._given.pop(id(connection), None)
        await super()._release(connection)


@contextlib.asynccontextmanager
async def seen_by(connection: Connection, caller: Caller) -> AsyncIterator[None]:
    """Restrict the reads of a transaction to what a caller sees, until the block ends."""
    if caller.sees is EVERYTHING:
        yield
        return
    before = await connection.fetchval(_queries.restrict_within, [*caller.sees.rules])
    try:
        yield
    except (PostgresError, InterfaceError, ServerBusy, TimeoutError, OSError):
        # The failure ends the transaction, and the restriction with it.
        raise
    except Exception:
        await connection.execute(_queries.end_restriction, before)
        raise
    await connection.execute(_queries.end_restriction, before)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSizes:
    """The most connections of a process for each purpose; see `Pools`.

    The watch on the database has a further connection.
    """

    requests: int = 10
    restricted: int = 20
    streams: int = 10
    feed: int = 3
    tasks: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """The connections of a process. No purpose can use up the connections of another purpose.

    `requests` are for short requests, `restricted` for all reads of restricted clients, `streams`
    for snapshots that last as long as their readers take, `feed` for reading pages of the feed, and
    `tasks` for the node's own tasks, some of which keep a connection for ever.
    """

    requests: Connections
    restricted: RestrictedConnections
    streams: Connections
    feed: Connections
    tasks: Connections

    async def leave_server(self) -> None:
        """Terminate all connections, since they lead to a server that the node has left."""
        for pool in self._all:
            await pool.leave_server()

    async def close(self) -> None:
        """Close all connections."""
        for pool in self._all:
            await pool.close()

    @property
    def _all(self) -> tuple[Connections, ...]:
        return self.streams, self.feed, self.tasks, self.restricted, self.requests


def _told(connection: Connection, error: BaseException) -> BaseException:
    """Translate an error into the loss of a connection or of its statements, else return `error`.

    The result is DatabaseUnavailable if the connection was lost, StatementsOutdated if the caller
    has to try again, StorageFull if the disk of the database is full.
    """
    told = error
    # Outside of transactions, asyncpg itself tries outdated statements again.
    if isinstance(error, InvalidCachedStatementError | OutdatedSchemaCacheError):
        told = StatementsOutdated("/")
    elif isinstance(error, DiskFullError):
        if is_servers_end(error):
            cut(connection)
        told = StorageFull("/")
    elif isinstance(error, _LOST):
        cut(connection)
        told = DatabaseUnavailable("/")
    elif isinstance(error, _LOST_IF_CLOSED) and is_closed(connection):
        told = DatabaseUnavailable("/")
    if told is not error:
        told.__cause__ = error
    return told


def is_servers_end(error: BaseException | None) -> bool:
    """Whether an error also ended the server, as a full disk of the server's log does."""
    return getattr(error, "severity_en", "") == "PANIC"


def is_closed(connection: Connection) -> bool:
    """Whether a connection is closed, or the pool has taken the connection back."""
    try:
        return bool(connection.is_closed())
    except InterfaceError:
        return True


async def give_up(
    connection: Connection, timeout_seconds: float, release: Callable[[], Awaitable[object]]
) -> None:
    """Release a lock, a listener or a transaction in time, or close its connection.

    The pool must not get the connection with a lock, listener or transaction; the server releases
    them when the connection closes.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            await release()
    except BaseException as error:
        cut(connection)
        # A TimeoutError is an OSError, hence a DatabaseFailure: a late release is no error of the
        # caller.
        if not isinstance(error, DatabaseFailure):
            raise


def cut(connection: Connection) -> None:
    """Terminate a connection in an unknown state."""
    with contextlib.suppress(InterfaceError):
        connection.terminate()
