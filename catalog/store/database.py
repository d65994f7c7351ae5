"""The connection pool of one node's database, its transactions, and who the node is."""

from __future__ import annotations

import asyncio
import contextlib
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import asyncpg
import orjson
import structlog
from asyncpg.exceptions import (
    InterfaceError,
    PostgresError,
    TooManyConnectionsError,
    UniqueViolationError,
)

from catalog.model.change import Change
from catalog.model.errors import BadRequest, ServerBusy
from catalog.store.migrate import migrate
from catalog.store.queries import Queries

_queries = Queries("node")
_changes = Queries("changes")
_log = structlog.get_logger()
# How PostgreSQL shows the key that is there already, in any language.
_SIBLING = re.compile(r"=\((.*), ([^,()]*)\)")
_RECONNECT_SECONDS = 1.0
_ANNOUNCEMENT_SECONDS = 0.02

Connection: TypeAlias = asyncpg.Connection

_SETTINGS = {
    "synchronous_commit": "on",
    "jit": "off",
    # What is read often is in memory. The default stands for a disk that has to seek, so that
    # PostgreSQL would sort large collections which it could read in order.
    "random_page_cost": "1.1",
    "application_name": "concord",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Who this node is, as its database remembers it.

    `instance` changes when the log could no longer be trusted to continue the one that
    peers have read (a database that was dumped and loaded elsewhere).
    """

    instance: uuid.UUID
    authority: str


# How the database fails for a while: it is restarted, or too busy to answer.
DatabaseFailure = (OSError, TimeoutError, PostgresError, InterfaceError)


class DatabaseUnusable(Exception):
    """The configured server cannot be reached, or does not let this node in."""


class Signal:
    """Wakes everybody who waits for the change log to grow. It carries no data.

    `unannounced` is set while other processes have not been told yet; `listeners` are told
    at once what this process has changed.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.listeners: list[Callable[[Sequence[Change]], None]] = []
        self.unannounced = asyncio.Event()

    def set(self, changes: Sequence[Change] = ()) -> None:
        """This process has written."""
        for listener in self.listeners:
            listener(changes)
        self.unannounced.set()
        self.hear()

    def hear(self) -> None:
        """Some process has written."""
        self._event.set()
        self._event = asyncio.Event()

    def ticket(self) -> asyncio.Event:
        """What to wait for: take it before reading, so that nothing in between is missed."""
        return self._event


async def wait_for(ticket: asyncio.Event, timeout_seconds: float) -> bool:
    """Whether the signal came within `timeout_seconds`."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_seconds):
            await ticket.wait()
    return ticket.is_set()


class Database:
    """One node's database. Use `Database.open`; everything else goes through `pool`."""

    def __init__(self, pool: asyncpg.Pool, node: Node) -> None:
        self.pool = pool
        self.node = node
        self.signal = Signal()
        # Set when some process may have changed the configuration.
        self.reconfigured = asyncio.Event()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls,
        dsn: str,
        *,
        modelsource: Mapping[str, Any],
        resolved: Mapping[str, Any] | None = None,
        public_url: str | None = None,
        pool_size: int = 10,
    ) -> AsyncIterator[Database]:
        """Connect, migrate, and find out or decide who this node is.

        Args:
            dsn: a PostgreSQL URL.
            modelsource: the model that a fresh node begins with.
            resolved: the same with its `$include`s resolved, where it has any.
            public_url: becomes the authority of a fresh node; without one it is
                `urn:uuid:` and the instance id. An authority never changes afterwards.
            pool_size: the most connections that are open at a time.

        Raises:
            DatabaseUnusable: the server can't be reached or does not let us in.
        """
        pool = await _connect(dsn, pool_size)
        try:
            async with pool.acquire() as connection:
                await migrate(connection)
                node = await _identify(connection, modelsource, resolved, public_url)
            yield cls(pool, node)
        finally:
            await pool.close()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """One transaction that all of an interaction is written in.

        Raises:
            ServerBusy: the database did not answer in time; nothing was written.
            BadRequest: an id differs from a sibling's in case only.
        """
        with _as_our_errors():
            async with self.pool.acquire(timeout=30) as connection, connection.transaction():
                yield connection

    @contextlib.asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Connection]:
        """A read-only transaction in which every statement sees the same state."""
        async with (
            self.pool.acquire(timeout=30) as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            yield connection

    async def run_announcements(self) -> None:
        """Tell the other processes of this node of writes, and hear of theirs.

        A NOTIFY inside the writing transaction would serialise all commits of the
        database, so it is sent apart, once for as many commits as came meanwhile. It is
        a commit itself, so it is not sent too often.
        """
        while True:
            try:
                async with self.pool.acquire() as connection:
                    await self._announce(connection)
            except (OSError, PostgresError, InterfaceError) as error:
                _log.warning("lost the connection for announcements", error=str(error))
                await asyncio.sleep(_RECONNECT_SECONDS)

    async def _announce(self, connection: Connection) -> None:
        own = connection.get_server_pid()

        def hear(_: object, pid: int, channel: str, payload: object) -> None:
            if pid != own:
                self.signal.hear()

        def hear_of_configuration(*_: object) -> None:
            self.reconfigured.set()

        await connection.add_listener("changes", hear)
        await connection.add_listener("configuration", hear_of_configuration)
        # It may have changed while there was nobody to hear of it.
        self.reconfigured.set()
        try:
            while True:
                await self.signal.unannounced.wait()
                self.signal.unannounced.clear()
                await connection.execute(_changes.announce)
                await asyncio.sleep(_ANNOUNCEMENT_SECONDS)
        finally:
            await connection.remove_listener("changes", hear)
            await connection.remove_listener("configuration", hear_of_configuration)


async def _connect(dsn: str, pool_size: int) -> asyncpg.Pool:
    try:
        pool: asyncpg.Pool = await asyncpg.create_pool(
            dsn,
            min_size=1,
            max_size=pool_size,
            server_settings=_SETTINGS,
            command_timeout=60,
            reset=_leave_transaction,
        )
        return pool
    except (OSError, PostgresError, InterfaceError, ValueError) as error:
        raise DatabaseUnusable(str(error)) from error


async def _leave_transaction(connection: Connection) -> None:
    """What a connection needs on its way back to the pool.

    asyncpg's own reset costs a round trip for each use and undoes what nothing here does:
    whoever takes a session lock or listens gives it back itself.
    """
    if connection.is_in_transaction():
        await connection.execute(_queries.rollback)


async def _identify(
    connection: Connection,
    modelsource: Mapping[str, Any],
    resolved: Mapping[str, Any] | None,
    public_url: str | None,
) -> Node:
    instance = uuid.uuid4()
    await connection.execute(
        _queries.create,
        instance,
        public_url or f"urn:uuid:{instance}",
        orjson.dumps(dict(modelsource)).decode(),
        None if resolved is None else orjson.dumps(dict(resolved)).decode(),
    )
    async with connection.transaction():
        if await connection.fetchval(_queries.is_log_from_elsewhere):
            await connection.execute(_queries.forget_log)
            await connection.execute(_queries.renew_instance, uuid.uuid4())
    row = await connection.fetchrow(_queries.read)
    return Node(instance=row["instance"], authority=row["authority"])


@contextlib.contextmanager
def _as_our_errors() -> Iterator[None]:
    try:
        yield
    except UniqueViolationError as error:
        if getattr(error, "constraint_name", "") != "entities_sibling":
            raise
        raise _clash(error) from error
    except (TimeoutError, TooManyConnectionsError) as error:
        raise ServerBusy("/") from error


def _clash(error: UniqueViolationError) -> BadRequest:
    """Names the ids that clash, where PostgreSQL's own words let it."""
    found = _SIBLING.search(getattr(error, "detail", None) or "")
    which = f'An id "{found[2]}" below {found[1]}' if found else "An id"
    error_detail = f"{which} differs from that of a sibling only in upper and lower case"
    return BadRequest("/", error_detail=error_detail)
