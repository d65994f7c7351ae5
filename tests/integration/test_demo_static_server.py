"""The server of another make in the demo of the wide topology can be followed by walking it."""

from __future__ import annotations

from catalog.demo.federation import free_ports
from catalog.demo.staticserver import Json, open_static_server
from tests.integration.conftest import Node
from tests.integration.federation import digest_rows, eventually, running, start_member

MESSAGES = "/messagegroups/g/messages"


def documents() -> dict[str, dict[str, Json]]:
    """More messages than a page has, and a schema with two versions."""
    messages = {f"m{n}": {"description": f"message {n}"} for n in range(6)}
    versions = {"1": {"schema": {"type": "object"}}, "2": {"schema": {"type": "string"}}}
    schema = {"format": "JsonSchema/draft-07", "versions": versions}
    return {
        "messagegroups": {"g": {"messages": messages}},
        "schemagroups": {"g": {"description": "all schemas", "schemas": {"s": schema}}},
    }


async def test_the_server_of_the_demo_is_followed_with_its_changes(database_url: str) -> None:
    [port] = free_ports(1)
    async with (
        open_static_server("static", documents(), port) as server,
        start_member(database_url, pull_interval_seconds=0.3) as node,
    ):
        body = {"id": "walked", "source": server.url, "mode": "walk"}
        answer = await node.send("POST", "/replication/links", body)
        assert answer.status == 201, answer.body

        async def has_all() -> bool:
            rows = await digest_rows(node)
            return {xid for (_, xid), row in rows.items() if row[1] == "false"} == {*server.xids()}

        async with running(node):
            await eventually(has_all)
            server.describe(f"{MESSAGES}/m1", "another text")
            server.delete(f"{MESSAGES}/m5")
            await eventually(has_all)
            await eventually(lambda: _describes(node, f"{MESSAGES}/m1", "another text"))
        answer = await node.send("GET", "/schemagroups/g/schemas/s")
        assert answer.json == {"type": "string"}
        shown = await node.get("/replication/links/walked")
        assert (shown["conflicts"], shown.get("error")) == (0, None)


async def _describes(node: Node, path: str, text: str) -> bool:
    return bool((await node.get(path)).get("description") == text)
