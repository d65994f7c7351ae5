"""Models that include parts of other documents (core/model.md, "Includes in ... Model Data")."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.integration.conftest import Node, assert_problem, fresh_node, start_node

OWNER = {"owner": {"type": "string"}}


@pytest.fixture
async def elsewhere() -> AsyncIterator[str]:
    """The URL of a server with documents to include."""
    documents: dict[str, Any] = {
        "attributes": OWNER,
        "model": {
            "groups": {"dirs": {"singular": "dir", "attributes": {"$include": "attributes"}}}
        },
        "large": {"labels": {"x": "x" * 2**20}},
    }

    async def get(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name == "moved":
            raise web.HTTPFound("/attributes")
        if name == "text":
            return web.Response(text="hello")
        return web.Response(body=orjson.dumps(documents[name]), content_type="application/json")

    app = web.Application()
    app.router.add_get("/{name}", get)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


def including(reference: str) -> dict[str, Any]:
    return {"groups": {"dirs": {"singular": "dir", "attributes": {"$include": reference}}}}


node = fresh_node(modelsource={})


async def test_the_source_keeps_its_includes_and_the_model_has_what_they_stand_for(
    database_url: str, node: Node, elsewhere: str
) -> None:
    given = including(f"{elsewhere}/attributes")
    answer = await node.send("PUT", "/modelsource", given)
    assert (answer.status, answer.json) == (200, given)
    assert await node.get("/modelsource") == given
    assert "$include" not in orjson.dumps(await node.get("/model")).decode()
    await node.put("/dirs/d", {"owner": "me"})
    async with start_node(database_url) as again:
        assert await again.get("/modelsource") == given
        await again.put("/dirs/e", {"owner": "me"})


async def test_documents_are_found_relative_to_where_they_are_included(
    node: Node, elsewhere: str
) -> None:
    given = {"groups": {"$include": f"{elsewhere}/model#/groups"}}
    assert (await node.send("PATCH", "/", {"modelsource": given})).status == 200
    await node.put("/dirs/d", {"owner": "me"})


@pytest.mark.parametrize("name", ["missing", "moved", "text", "large"])
async def test_what_cannot_be_fetched_changes_nothing(
    node: Node, elsewhere: str, name: str
) -> None:
    before = await node.state()
    answer = await node.send("PUT", "/modelsource", including(f"{elsewhere}/{name}"))
    assert_problem(answer)
    assert (answer.status, answer.error) == (400, "model_error")
    assert await node.state() == before


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://a.example/x", "http://u:p@a.example"])
async def test_only_what_is_on_the_web_is_fetched(node: Node, url: str) -> None:
    assert (await node.send("PUT", "/modelsource", including(url))).error == "model_error"


async def test_a_model_cannot_reach_into_a_private_network(
    database_url: str, elsewhere: str
) -> None:
    async with start_node(database_url, modelsource={}, allow_private_addresses=False) as guarded:
        answer = await guarded.send("PUT", "/modelsource", including(f"{elsewhere}/attributes"))
    assert answer.error == "model_error"
    assert "public" in answer.json["title"]


async def test_why_a_document_could_not_be_read_is_not_told(
    node: Node, elsewhere: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The difference would tell which hosts, ports and paths a network has."""
    urls = [f"{elsewhere}/{name}" for name in ("missing", "moved", "text", "large")]
    urls += ["http://127.0.0.1:1/?token=s3cret", "http://no-such-host.invalid/"]
    said = set()
    for url in urls:
        problem = assert_problem(await node.send("PUT", "/modelsource", including(url)))
        assert "instance" not in problem
        said.add(orjson.dumps(problem).decode().replace(url, "URL"))
    assert len(said) == 1, said
    assert "could not be read" in said.pop()
    log = capsys.readouterr().err
    assert "500" in log
    assert "s3cret" not in log


async def test_the_catalog_is_not_locked_while_a_document_is_fetched(node: Node) -> None:
    """A slow server elsewhere must not keep anybody from writing."""
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def get(_: web.Request) -> web.Response:
        asked.set()
        await go_on.wait()
        return web.json_response(OWNER)

    app = web.Application()
    app.router.add_get("/slow", get)
    await node.put("/modelsource", {"groups": {"dirs": {"singular": "dir"}}})
    async with TestServer(app) as server, asyncio.timeout(20):
        url = str(server.make_url("/slow"))
        change = asyncio.create_task(node.send("PUT", "/modelsource", including(url)))
        await asked.wait()
        await node.put("/dirs/d", {"name": "n"})
        go_on.set()
        assert (await change).status == 200
    await node.put("/dirs/d", {"owner": "me"})
