"""The shards of subscriptions that a process delivers to, leased for a few seconds at a time."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Collection
from datetime import timedelta

import structlog

from catalog.model.errors import ServerBusy
from catalog.store.connections import DatabaseFailure
from catalog.store.database import Connection, Database
from catalog.store.leadership import run_heartbeat
from catalog.subscriptions.stored.deliveryleases import end_leases, release_leases, renew_leases

_log = structlog.get_logger(__name__)

_LEASE = timedelta(seconds=5)
_RENEW_SECONDS = 1.0
_RENEWING_SECONDS = 3.0
_LEAVING_SECONDS = 2.0


class ShardLeases:
    """Keeps the process's share of the shards, as processes come and go.

    Args:
        process: the id that distinguishes the processes of a node.
    """

    def __init__(self, process: uuid.UUID) -> None:
        self.held: frozenset[int] = frozenset()
        self._process = process
        self._leaving: frozenset[int] = frozenset()

    async def run(
        self,
        connection: Connection,
        changed: Callable[[], None],
        in_use: Callable[[], Collection[int]],
    ) -> None:
        """Renew the leases for ever.

        Args:
            connection: a connection without further users in the meantime.
            changed: called when the set of held shards has changed.
            in_use: the shards for which the process delivers at the moment.

        Raises:
            DatabaseUnavailable: the connection is lost, and the leases with it.
        """

        async def renew(connection: Connection) -> None:
            async with asyncio.timeout(_RENEWING_SECONDS):
                leased, share = await renew_leases(connection, self._process, _LEASE)
                # Released one renewal later, once the deliveries have stopped and are saved.
                if left := self._leaving & {*leased[share:]}:
                    await release_leases(connection, self._process, left.difference(in_use()))
            self._leaving = frozenset(leased[share:])
            held = frozenset(leased[:share])
            if held != self.held:
                _log.info("shares of deliveries changed", shards=len(held), before=len(self.held))
                self.held = held
                changed()

        await renew(connection)
        await run_heartbeat(connection, renew, every_seconds=_RENEW_SECONDS)

    async def end(self, database: Database) -> None:
        """Release all leases after the end of deliveries."""
        self.held = frozenset()
        with contextlib.suppress(ServerBusy, TimeoutError, *DatabaseFailure):
            async with asyncio.timeout(_LEAVING_SECONDS), database.acquire() as connection:
                await end_leases(connection, self._process)
