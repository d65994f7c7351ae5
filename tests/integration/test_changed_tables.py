"""A newer version may add columns to tables while processes of this one serve."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import orjson

from tests.integration.conftest import Node
from tests.integration.federation import start_member

MESSAGES = "/messagegroups/g/messages"
TABLES = ("entities", "documents", "tombstones", "changes", "subscriptions", "links", "node")


async def use(node: Node, name: str) -> None:
    """Write and read in all ways; no request may fail."""

    async def send(method: str, path: str, body: Any = None) -> None:
        answer = await node.send(method, path, body)
        assert answer.status < 300, (method, path, answer.body)

    writes = (send("PUT", f"{MESSAGES}/{name}{n}", {"description": name}) for n in range(3))
    await asyncio.gather(*writes)
    await send("POST", MESSAGES, {f"{name}-{number}": {} for number in range(60)})
    await send("DELETE", f"{MESSAGES}/{name}0")
    await send("POST", "/subscriptions", {"sink": "http://127.0.0.1:9/", "protocol": "HTTP"})
    await send("PATCH", "/capabilities", {})
    for path in (
        *(f"{MESSAGES}/{name}1", f"{MESSAGES}?filter=description={name}", "/export"),
        *("/messagegroups?inline=*", "/subscriptions", "/replication/links", "/replication"),
        *("/replication/snapshot", "/replication/digests?bits=8"),
    ):
        await send("GET", path)
    snapshot = await node.send("GET", "/replication/snapshot?authority=urn:none")
    cursor = orjson.loads(snapshot.body.splitlines()[-1])["cursor"]
    await send("POST", MESSAGES, {f"{name}-late": {}})
    await send("DELETE", f"{MESSAGES}/{name}-late")
    await send("GET", f"/replication/changes?after={cursor}")


async def test_no_request_fails_when_tables_get_columns(database_url: str) -> None:
    async with start_member(database_url) as node:
        await use(node, "before")
        connection = await asyncpg.connect(database_url)
        for table in TABLES:
            await connection.execute(f"ALTER TABLE {table} ADD COLUMN later text")
        await connection.close()
        await use(node, "after")
