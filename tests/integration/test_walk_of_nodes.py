"""A node whose replication cannot be reached is walked, and its replicas are what it would send."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import hdrs, web
from aiohttp.test_utils import TestServer

from catalog.model.xid import depth
from replication.sources.catalogwalk import Walked
from tests.integration.conftest import Node
from tests.integration.federation import databases, digest_rows, own_rows, start_member
from tests.integration.foreignserver import ForeignServer
from tests.integration.test_documents import GROUPS, imported
from tests.integration.walking import walking

pytestmark = pytest.mark.asyncio(loop_scope="module")

HERE = Path(__file__).parent.parent / "documents"
DOCUMENTS = (
    "codegen/kafka-producer-endpoint.xreg.json",
    *("spec/contoso-erp-jsons07.xreg.json", "spec/inkjet-proto3.xreg.json"),
    *("spec/lightbulb-avro.xreg.json", "spec/smartoven-xsd.xreg.json"),
)
REFERENCE = "/schemagroups/many/schemas/x"
_KEPT = (hdrs.CONTENT_TYPE, hdrs.ETAG, hdrs.LINK)
WAYS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "in pages": {"available": {}},
    "in pages without flags": {"available": {}, "flags": []},
}


@contextlib.asynccontextmanager
async def hidden(node: Node, **capabilities: Any) -> AsyncIterator[ForeignServer]:
    """A way to a node that offers no replication, and says that it has these capabilities."""

    async def forward(request: web.Request) -> web.Response:
        if request.path.startswith("/replication"):
            raise web.HTTPNotFound
        asked = {
            name: request.headers[name] for name in ("If-None-Match",) if name in request.headers
        }
        async with session.get(f"{node.url}{request.raw_path}", headers=asked) as answer:
            kept = {name: answer.headers[name] for name in _KEPT if name in answer.headers}
            if request.path == "/capabilities" and capabilities:
                return web.json_response({**await answer.json(), **capabilities})
            return web.Response(body=await answer.read(), status=answer.status, headers=kept)

    app = web.Application()
    app.router.add_get("/{path:.*}", forward)
    async with aiohttp.ClientSession() as session, TestServer(app) as server:
        yield ForeignServer(url=str(server.make_url("")).rstrip("/"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def source(postgres_url: str, template: str) -> AsyncIterator[Node]:
    """A node with published documents, with more than one page of some collection."""
    async with databases(postgres_url, template, 1) as (one,), start_member(one) as node:
        for document in DOCUMENTS:
            assert (await imported(node, HERE / document, migrate=True)).is_imported
        for number in range(12):
            await node.put(f"/schemagroups/many/schemas/s{number}$details", {"format": "some"})
            await node.put(f"/schemagroups/group{number}", {})
        path = "/schemagroups/many/schemas/s0"
        for text in (b'{ "type":   "object" }', b"", "schön".encode("latin-1")):
            headers = {"Content-Type": "application/json", "xRegistry-format": "some"}
            answer = await node.request("POST", path, body=text, headers=headers)
            assert answer.status == 201, answer.body
        await node.put(f"{REFERENCE}/meta", {"xref": path})
        yield node


async def content(node: Node) -> Any:
    """All that a node has, as documents are exchanged: with times, epochs and exact bytes."""
    exported = await node.get("/export?binary")
    return without_readonly({name: exported[name] for name in GROUPS})


def without_readonly(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        n: without_readonly(each)
        for n, each in value.items()
        if n not in ("readonly", "defaultversionurl")
    }


@pytest.mark.parametrize("way", WAYS)
async def test_a_walked_node_is_replicated_as_it_is(
    postgres_url: str, template: str, source: Node, way: str
) -> None:
    authority = source.database.node.authority
    async with (
        databases(postgres_url, template, 1) as (one,),
        start_member(one) as target,
        hidden(source, **WAYS[way]) as foreign,
        walking(target, foreign, authority=authority) as walker,
    ):
        await walker.walk()
        assert await walker.conflicts() == {}
        expected, found = await own_rows(source), await digest_rows(target, verify=True)
        assert found.keys() == expected.keys()
        # Cross references show neither times nor an epoch of their own, and what the source has
        # found out about documents is not theirs.
        differing = {xid for (_, xid), row in found.items() if row != expected[authority, xid]}
        assert all("/schemas/" in xid and depth(xid) == 6 for xid in differing - {REFERENCE})
        assert await content(target) == await content(source)
        logged = await target.logged()
        again: Walked = await walker.walk()
        assert (await target.logged(), again.changes) == (logged, 0)
