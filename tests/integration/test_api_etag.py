"""Tags of answers, and requests that depend on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.conftest import Node, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEED: dict[str, Any] = {
    "schemagroups": {"g": {"schemas": {"s": {"format": "Text/1", "schema": {"a": 1}}}}},
    "messagegroups": {"g": {"messages": {"m": {"name": "m"}}}},
}
S = "/schemagroups/g/schemas/s"
PATHS = [
    "/",
    "/?inline=*",
    "/messagegroups",
    "/messagegroups?inline=*",
    "/messagegroups/g",
    "/messagegroups/g?collections",
    "/messagegroups/g/messages",
    "/messagegroups/g/messages?sort=name",
    "/messagegroups/g/messages/m",
    "/messagegroups/g/messages/m/meta",
    "/messagegroups/g/messages/m/versions?limit=1",
    "/messagegroups/g/messages/m/versions/1",
    S,
    f"{S}$details?inline=*",
    "/model",
    "/modelsource",
    "/capabilities",
    "/capabilitiesoffered",
    "/export",
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(shared_database_url) as running:
        assert (await running.send("POST", "/", SEED)).status == 200
        yield running


@pytest.mark.parametrize("path", PATHS)
async def test_a_client_that_has_the_answer_does_not_get_it_again(node: Node, path: str) -> None:
    """RFC 9110, 13.1.2 and 15.4.5: the headers are those of the whole answer."""
    whole = await node.send("GET", path)
    tag = whole.headers["ETag"]
    assert tag.startswith('"')
    assert whole.headers["Cache-Control"] == "no-cache"
    for given in (tag, f'"x", {tag}', f"W/{tag}", "*", f'"a,b",{tag}'):
        for method in ("GET", "HEAD"):
            answer = await node.send(method, path, If_None_Match=given)
            assert (answer.status, answer.body) == (304, b""), given
            assert "Content-Type" not in answer.headers
            for name in {*whole.headers} - {
                "Content-Type",
                "Content-Length",
                "Date",
                "X-Request-ID",
            }:
                assert answer.headers.getall(name) == whole.headers.getall(name), name
    for given in ('"x"', tag.strip('"'), f"{tag[:-1]}x", '""'):
        answer = await node.send("GET", path, If_None_Match=given)
        assert (answer.status, answer.body) == (200, whole.body), given
    assert (await node.send("HEAD", path)).headers["ETag"] == tag


async def test_a_tag_is_another_one_as_soon_as_the_answer_is(node: Node) -> None:
    before = {path: await node.send("GET", path) for path in PATHS}
    await node.send("PATCH", "/", {"name": "other"})
    await node.send("PATCH", "/messagegroups/g", {"name": "other", "messages": {"m2": {}}})
    await node.send("PATCH", "/messagegroups/g/messages/m", {"description": "other"})
    await node.send("PATCH", "/messagegroups/g/messages/m/meta", {"labels": {"l": "other"}})
    await node.send("PUT", S, body="other", Content_Type="text/plain")
    for path, old in before.items():
        tag = old.headers["ETag"]
        again = await node.send("GET", path, If_None_Match=tag)
        after = await node.send("GET", path)
        is_same = path in ("/model", "/modelsource") or "capabil" in path
        assert (after.body == old.body, after.headers["ETag"] == tag) == (is_same, is_same), path
        assert again.status == (304 if is_same else 200), path


@pytest.mark.parametrize("path", ["/messagegroups/nope", "/nowhere", "/?inline=nothing"])
async def test_errors_have_no_tag(node: Node, path: str) -> None:
    answer = await node.send("GET", path, If_None_Match="*")
    assert answer.status in (400, 404)
    assert "ETag" not in answer.headers


async def test_an_answer_that_is_made_as_it_is_sent_has_a_weak_tag(database_url: str) -> None:
    """RFC 9110, 8.8.1: of the state that it shows, since nobody knows its bytes before."""
    async with start_node(database_url) as node:
        group = {"messages": {f"m{n}": {"description": "x" * 1000} for n in range(400)}}
        await node.put("/messagegroups/g", group)
        for path in ("/export", "/?inline=*", "/messagegroups?inline=*"):
            await _settle(node)
            whole = await node.send("GET", path)
            tag = whole.headers["ETag"]
            assert tag.startswith('W/"')
            assert "Content-Length" not in whole.headers
            for given in (tag, tag.removeprefix("W/"), "*"):
                answer = await node.send("GET", path, If_None_Match=given)
                assert (answer.status, answer.body) == (304, b"")
                assert answer.headers["ETag"] == tag
            head = await node.send("HEAD", path)
            assert (head.status, head.body, head.headers["ETag"]) == (200, b"", tag)
            assert (await node.send("GET", f"{path}&x" if "?" in path else f"{path}?x")).headers[
                "ETag"
            ] != tag
            await node.send("PATCH", "/messagegroups/g/messages/m1", {"name": path})
            after = await node.send("GET", path, If_None_Match=tag)
            assert (after.status, after.headers["ETag"] != tag) == (200, True)
            assert after.json != whole.json


async def _settle(node: Node) -> None:
    """Wait for whoever else on the server of the database began before the last write did:
    what they may still write is unknown, so the tag changes when they end."""
    is_settled = """
        SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint > max(txid) FROM changes"""
    async with asyncio.timeout(60), node.database.acquire() as connection:
        while not await connection.fetchval(is_settled):
            await asyncio.sleep(0.01)  # between two looks


async def test_writes_ignore_what_the_client_has(node: Node) -> None:
    answer = await node.send("PUT", "/messagegroups/new?inline=*", {}, If_None_Match="*")
    assert (answer.status, answer.json["messagegroupid"]) == (201, "new")
    assert "ETag" not in answer.headers
