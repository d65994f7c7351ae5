"""Watches the database, and passes on the notifications of other processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from random import Random

from asyncpg.exceptions import ConnectionDoesNotExistError, DiskFullError

from catalog.model.backoff import Backoff
from catalog.store.connections import Connection, DatabaseFailure, DatabaseUnusable
from catalog.store.database import SETTINGS, SharedDatabase, wait_for
from catalog.store.queries import Queries
from catalog.store.servers import connect

_changes = Queries("changes")
_servers = Queries("database")
_leadership = Queries("leadership")

_ANNOUNCEMENT_SECONDS = 0.02
_BEAT_SECONDS = 1.0
_PATIENCE_SECONDS = 5.0
# A connection of this duration resets the back-off.
_STEADY_SECONDS = 10.0
_BACKOFF = Backoff(initial=0.1, factor=2.0, cap=5.0, jitter=0.5)

Revive = Callable[[], Awaitable[None]]


async def leave_alone() -> None:
    """Do nothing: the node does not manage the server."""


class Watch:
    """Detects at once that the database is lost, and soon that the database hangs or is back.

    Args:
        revive: starts the server again if this node manages the server and the server has ended;
            raises `DatabaseUnusable`.
        patience_seconds: a server that takes longer to answer the simplest statement counts as
            away.
    """

    def __init__(
        self,
        database: SharedDatabase,
        revive: Revive = leave_alone,
        *,
        patience_seconds: float = _PATIENCE_SECONDS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Random | None = None,
    ) -> None:
        self._database = database
        self._availability = database.availability
        self._revive = revive
        self._patience = patience_seconds
        self._sleep = sleep
        self._random = random or Random()
        self._failures = 0
        self._server: datetime | None = None

    async def run(self) -> None:
        """Watch for ever, through every loss of the database."""
        loop = asyncio.get_running_loop()
        while True:
            connection = await self._connect()
            self._availability.find()
            began = loop.time()
            try:
                await self._follow(connection)
            except TimeoutError:
                self._availability.lose("it does not answer")
            except DatabaseFailure:
                pass  # Perhaps only this connection was lost: connecting will tell.
            finally:
                connection.terminate()
            self._failures = 0 if loop.time() - began > _STEADY_SECONDS else self._failures + 1

    async def _connect(self) -> Connection:
        """Connect, however long it takes; back off after a failure or an early loss."""
        while True:
            try:
                connection: Connection = await connect(
                    self._database.dsn,
                    timeout=self._patience,
                    command_timeout=self._patience,
                    server_settings=SETTINGS,
                )
                await self._meet(connection)
                return connection
            except DatabaseFailure as error:
                self._availability.lose(str(error) or "it does not answer")
            await self._sleep(_BACKOFF.delay(self._failures, self._random))
            self._failures += 1
            try:
                await self._revive()
            except DatabaseUnusable as error:
                self._availability.complain(str(error))

    async def _meet(self, connection: Connection) -> None:
        """Leave the previous server, if a different server or a restarted server answers.

        The server may lack entries of the previous server, so reads from now on get a new
        incarnation.
        """
        server: datetime = await connection.fetchval(_servers.server)
        if self._server not in (None, server):
            await connection.execute(_servers.return_cursors)
            await connection.execute(_servers.begin_incarnation)
            self._database.servers_left += 1
            # Connections may still lead to the previous server, which others now write past.
            await self._database.pools.leave_server()
        self._server = server

    async def _follow(self, connection: Connection) -> None:
        """Send and receive notifications until the connection fails.

        A NOTIFY inside the writing transaction would serialise all commits of the database, so a
        separate statement notifies once for all commits since the last NOTIFY. The statement is a
        commit too, so the frequency is bounded.
        """
        database, own = self._database, connection.get_server_pid()
        woken = database.signal.unannounced

        def hear(_: object, pid: int, channel: str, payload: object) -> None:
            if pid != own:
                database.signal.hear()

        # The end of the connection also ends the wait below.
        connection.add_termination_listener(lambda _: woken.set())
        await connection.add_listener("changes", hear)
        await connection.add_listener("configuration", lambda *_: database.reconfigured.set())
        # Notifications may have been lost while the connection was down.
        database.signal.hear()
        database.reconfigured.set()
        woken.set()
        while not connection.is_closed():
            if self._availability.is_full:
                await self._seek_space(connection)
            if await wait_for(woken, _BEAT_SECONDS):
                woken.clear()
                await connection.execute(_changes.announce)
                await asyncio.sleep(_ANNOUNCEMENT_SECONDS)
            else:
                await connection.execute(_leadership.heartbeat)
        raise ConnectionDoesNotExistError

    async def _seek_space(self, connection: Connection) -> None:
        """Note that the disk of the database has space again, if a write succeeds.

        The statement writes to a temporary file, since a failed write to the server's own log would
        end the server.
        """
        try:
            async with connection.transaction():
                await connection.execute(_servers.spill_soon)
                await connection.fetchval(_servers.spill)
        except DiskFullError:
            await self._sleep(_BEAT_SECONDS)
        else:
            self._availability.free()
