"""A browser does nothing with an answer but show it, whatever a document holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from catalog.access.owntokens import make_token
from catalog.http.clientconnections import refusal
from catalog.model.errors import ServerBusy
from catalog.model.roles import Grant
from replication.routes import routes as replication_routes
from tests.integration.conftest import Node, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGE = b"<!doctype html><script>fetch('/', {method: 'DELETE'})</script>"
PICTURE = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
EXPECTED = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(shared_database_url, routes=replication_routes) as running:
        for id, type, body in (("page", "text/html", PAGE), ("picture", "image/svg+xml", PICTURE)):
            path = f"/schemagroups/g/schemas/{id}"
            headers = {"Content-Type": type, "xRegistry-format": "Any/1"}
            made = await running.request("PUT", path, body=body, headers=headers)
            assert made.status in (200, 201), made.body
        yield running


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200),
        ("HEAD", "/", 200),
        ("OPTIONS", "/", 200),
        ("GET", "/schemagroups/g/schemas/page", 200),
        ("GET", "/schemagroups/g/schemas/picture/versions/1", 200),
        ("GET", "/registry/0.4/schemaGroups/g/schemas/page", 200),
        ("GET", "/export", 200),
        ("GET", "/replication/snapshot", 200),
        ("GET", "/messagegroups?inline=*", 200),
        ("GET", "/nowhere", 400),
        ("GET", "/messagegroups/none", 404),
        ("POST", "/model", 405),
        ("GET", "/schemagroups?filter=<script>", 400),
        ("DELETE", "/messagegroups/none", 404),
    ],
)
async def test_every_answer_tells_a_browser_to_show_it_only(
    node: Node, method: str, path: str, status: int
) -> None:
    answer = await node.send(method, path)
    assert answer.status == status
    assert {name: answer.headers.getall(name) for name in EXPECTED} == {
        name: [value] for name, value in EXPECTED.items()
    }
    assert "Strict-Transport-Security" not in answer.headers, "there is no TLS"


async def test_a_document_keeps_its_type_and_its_bytes(node: Node) -> None:
    for _ in range(2):  # the second time as it was kept
        answer = await node.send("GET", "/schemagroups/g/schemas/page")
        assert (answer.headers["Content-Type"], answer.body) == ("text/html", PAGE)
        assert answer.headers["Content-Security-Policy"] == EXPECTED["Content-Security-Policy"]


async def test_answers_that_come_before_any_handler_have_them_too(node: Node) -> None:
    reader, writer = await asyncio.open_connection(node.client.host, node.client.port)
    writer.write(b"GET / HTTP/1.1\r\nBad Header\r\n\r\n")
    malformed = await reader.read()
    writer.close()
    for answer in (malformed, refusal(ServerBusy())):
        head = answer.partition(b"\r\n\r\n")[0].decode().lower()
        for name, value in EXPECTED.items():
            assert head.count(f"{name}: {value}".lower()) == 1, head


async def test_a_shared_cache_keeps_no_answer_of_a_known_caller(other_database_url: str) -> None:
    async with start_node(other_database_url, anonymous_role="reader") as node:
        async with node.database.transaction() as connection:
            grants = (Grant("admin"),)
            _, token = await make_token(connection, name="t", grants=grants, expiresat=None)
        bearer = f"Bearer {token}"
        anonymous = await node.send("GET", "/")
        known = await node.send("GET", "/", Authorization=bearer)
        again = await node.send("GET", "/", If_None_Match=known.headers["ETag"])
        kept = await node.send("GET", "/access/tokens", Authorization=bearer)
    assert anonymous.headers["Cache-Control"] == "no-cache"
    assert known.headers["Cache-Control"] == "private, no-cache"
    assert kept.headers["Cache-Control"] == "no-store"
    assert again.status == 304
    for answer in (anonymous, known, again, kept):
        assert answer.headers.getall("Vary")[-1] == "Authorization"
