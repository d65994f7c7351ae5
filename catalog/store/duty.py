"""Duties that one process of a node has at a time, for as long as its connection lives."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from asyncpg.exceptions import InterfaceError, PostgresError

from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("duty")
_BEAT_SECONDS = 5.0


@contextlib.asynccontextmanager
async def take_over(connection: Connection, duty: str) -> AsyncIterator[bool]:
    """Whether this connection's process is the one of its node that has the duty.

    It is until it leaves the context or the connection ends.
    """
    if not await connection.fetchval(_queries.take_over, duty):
        yield False
        return
    try:
        yield True
    finally:
        # A connection that was lost has lost the lock already.
        with contextlib.suppress(InterfaceError, PostgresError, OSError):
            await connection.execute(_queries.step_down, duty, timeout=5)


@contextlib.asynccontextmanager
async def listening(
    connection: Connection, channel: str, hear: Callable[[str], None]
) -> AsyncIterator[None]:
    """Call `hear` with the payload of everything that is announced on a channel."""

    def forward(_: object, __: object, ___: object, payload: object) -> None:
        hear(str(payload))

    await connection.add_listener(channel, forward)
    try:
        yield
    finally:
        # A connection that was lost has no listeners any more.
        with contextlib.suppress(InterfaceError):
            await connection.remove_listener(channel, forward)


async def run_beats(connection: Connection) -> None:
    """Fail soon after the connection, and with it the duty, is lost."""
    while True:
        await asyncio.sleep(_BEAT_SECONDS)
        async with asyncio.timeout(_BEAT_SECONDS):
            await connection.execute(_queries.beat)
