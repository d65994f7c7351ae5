"""A page in a browser: it writes nothing here, and reads nothing by a name that it has chosen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from replication.routes import routes as replication_routes
from tests.integration.conftest import Answer, Node, assert_problem, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGE = "https://page.example"
PUBLIC = "https://catalog.example"
SETTINGS: dict[str, Any] = {
    "public_url": f"{PUBLIC}/concord",
    "hosts": "node-1,catalog_internal",
    "cors_origins": PAGE,
    "allow_private_addresses": True,
}
SUBSCRIPTION = b'{"sink": "http://127.0.0.1:1/", "protocol": "HTTP"}'
LINK = b'{"source": "http://127.0.0.1:1"}'

# Requests that a page may send anywhere without asking first (Fetch, "CORS-safelisted").
SIMPLE_WRITES = [
    ("/subscriptions", SUBSCRIPTION),
    ("/replication/links?force", LINK),
    ("/replication/links", b'{"mode": "accept", "authority": "urn:example:a"}'),
    ("/replication/repair", b'{"origins": []}'),
    ("/replication/fetch", b'{"origins": []}'),
    ("/", b'{"messagegroups": {"g": {}}}'),
    ("/messagegroups", b'{"g": {}}'),
    ("/messagegroups/g", b'{"messages": {"m": {}}}'),
    ("/apply", b'{"messagegroups": {"g": {}}}'),
    ("/validate/messagegroups/here/messages/m", b"{}"),
    ("/services", b'[{"name": "s"}]'),
    ("/messagecatalog/g/messagedefinitions", b'{"id": "d"}'),
    ("/registry/0.4/schemaGroups", b'{"id": "g"}'),
]
OTHER_WRITES = [
    ("POST", "/notifications?link=l"),
    ("POST", "/schemagroups/g/schemas/s"),
    ("PUT", "/schemagroups/g/schemas/s"),
    ("PUT", "/messagegroups/g"),
    ("PATCH", "/"),
    ("DELETE", "/messagegroups"),
    ("POST", "/~"),
    ("POST", "/nowhere"),
    ("TRACE", "/"),
]
WRITES = [*(("POST", path) for path, _ in SIMPLE_WRITES), *OTHER_WRITES]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(shared_database_url, routes=replication_routes, **SETTINGS) as running:
        await running.put("/messagegroups/here/messages/m")
        await running.put("/messagegroups/w")
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def untouched(node: Node) -> AsyncIterator[None]:
    """Whatever a test sends, the catalog, its subscriptions and its links are as they were."""
    before = await state_of(node)
    yield
    assert await state_of(node) == before


async def state_of(node: Node) -> object:
    return (
        await node.state(),
        await node.get("/subscriptions"),
        await node.get("/replication/links"),
    )


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(("path", "body"), SIMPLE_WRITES)
@pytest.mark.parametrize(
    "contenttype",
    ["text/plain", "TEXT/PLAIN; x=application/json", "application/x-www-form-urlencoded"],
)
async def test_json_is_not_read_from_a_type_that_any_page_may_send(
    node: Node, path: str, body: bytes, contenttype: str
) -> None:
    answer = await node.request("POST", path, body=body, headers={"Content-Type": contenttype})
    problem = assert_problem(answer)
    assert answer.status == 415, problem
    assert "application/json" in problem["detail"]


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(("method", "path"), WRITES)
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": f"{PAGE}.evil.example"},
        {"Origin": f"{PAGE}, https://evil.example"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "http://localhost:3000"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_no_page_of_another_origin_writes(
    node: Node, method: str, path: str, headers: dict[str, str]
) -> None:
    body = dict(SIMPLE_WRITES).get(path, b"{}")
    answer = await node.request(method, path, body=body, headers=headers)
    problem = assert_problem(answer)
    assert (answer.status, answer.error) == (403, "origin_refused")
    assert "CONCORD_CORS_ORIGINS" in problem["detail"]


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("headers", [{"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}])
async def test_a_page_may_still_send_a_read_that_it_cannot_see(
    node: Node, headers: dict[str, str]
) -> None:
    answer = await node.request("GET", "/", headers=headers)
    assert answer.status == 200
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": PAGE},
        {"Origin": PUBLIC},
        {"Origin": "http://node-1:8080", "Host": "node-1:8080"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_the_node_s_own_pages_and_those_of_allowed_origins_write(
    node: Node, headers: dict[str, str]
) -> None:
    """Also without a media type, as `curl -T` and a `fetch` of a typeless Blob send it."""
    answer = await node.request("PUT", "/messagegroups/w", body=b"{}", headers=headers)
    assert answer.status in (200, 201), answer.body
    own = {**headers, "Content-Type": "application/json"}
    answer = await node.request("POST", "/subscriptions", body=SUBSCRIPTION, headers=own)
    assert answer.status == 201, answer.body
    await node.send("DELETE", f"/subscriptions/{answer.json['id']}")


async def test_every_origin_may_write_if_the_operator_says_so(shared_database_url: str) -> None:
    async with start_node(shared_database_url, cors_origins="*") as node:
        for origin in ("https://evil.example", "null"):
            answer = await node.send("PUT", "/messagegroups/w", {}, Origin=origin)
            assert answer.status in (200, 201), answer.body


OWN_HOSTS = [
    "catalog.example",
    "CATALOG.example.:443",
    "localhost",
    "localhost:9000",
    "app.localhost",
    "127.0.0.1:1",
    "127.9.8.7",
    "[::1]",
    "[::1]:8080",
    "192.168.1.5:8080",
    "[fe80::1]:8080",
    "node-1",
    "NODE-1:80",
    "catalog_internal:8080",
]
OTHER_HOSTS = [
    "evil.example",
    "evil.example:8080",
    "catalog.example.evil.example",
    "localhost.evil.example",
    "notlocalhost",
    "127.0.0.1.evil.example",
    "2130706433",
    "0x7f.1",
    "127.1",
    "node-2",
    "localhost..",
]
BROKEN_HOSTS = [
    "",
    ":80",
    "a b",
    "user@localhost",
    "localhost/x",
    "localhost:x",
    "localhost:99999",
    "localhost:",
    "localhost:80:80",
    "[::1",
    "[localhost]",
    "[::1%25eth0]",
    "::1",
    "a" * 300,
    "localhost,evil.example",
    "lokal\u0127ost",
    "local\\host",
    "localhost?",
    "localhost#",
    "%6cocalhost",
]


async def with_host(node: Node, host: str, method: str = "GET", path: str = "/") -> Answer:
    body = b"{}" if method == "PUT" else None
    return await node.request(method, path, body=body, headers={"Host": host})


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("host", OWN_HOSTS)
async def test_a_name_of_this_node_is_answered(node: Node, host: str) -> None:
    assert (await with_host(node, host)).status == 200


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("host", OTHER_HOSTS)
@pytest.mark.parametrize("method", ["GET", "PUT", "OPTIONS"])
@pytest.mark.parametrize("path", ["/messagegroups/x", "/subscriptions", "/services", "/~", "/x//"])
async def test_a_name_that_leads_here_is_not_one_of_this_node(
    node: Node, host: str, method: str, path: str
) -> None:
    """As in DNS rebinding: the page's own name resolves to this node's address."""
    answer = await with_host(node, host, method, path)
    problem = assert_problem(answer)
    assert (answer.status, answer.error) == (421, "unknown_host")
    assert "CONCORD_HOSTS" in problem["detail"]
    assert "CONCORD_PUBLIC_URL" in problem["detail"]
    assert "evil" not in answer.headers["Link"]


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("host", BROKEN_HOSTS)
@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_a_host_that_cannot_be_is_refused(node: Node, host: str, method: str) -> None:
    answer = await with_host(node, host, method, "/messagegroups/x")
    assert_problem(answer)
    assert (answer.status, answer.error) == (400, "bad_request")


async def test_every_host_is_one_of_this_node_if_the_operator_says_so(
    shared_database_url: str,
) -> None:
    async with start_node(shared_database_url, hosts="*") as node:
        answer = await with_host(node, "evil.example:81")
        assert answer.json["self"] == "http://evil.example:81/"
        assert (await with_host(node, "a b")).status == 400
        assert (await with_host(node, "")).status == 400


async def test_the_name_that_a_node_listens_at_is_one_of_its_own(shared_database_url: str) -> None:
    async with start_node(shared_database_url, host="catalog.internal", open=True) as node:
        assert (await with_host(node, "catalog.internal:8080")).status == 200
        assert (await with_host(node, "other.internal:8080")).status == 421
