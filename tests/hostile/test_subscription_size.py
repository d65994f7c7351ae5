"""A subscription with a filter of hundreds of thousands of attributes."""

from __future__ import annotations

import asyncio
from io import BytesIO

import aiohttp
import orjson

from tests.e2e.nodes import NodeProcess
from tests.hostile.bystander import bystander

ATTRIBUTES = 700_000


async def test_a_filter_of_700000_attributes_is_refused(victim: NodeProcess) -> None:
    attributes = {f"a{number}": "x" for number in range(ATTRIBUTES)}
    body = {
        "sink": "http://127.0.0.1:9/",
        "protocol": "HTTP",
        "filters": [{"exact": attributes}],
    }
    content, headers = orjson.dumps(body), {"Content-Type": "application/json"}
    async with bystander(victim.url) as seen, aiohttp.ClientSession(victim.url) as session:
        for _ in range(10):
            data = BytesIO(content)
            async with session.post("/subscriptions", data=data, headers=headers) as answer:
                assert answer.status == 413
                assert "10000 JSON values" in await answer.text()
        await asyncio.sleep(0.5)  # the time in which the other client goes on
    seen.assert_served(least=3)
    async with (
        aiohttp.ClientSession(victim.url) as session,
        session.get("/subscriptions") as answer,
    ):
        assert await answer.json() == []
