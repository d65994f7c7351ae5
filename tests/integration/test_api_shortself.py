"""Short URLs of entities (core/spec.md, "`shortself` Attribute")."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.conftest import Node, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEED = {
    "schemagroups": {
        "g": {"schemas": {"s": {"versions": {"1": {"format": "Text", "schema": {"a": 1}}}}}}
    },
    "messagegroups": {"a~b:c@d": {"messages": {"m": {"meta": {}}}}},
}
PATHS = [
    "/",
    "/messagegroups/a~b:c@d",
    "/messagegroups/a~b:c@d/messages/m",
    "/messagegroups/a~b:c@d/messages/m/meta",
    "/messagegroups/a~b:c@d/messages/m/versions/1",
    "/schemagroups/g/schemas/s$details",
    "/schemagroups/g/schemas/s/versions/1$details",
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def able(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(shared_database_url) as node:
        answer = await node.send("POST", "/", SEED)
        assert answer.status == 200, answer.body
        await turn(node, on=True)
        yield node


async def turn(node: Node, *, on: bool) -> None:
    assert (await node.send("PATCH", "/capabilities", {"shortself": on})).status == 200


async def follow(node: Node, url: str, method: str = "GET", body: Any = None) -> Any:
    """The answer of where a short URL leads."""
    first = await node.send(method, url.removeprefix(node.url), body)
    assert first.status == 307, first.body
    return await node.send(method, first.headers["Location"].removeprefix(node.url), body)


@pytest.mark.parametrize("path", PATHS)
async def test_a_short_url_leads_to_the_entity(able: Node, path: str) -> None:
    shown = await able.get(path)
    suffix = "$details" if path.endswith("$details") else ""
    answer = await follow(able, shown["shortself"] + suffix)
    assert answer.json == shown


async def test_every_entity_has_one_of_its_own(able: Node) -> None:
    shown = await able.get("/?inline=*,messagegroups.messages.meta")
    found: list[str] = []

    def collect(value: Any) -> None:
        if isinstance(value, dict):
            found.extend([value["shortself"]] if "xid" in value else [])
            for inner in value.values():
                collect(inner)

    collect(shown)
    assert len(found) == len(set(found)) == 9


async def test_a_short_url_takes_what_the_long_one_takes(able: Node) -> None:
    short = (await able.get("/messagegroups/a~b:c@d/messages/m"))["shortself"]
    assert (await follow(able, f"{short}?inline=versions")).json["versions"].keys() == {"1"}
    assert (await follow(able, f"{short}/versions")).json.keys() == {"1"}
    written = await follow(able, f"{short}/versions/1", "PATCH", {"name": "M"})
    assert (written.status, written.json["name"]) == (200, "M")
    document = (await able.get("/schemagroups/g/schemas/s$details"))["shortself"]
    answer = await follow(able, document)
    assert answer.json == {"a": 1}
    assert answer.headers["xRegistry-shortself"] == document


async def test_a_document_view_has_none(able: Node) -> None:
    """core/spec.md, "Doc Flag"."""
    answer = await able.send("GET", "/?doc&inline=*")
    assert b"shortself" not in answer.body


async def test_it_is_the_same_after_the_capability_was_off(able: Node) -> None:
    path = "/messagegroups/a~b:c@d"
    before = (await able.get(path))["shortself"]
    await turn(able, on=False)
    assert "shortself" not in await able.get(path)
    assert (await able.send("GET", before.removeprefix(able.url))).status == 404
    await turn(able, on=True)
    assert (await able.get(path))["shortself"] == before


async def test_a_cross_reference_has_short_urls_of_its_own(able: Node) -> None:
    body = {"meta": {"xref": "/messagegroups/a~b:c@d/messages/m"}}
    await able.put("/messagegroups/a~b:c@d/messages/x", body)
    path = "/messagegroups/a~b:c@d/messages/x/versions/1"
    shown = await able.get(path)
    assert (await follow(able, shown["shortself"])).json == shown
    assert (await able.send("DELETE", "/messagegroups/a~b:c@d/messages/x")).status == 204


@pytest.mark.parametrize("path", ["/~nothing", "/~AAAAAAAAAAAAAAAA", "/~AAAA/x"])
async def test_other_keys_lead_nowhere(able: Node, path: str) -> None:
    assert (await able.send("GET", path)).status == 404
