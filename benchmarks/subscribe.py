"""Creates many subscriptions at a node."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from benchmarks.load import Connection, connected, send_request

_AT_ONCE = 8


async def subscribe_all(url: str, sinks: Sequence[str]) -> None:
    """Have all changes of a node sent to these URLs."""
    await create_all(url, [{"sink": each, "protocol": "HTTP"} for each in sinks])


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
