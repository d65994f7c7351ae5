"""The client of a node's API, against small servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from catalog.client import ONCE, BadAnswer, Client, ClientError, Refused, Unreachable

Handler = Callable[[web.Request], Awaitable[web.Response]]


@asynccontextmanager
async def client_of(handler: Handler, **options: Any) -> AsyncIterator[Client]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with Client.open(url, timeout_seconds=2, retry=ONCE, **options) as client:
            yield client
    finally:
        await runner.cleanup()


async def test_a_collection_is_read_to_its_last_page() -> None:
    async def pages(request: web.Request) -> web.Response:
        if "after" in request.query:
            return web.json_response({"c": 3})
        link = '</endpoints?after=b>; rel="next", </>; rel=root'
        return web.json_response({"a": 1, "b": 2}, headers={"Link": link})

    async with client_of(pages) as client:
        assert [item async for item in client.items("/endpoints")] == [("a", 1), ("b", 2), ("c", 3)]


async def test_pages_are_read_from_the_node_that_was_asked_whatever_it_calls_itself() -> None:
    seen: list[str] = []

    async def pages(request: web.Request) -> web.Response:
        seen.append(f"{request.path_qs} {request.headers['Authorization']}")
        if "after" in request.query:
            return web.json_response({"b": 2})
        link = "<http://catalog.invalid/prefix/endpoints?limit=1&after=a%2Cb>;rel=next"
        return web.json_response({"a": 1}, headers={"Link": link})

    async with client_of(pages, token="secret") as client:
        found = [item async for item in client.items("/endpoints", page_size=1)]
    assert found == [("a", 1), ("b", 2)]
    assert seen == [
        "/endpoints?limit=1 Bearer secret",
        "/endpoints?limit=1&after=a,b Bearer secret",
    ]


async def test_a_page_that_is_followed_by_itself_ends_the_collection() -> None:
    async def page(request: web.Request) -> web.Response:
        link = "</endpoints?after=a>;rel=next"
        return web.json_response({"a": 1}, headers={"Link": link})

    async with client_of(page) as client:
        with pytest.raises(BadAnswer):
            [item async for item in client.items("/endpoints")]


async def test_an_answer_that_is_too_large_is_not_kept() -> None:
    async def large(_: web.Request) -> web.Response:
        return web.Response(body=b" " * 3000)

    async with client_of(large) as client:
        with pytest.raises(BadAnswer, match="more than 2000 bytes"):
            await client.request("GET", "/", largest=2000)
        assert len((await client.request("GET", "/", largest=3000)).body) == 3000


async def test_a_redirect_is_not_followed() -> None:
    async def redirect(_: web.Request) -> web.Response:
        return web.Response(status=308, headers={"Location": "https://elsewhere.invalid/"})

    async with client_of(redirect, token="secret") as client:
        with pytest.raises(BadAnswer, match=r"a redirect to https://elsewhere\.invalid/"):
            await client.get("/")


async def test_a_refusal_carries_every_violation() -> None:
    problem = {
        "title": "first",
        "subject": "/a",
        "detail": "do this",
        "violations": [{"title": "first", "subject": "/a"}, {"title": "second", "subject": "/b"}],
    }

    async def refuse(_: web.Request) -> web.Response:
        return web.json_response(problem, status=400)

    async with client_of(refuse) as client:
        with pytest.raises(Refused) as caught:
            await client.import_groups({})
    assert caught.value.hint == "do this"
    assert [v.subject for v in caught.value.problem.violations] == ["/a", "/b"]


async def test_an_error_that_is_no_problem_document_becomes_one() -> None:
    async def fail(_: web.Request) -> web.Response:
        return web.Response(status=502, text="upstream is away")

    async with client_of(fail) as client:
        with pytest.raises(Refused) as caught:
            await client.get("/")
    assert caught.value.problem.status == 502
    assert caught.value.problem.detail == "upstream is away"
    assert len(caught.value.problem.violations) == 1


async def test_what_is_not_json_is_no_answer_of_a_node() -> None:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<html>")

    async with client_of(page) as client:
        with pytest.raises(BadAnswer):
            await client.get("/")


async def test_digest_rows_are_read_with_their_types() -> None:
    async def rows(request: web.Request) -> web.Response:
        assert request.query["format"] == "csv"
        header = "authority,origin,xid,epoch,deleted,digest,bucket"
        return web.Response(text=f"{header}\nurn:a,/g/1,/g/1,7,true,00ff,3\n")

    async with client_of(rows) as client:
        [row] = await client.digest_rows()
    assert (row.authority, row.origin, row.epoch, row.is_deleted) == ("urn:a", "/g/1", 7, True)


@pytest.mark.parametrize("url", ["nonsense", "ftp://host", "http://"])
async def test_what_is_no_url_is_refused_before_a_request(url: str) -> None:
    with pytest.raises(ClientError, match="not the URL of a node"):
        async with Client.open(url):
            pass


async def test_nothing_listening_is_unreachable_with_a_hint() -> None:
    async with Client.open("http://127.0.0.1:1") as client:
        assert not await client.is_ready()
        with pytest.raises(Unreachable) as caught:
            await client.handshake()
    assert "concord serve" in caught.value.hint
