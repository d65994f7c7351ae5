"""The connections of one process to its database; their loss becomes an error of the catalog."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import TypeAlias

import asyncpg
from asyncpg.exceptions import (
    AdminShutdownError,
    CannotConnectNowError,
    CrashShutdownError,
    DatabaseDroppedError,
    InterfaceError,
    InternalClientError,
    PostgresConnectionError,
    PostgresError,
    TooManyConnectionsError,
)

from catalog.model.errors import ServerBusy
from catalog.model.ownerrors import DatabaseUnavailable
from catalog.store.availability import Availability

Connection: TypeAlias = asyncpg.Connection

# The errors of a database that is down, is restarted, or hangs.
DatabaseFailure = (OSError, PostgresError, InterfaceError, InternalClientError)

_LOST = (
    AdminShutdownError,
    CannotConnectNowError,
    CrashShutdownError,
    DatabaseDroppedError,
    PostgresConnectionError,
)
# What these say of a connection depends on whether it is closed: the first may be a client's.
_LOST_IF_CLOSED = (OSError, InterfaceError, InternalClientError)
_ACQUIRE_SECONDS = 30.0
_RELEASE_SECONDS = 2.0
_CLOSE_SECONDS = 1.0


class DatabaseUnusable(Exception):
    """A node cannot start with this database, for the reason that the text gives."""


class Connections:
    """A pool whose users see the database's loss as an error of ours.

    While the database is known to be away nobody tries to reach it, so a server that
    comes back is not met by everybody at once.
    """

    def __init__(self, pool: asyncpg.Pool, availability: Availability) -> None:
        self._pool = pool
        self._availability = availability

    @contextlib.asynccontextmanager
    async def acquire(self, *, timeout: float = _ACQUIRE_SECONDS) -> AsyncIterator[Connection]:
        """A connection for the time of a context, which stands for everything done with it.

        Raises:
            DatabaseUnavailable: there is no connection, or it was lost meanwhile.
            ServerBusy: none became free within `timeout` seconds.
        """
        connection = await self._take(timeout)
        try:
            with loss_of(connection):
                yield connection
        finally:
            # One that cannot be used any more is terminated, and its loss concerns nobody.
            with contextlib.suppress(*DatabaseFailure):
                await self._pool.release(connection, timeout=_RELEASE_SECONDS)

    async def _take(self, timeout_seconds: float) -> Connection:
        if self._availability.is_away:
            raise DatabaseUnavailable("/")
        try:
            connection: Connection = await self._pool.acquire(timeout=timeout_seconds)
        except (TimeoutError, TooManyConnectionsError) as error:
            raise ServerBusy("/") from error
        except DatabaseFailure as error:
            raise DatabaseUnavailable("/") from error
        return connection

    async def close(self) -> None:
        """Close all connections; those that do not take part are cut off."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._pool.close()
        except DatabaseFailure:
            self._pool.terminate()


@contextlib.contextmanager
def loss_of(connection: Connection) -> Iterator[None]:
    """Tells the loss of this connection from all else that may go wrong.

    Raises:
        DatabaseUnavailable
    """
    try:
        yield
    except _LOST as error:
        raise DatabaseUnavailable("/") from error
    except _LOST_IF_CLOSED as error:
        if not is_closed(connection):
            raise
        raise DatabaseUnavailable("/") from error


def is_closed(connection: Connection) -> bool:
    """Whether nothing more can be done on a connection, which the pool may have taken back."""
    try:
        return bool(connection.is_closed())
    except InterfaceError:
        return True


def cut(connection: Connection) -> None:
    """End a connection that is in an unknown state."""
    with contextlib.suppress(InterfaceError):
        connection.terminate()
