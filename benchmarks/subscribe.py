"""Creates many subscriptions at a node."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from benchmarks.load import Connection, connected, send_request

ONE_OF_A_CHANGE = ("io.xregistry.resource.updated",)
"""The types of which a change of a message has one event: another one is about its version."""

_AT_ONCE = 8


async def subscribe_all(url: str, sinks: Sequence[str]) -> None:
    """Have each change of a message sent to these URLs, as one event."""
    wanted = {"protocol": "HTTP", "types": ONE_OF_A_CHANGE}
    await create_all(url, [{"sink": each, **wanted} for each in sinks])


async def create_all(url: str, definitions: Sequence[Mapping[str, Any]]) -> None:
    """Create subscriptions, a few at a time."""
    async with connected(url, _AT_ONCE) as connections:

        async def create(connection: Connection, first: int) -> None:
            for definition in definitions[first::_AT_ONCE]:
                body = orjson.dumps(definition)
                await connection.request(send_request("POST", url, "/subscriptions", body))

        async with asyncio.TaskGroup() as group:
            for first, connection in enumerate(connections):
                group.create_task(create(connection, first))
