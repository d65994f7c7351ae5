"""Duties that one process of a node has at a time, for as long as its connection lives."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from catalog.model.ownerrors import DatabaseUnavailable
from catalog.store.connections import Connection, DatabaseFailure, cut
from catalog.store.database import wait_for
from catalog.store.queries import Queries

_queries = Queries("duty")
_BEAT_SECONDS = 5.0
_LEAVING_SECONDS = 1.0


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
        await _leave(connection, lambda: connection.execute(_queries.step_down, duty))


async def _leave(connection: Connection, give_up: Callable[[], Awaitable[object]]) -> None:
    """Give up what a connection holds, or the connection: the pool must not get it so."""
    try:
        async with asyncio.timeout(_LEAVING_SECONDS):
            await give_up()
    except BaseException as error:
        cut(connection)
        if not isinstance(error, DatabaseFailure):
            raise


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
        await _leave(connection, lambda: connection.remove_listener(channel, forward))


async def run_beats(connection: Connection) -> None:
    """Fail as soon as the connection, and with it the duty, is lost.

    Raises:
        DatabaseUnavailable
    """
    is_lost = asyncio.Event()

    def lose(_: object) -> None:
        is_lost.set()

    connection.add_termination_listener(lose)
    try:
        while not await wait_for(is_lost, _BEAT_SECONDS):
            await connection.execute(_queries.beat, timeout=_BEAT_SECONDS)
    except DatabaseFailure as error:
        raise DatabaseUnavailable("/") from error
    finally:
        with contextlib.suppress(*DatabaseFailure):
            connection.remove_termination_listener(lose)
    raise DatabaseUnavailable("/")
