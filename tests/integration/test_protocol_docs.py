"""The follower on the page about the protocol follows a node, by what the page says alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from catalog.client import Client
from replication.routes import routes
from tests.integration.conftest import start_node
from tests.pages import FOLLOWER, ROOT, blocks

PAGE = ROOT / FOLLOWER
ADDRESS = "http://127.0.0.1:8080"
SCHEMA = "/schemagroups/g/schemas/s"


async def test_the_follower_of_the_page_equals_its_source(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    copying, following = blocks(PAGE)
    names: dict[str, Any] = {}
    async with start_node(database_url, routes=routes) as node, Client.open(node.url) as client:

        async def run(text: str) -> None:
            code = compile(text.replace(ADDRESS, node.url), str(PAGE), "exec")
            await asyncio.to_thread(exec, code, names)

        for group in ("g", "gone"):
            await client.create(f"/schemagroups/{group}", {"labels": {"size": "½"}})
        headers = {"xRegistry-format": "JsonSchema/draft-07"}
        answer = await node.send("PUT", SCHEMA, {"type": "object"}, **headers)
        assert answer.status == 201, answer.body
        await run(copying.text)
        await client.update("/schemagroups/g", {"description": "changed"})
        await client.delete("/schemagroups/gone")
        await client.create("/schemagroups/late", {})
        await run(following.text)
    # The group, its schema with a version, the deleted group, and the late one.
    assert capsys.readouterr().out == "5 copies, equal to those of the source\n"
    documents = {origin: copy.get("document") for (_, origin), copy in names["held"].items()}
    assert documents[f"{SCHEMA}/versions/1"]
