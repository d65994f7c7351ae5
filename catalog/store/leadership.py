"""Roles that a single process of a node has at a time, as long as its connection lives."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from catalog.model.concorderrors import DatabaseUnavailable
from catalog.store.connections import Connection, DatabaseFailure, cut, give_up
from catalog.store.database import wait_for
from catalog.store.queries import Queries

_queries = Queries("leadership")
_HEARTBEAT_SECONDS = 5.0
_LEAVING_SECONDS = 1.0


@contextlib.asynccontextmanager
async def take_over(connection: Connection, role: str) -> AsyncIterator[bool]:
    """Yield whether this connection's process now has a role of the node.

    The process has the role until the context or the connection ends. If the outcome of the request
    is unknown, the connection is closed.
    """
    try:
        is_leader = await connection.fetchval(_queries.take_over, role)
    except BaseException:
        # The server may have given the role, and the pool must not get a connection with a role.
        cut(connection)
        raise
    if not is_leader:
        yield False
        return
    try:
        yield True
    finally:
        release = partial(connection.execute, _queries.step_down, role)
        await give_up(connection, _LEAVING_SECONDS, release)


@contextlib.asynccontextmanager
async def listening(
    connection: Connection, channel: str, hear: Callable[[str], None]
) -> AsyncIterator[None]:
    """Call `hear` with the payload of each notification of a channel."""

    def forward(_: object, __: object, ___: object, payload: object) -> None:
        hear(str(payload))

    await connection.add_listener(channel, forward)
    try:
        yield
    finally:
        release = partial(connection.remove_listener, channel, forward)
        await give_up(connection, _LEAVING_SECONDS, release)


async def run_heartbeat(
    connection: Connection,
    beat: Callable[[Connection], Awaitable[None]] | None = None,
    *,
    every_seconds: float = _HEARTBEAT_SECONDS,
) -> None:
    """Fail as soon as the connection, and with it the role, is lost.

    The connection is used for nothing else meanwhile.

    Args:
        beat: called again and again; bounds its own time. By default, asks for a sign of life.

    Raises:
        DatabaseUnavailable
    """
    beat = beat or _ask_for_life
    is_lost = asyncio.Event()

    def lose(_: object) -> None:
        is_lost.set()

    connection.add_termination_listener(lose)
    try:
        while not await wait_for(is_lost, every_seconds):
            await beat(connection)
    except DatabaseFailure as error:
        raise DatabaseUnavailable("/") from error
    finally:
        with contextlib.suppress(*DatabaseFailure):
            connection.remove_termination_listener(lose)
    raise DatabaseUnavailable("/")


async def _ask_for_life(connection: Connection) -> None:
    await connection.execute(_queries.heartbeat, timeout=_HEARTBEAT_SECONDS)
