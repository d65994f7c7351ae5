"""Bad and hostile input is answered with an error document, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import re
import zlib
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote

import orjson
import pytest
import pytest_asyncio

from catalog.store.changes import LogCursor
from tests.integration.conftest import HTTP, SPEC, Node, assert_problem, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONCORD = "urn:concord:error:"
GROUP = "/messagegroups/g"
MESSAGE = f"{GROUP}/messages/m"
SCHEMA = "/schemagroups/s/schemas/s"
JSON = {"Content-Type": "application/json"}
MOST_BYTES = 20_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(
        shared_database_url, max_body_bytes=MOST_BYTES, body_timeout_seconds=0.5
    ) as running:
        await running.put(MESSAGE, {"versions": {"1": {}, "2": {}}})
        await running.put(f"{SCHEMA}$details", {"format": "f", "schema": {}})
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def untouched(node: Node) -> AsyncIterator[None]:
    """Whatever a test sends, the catalog and its log are as they were."""
    before = await node.state()
    yield
    assert await node.state() == before


def nested(levels: int) -> bytes:
    """An extension nested so deep that the whole document has `levels` levels."""
    return b'{"x":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", f"{HTTP}missing_body"),
        (b" ", f"{SPEC}parsing_data"),
        (b"{", f"{SPEC}parsing_data"),
        (b'{"a":1}}', f"{SPEC}parsing_data"),
        (b'{"a":1,}', f"{SPEC}parsing_data"),
        (b"{'a':1}", f"{SPEC}parsing_data"),
        (b'{"a":NaN}', f"{SPEC}parsing_data"),
        (b'{"a":Infinity}', f"{SPEC}parsing_data"),
        (b'{"name":"\xff"}', f"{SPEC}parsing_data"),
        (b'{"name":"\xed\xa0\x80"}', f"{SPEC}parsing_data"),
        (b'{"name":"\\ud800"}', f"{SPEC}parsing_data"),
        (b"\xef\xbb\xbf{}", f"{SPEC}parsing_data"),
        ("{}".encode("utf-16"), f"{SPEC}parsing_data"),
        (b"[]", f"{SPEC}parsing_data"),
        (b"null", f"{SPEC}parsing_data"),
        (b"1", f"{SPEC}parsing_data"),
        (b'"x"', f"{SPEC}parsing_data"),
        (nested(65), f"{SPEC}parsing_data"),
        (nested(600), f"{SPEC}parsing_data"),
        (b'{"name":"a\\u0000b"}', f"{SPEC}invalid_attribute"),
        (b'{"x":"a\\u0000b"}', f"{SPEC}invalid_attribute"),
        (b'{"x":{"a\\u0000b":1}}', f"{SPEC}invalid_attribute"),
        (b'{"x":9007199254740993}', f"{SPEC}invalid_attribute"),
        (b'{"x":1e400}', None),
        (b'{"epoch":99999999999999999999}', None),
        (b'{"epoch":18446744073709551615}', f"{SPEC}mismatched_epoch"),
        (b'{"epoch":-1}', f"{SPEC}invalid_attribute"),
        (b'{"epoch":1.5}', f"{SPEC}invalid_attribute"),
        (b'{"epoch":"1"}', f"{SPEC}invalid_attribute"),
        (b'{"epoch":true}', f"{SPEC}invalid_attribute"),
        (b'{"createdat":"yesterday"}', f"{SPEC}invalid_attribute"),
        (b'{"createdat":5}', f"{SPEC}invalid_attribute"),
        (b'{"createdat":[]}', f"{SPEC}invalid_attribute"),
        (b'{"modifiedat":"2020-02-30T00:00:00Z"}', f"{SPEC}invalid_attribute"),
        (b'{"modifiedat":"0001-01-01T00:00:00+23:59"}', f"{SPEC}invalid_attribute"),
        (b'{"modifiedat":"9999-12-31T23:59:60Z"}', f"{SPEC}invalid_attribute"),
        (b'{"labels":5}', f"{SPEC}invalid_attribute"),
        (b'{"labels":{"a":5}}', f"{SPEC}invalid_attribute"),
        (b'{"labels":{"A B":"x"}}', f"{SPEC}invalid_attribute"),
        (b'{"name":5}', f"{SPEC}invalid_attribute"),
        (b'{"name":""}', f"{SPEC}invalid_attribute"),
        (b'{"documentation":"not a url"}', f"{SPEC}invalid_attribute"),
        (b'{"messagegroupid":5}', f"{SPEC}mismatched_id"),
        (b'{"messagegroupid":{}}', f"{SPEC}mismatched_id"),
        (b'{"Upper":5}', f"{SPEC}invalid_attribute"),
        (b'{"":5}', f"{SPEC}invalid_attribute"),
        (b'{"*":5}', f"{SPEC}invalid_attribute"),
        (b'{"deprecated":true}', f"{SPEC}invalid_attribute"),
        (b'{"messages":[]}', f"{SPEC}bad_request"),
        (b'{"messages":5}', f"{SPEC}bad_request"),
        (b'{"messages":{"a":5}}', f"{SPEC}bad_request"),
        (b'{"messages":{"a":[]}}', f"{SPEC}bad_request"),
        (b'{"messages":{"a":null}}', f"{SPEC}bad_request"),
        (b'{"messages":{"":{}}}', f"{SPEC}malformed_id"),
        (b'{"messages":{"a b":{}}}', f"{SPEC}malformed_id"),
        (b'{"messages":{"-a":{}}}', f"{SPEC}malformed_id"),
        (b'{"messages":{"a/b":{}}}', f"{SPEC}malformed_id"),
        (b'{"messages":{"a\\u0000":{}}}', f"{SPEC}malformed_id"),
        (b'{"messages":{"' + b"a" * 129 + b'":{}}}', f"{SPEC}malformed_id"),
        ('{"messages":{"é":{}}}'.encode(), f"{SPEC}malformed_id"),
        (b'{"messages":{"a":{"meta":5}}}', f"{SPEC}invalid_attribute"),
        (b'{"messages":{"a":{"meta":[]}}}', f"{SPEC}invalid_attribute"),
        (b'{"messages":{"a":{"versions":5}}}', f"{SPEC}bad_request"),
        (b'{"messages":{"a":{"versions":{"v":5}}}}', f"{SPEC}bad_request"),
        (b'{"messages":{"a":{"versionid":5}}}', f"{SPEC}invalid_attribute"),
        (b'{"messages":{"a":{"versionid":[5]}}}', f"{SPEC}invalid_attribute"),
        (b'{"messages":{"a":{"versionid":"request"}}}', f"{SPEC}malformed_id"),
        (b'{"messages":{"a":{"versionid":"a/b"}}}', f"{SPEC}malformed_id"),
        (b'{"messages":{"a":{"versionid":{}}}}', None),
        (b'{"messages":{"a":{"versionid":"a b"}}}', f"{SPEC}malformed_id"),
        (b'{"messages":{"a":{"meta":{"defaultversionid":5}}}}', f"{SPEC}invalid_attribute"),
        (b'{"messages":{"a":{"meta":{"defaultversionid":"a b"}}}}', f"{SPEC}malformed_id"),
        (
            b'{"messages":{"a":{"meta":{"defaultversionsticky":"yes"}}}}',
            f"{SPEC}invalid_attribute",
        ),
        (b'{"messages":{"a":{"ancestorid":"x"}}}', f"{SPEC}unknown_id"),
        (b'{"messages":{"a":{},"A":{}}}', f"{SPEC}bad_request"),
        (b'{"messages":{"a":{"versions":{"v":{},"V":{}}}}}', f"{SPEC}bad_request"),
        (b'{"messages":{"M":{}}}', f"{SPEC}bad_request"),
    ],
)
async def test_a_body_that_cannot_be_taken(node: Node, body: bytes, error: str | None) -> None:
    """core/spec.md, "Error Processing": the request is undone as a whole."""
    answer = await node.request("PATCH", GROUP, body=body, headers=JSON)
    problem = assert_problem(answer)
    assert answer.status == 400
    assert error in (problem["type"], None)


async def test_64_levels_are_accepted(node: Node) -> None:
    """The deepest nesting that `max_depth` allows, on both sides of the bound."""
    answer = await node.request("PUT", "/endpoints/deep", body=nested(64), headers=JSON)
    assert answer.status == 201, answer.body
    assert (await node.send("DELETE", "/endpoints/deep")).status == 204


EVERYWHERE = [
    "/",
    "/messagegroups",
    GROUP,
    f"{GROUP}/messages",
    MESSAGE,
    f"{MESSAGE}/meta",
    f"{MESSAGE}/versions",
    f"{MESSAGE}/versions/1",
    f"{SCHEMA}$details",
    f"{SCHEMA}/versions/1$details",
    "/nowhere",
    "/model",
]
WRITES = [(method, path) for method in ("PUT", "PATCH", "POST") for path in EVERYWHERE]
COLLECTIONS = ("/messagegroups", f"{GROUP}/messages", f"{MESSAGE}/versions")


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(("method", "path"), [*WRITES, *(("DELETE", path) for path in COLLECTIONS)])
@pytest.mark.parametrize("body", [b"{", b"[]", b'{"\\u0000":{}}', b'{"X":5}'])
async def test_junk_is_refused_everywhere(node: Node, method: str, path: str, body: bytes) -> None:
    """core/spec.md, "Error Processing"."""
    assert_problem(await node.request(method, path, body=body, headers=JSON))


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    "path",
    [
        "/messagegroups/a%20b",
        "/messagegroups/%00",
        "/messagegroups/%ff",
        "/messagegroups/%C0%A0",
        "/messagegroups/%ED%A0%80",
        "/messagegroups/a%2Fb",
        "/messagegroups/..%2f..%2fetc",
        "/messagegroups/" + "a" * 129,
        "/messagegroups/-a",
        "/messagegroups/%E2%82%AC",
        "/messagegroups/$details",
        "/messagegroups/g/messages/%27;DROP%20TABLE%20entities",
        f"{MESSAGE}/versions/null",
        f"{MESSAGE}/versions/request",
        f"{MESSAGE}/versions/a%20b",
        "/%FF",
        "/%00/%00",
        "/messagegroups/g/%FF/m",
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_a_path_that_cannot_be(node: Node, method: str, path: str) -> None:
    """core/spec.md, "<SINGULAR>id (id) Attribute" and "malformed_id"."""
    status, _, document = await raw(
        node,
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
        "Content-Type: application/json\r\nConnection: close\r\n\r\n{}".encode(),
    )
    assert 400 <= status < 500, document
    assert orjson.loads(document)["type"].startswith((SPEC, HTTP))


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    "path",
    [
        "//",
        "//messagegroups/g",
        "/messagegroups//g",
        "/messagegroups/g//",
        "/messagegroups%2Fg",
        "/messagegroups/%2f/g",
        "/messagegroups/g/messages//m",
        f"{MESSAGE}//versions",
        "/model//",
        "/validate//messagegroups/g/messages/m",
        "/subscriptions//s",
        "/replication//links",
        "/messagecatalog//g",
        "/messagecatalog/g%2Fmessagedefinitions",
        "/services//s",
        "/registry/0.4//definitionGroups/g",
        "/registry/0.4/definitionGroups/g/definitions/%2F",
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_no_segment_of_a_path_is_overlooked(node: Node, method: str, path: str) -> None:
    """What is empty or holds a slash is no id, whichever API the path is of."""
    status, _, document = await raw(
        node,
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
        "Content-Type: application/json\r\nConnection: close\r\n\r\n{}".encode(),
    )
    problem = orjson.loads(document)
    assert (status, problem["type"]) == (400, f"{SPEC}malformed_id")
    assert problem["subject"] == unquote(path)


async def test_a_slash_at_the_end_of_a_path_says_nothing(node: Node) -> None:
    assert await node.get(f"{MESSAGE}/") == await node.get(MESSAGE)
    assert await node.get("/messagegroups/") == await node.get("/messagegroups")


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_too_large(node: Node, chunked: bool) -> None:
    """The bound is on what arrives, announced or not."""
    body = orjson.dumps({"description": "x" * MOST_BYTES})

    async def chunks() -> AsyncIterator[bytes]:
        for begin in range(0, len(body), 4096):
            yield body[begin : begin + 4096]

    answer = await node.request("PUT", GROUP, body=chunks() if chunked else body, headers=JSON)
    assert answer.status == 413
    assert assert_problem(answer)["type"] == f"{CONCORD}request_too_large"
    answer = await node.request("PUT", SCHEMA, body=chunks() if chunked else body)
    assert answer.status == 413


async def test_chunked_bodies_are_read(node: Node) -> None:
    """RFC 9112, 7.1."""

    async def chunks() -> AsyncIterator[bytes]:
        for chunk in (b'{"na', b'me":', b'"n"}'):
            yield chunk

    answer = await node.request("PUT", GROUP, body=chunks(), headers=JSON)
    assert (answer.status, answer.json["name"]) == (200, "n")


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("contenttype", ["text/html", "application/xml", "multipart/form-data"])
async def test_metadata_is_json_only(node: Node, contenttype: str) -> None:
    """RFC 9110, 15.5.16."""
    answer = await node.request("PUT", GROUP, body=b"{}", headers={"Content-Type": contenttype})
    assert answer.status == 415
    assert assert_problem(answer)["type"] == f"{CONCORD}unsupported_media_type"


async def raw(node: Node, *parts: bytes, wait: float = 5) -> tuple[int, bytes, bytes]:
    """Send bytes as they are; the status, head and body of what comes back."""
    url = node.client.make_url("")
    assert url.host is not None
    reader, writer = await asyncio.open_connection(url.host, url.port)
    try:
        for part in parts:
            writer.write(part)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
        async with asyncio.timeout(wait):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return 0, b"", b""
            length = re.search(rb"content-length: (\d+)", head.lower())
            body = await reader.readexactly(int(length[1]) if length else 0)
    finally:
        writer.close()
    return int(head.split(b" ")[1]), head, body


def request_of(method: str, path: str, *headers: str) -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


@pytest.mark.usefixtures("untouched")
async def test_a_client_that_never_sends_its_body_is_given_up(node: Node) -> None:
    """`body_timeout_seconds`: the announced length never arrives."""
    status, _, body = await raw(node, request_of("PUT", GROUP, "Content-Length: 100"), b"{")
    assert status == 408
    assert orjson.loads(body)["type"] == f"{CONCORD}request_timeout"


@pytest.mark.usefixtures("untouched")
async def test_a_client_that_goes_away_amid_its_body_writes_nothing(node: Node) -> None:
    url = node.client.make_url("")
    assert url.host is not None
    _, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(request_of("PUT", GROUP, "Content-Length: 100") + b'{"name":"lost"}')
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert (await node.send("GET", "/")).status == 200


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    "request_bytes",
    [
        request_of("PUT", GROUP, "Content-Length: 2", "Connection: close") + b"{",
        request_of("PUT", GROUP, "Content-Length: -5", "Connection: close") + b"{}",
        request_of("PUT", GROUP, "Content-Length: x", "Connection: close") + b"{}",
        request_of("PUT", GROUP, "Content-Length: 2", "Content-Length: 9") + b"{}",
        request_of("PUT", GROUP, "Content-Length: 9999999999999", "Connection: close"),
        request_of("PUT", GROUP, "Content-Length: 99999999999999999999999", "Connection: close"),
        request_of("PUT", GROUP, "Transfer-Encoding: chunked", "Connection: close") + b"zz\r\n{}",
        request_of("PUT", GROUP, "Transfer-Encoding: chunked", "Content-Length: 2") + b"{}",
        request_of("PUT", GROUP, "Content-Encoding: gzip", "Content-Length: 2", "Connection: close")
        + b"{}",
        request_of("PUT", SCHEMA, "xRegistry-name: \xff", "Content-Length: 0", "Connection: close"),
        request_of("GET", "/", "X: " + "y" * 100_000, "Connection: close"),
        request_of("GET", "/" + "y" * 100_000, "Connection: close"),
        b"GET / HTTP/9.9\r\n\r\n",
        b"\0\1\2\3\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
)
async def test_broken_http_is_the_clients_fault(node: Node, request_bytes: bytes) -> None:
    """RFC 9112: what cannot be parsed is answered with 4xx and an error document, or not at
    all."""
    status, head, body = await raw(node, request_bytes)
    if status:
        assert 400 <= status < 500, head
        assert orjson.loads(body)["type"].startswith((SPEC, HTTP, "urn:concord:error:"))


@pytest.mark.usefixtures("untouched")
async def test_a_compressed_bomb_is_measured_after_it_was_opened(node: Node) -> None:
    """The bound on a body is on its content."""
    bomb = zlib.compress(b'{"description":"' + b"x" * 50 * MOST_BYTES + b'"}')
    answer = await node.request(
        "PUT", GROUP, body=bomb, headers={**JSON, "Content-Encoding": "deflate"}
    )
    assert answer.status == 413, answer.body


@pytest.mark.usefixtures("untouched")
async def test_every_violation_of_a_request_is_listed(node: Node) -> None:
    """core/spec.md, "Error Processing": an extension, `violations`, has all that is wrong."""
    body = {
        "name": 5,
        "labels": {"A": "x", "b": 5},
        "messages": {
            "a b": {},
            "c": {"basemessage": 1, "dataschemaxid": "x"},
            "d": {"versions": {"v": {"ancestorid": "nowhere"}}},
        },
    }
    problem = assert_problem(await node.send("PATCH", GROUP, body))
    found = {
        (violation["type"].removeprefix(SPEC), violation["subject"])
        for violation in problem["violations"]
    }
    assert found == {
        ("invalid_attribute", GROUP),
        ("malformed_id", f"{GROUP}/messages/a b"),
        ("invalid_attribute", f"{GROUP}/messages/c/versions/1"),
        ("malformed_xid", f"{GROUP}/messages/c/versions/1"),
        ("unknown_id", f"{GROUP}/messages/d/versions/v"),
    }
    names = {v["args"]["name"] for v in problem["violations"] if "name" in v.get("args", {})}
    assert {"name", "labels.A", "labels.b"} <= names
    assert problem["type"] == problem["violations"][0]["type"]
    assert "violations" not in assert_problem(await node.send("PATCH", GROUP, {"name": 5}))


@pytest.mark.parametrize(
    ("path", "body", "error", "subject", "args"),
    [
        (
            "/schemagroups/s/schemas/n$details",
            {},
            "required_attribute_missing",
            "/schemagroups/s/schemas/n/versions/1",
            {"list": "format"},
        ),
        ("/", {"registryid": "x"}, "mismatched_id", "/", None),
        ("/", {"capabilities": 5}, "capability_error", "/capabilities", None),
        (
            MESSAGE,
            {"epoch": 77},
            "mismatched_epoch",
            f"{MESSAGE}/versions/2",
            {"bad_epoch": "77", "epoch": "1"},
        ),
        (f"{MESSAGE}/meta", {"xref": "/messagegroups/g"}, "malformed_xref", "", None),
        (f"{MESSAGE}/meta", {"compatibility": "sideways"}, "invalid_attribute", "", None),
        (
            f"{MESSAGE}/meta",
            {"defaultversionid": "9", "defaultversionsticky": True},
            "unknown_id",
            MESSAGE,
            {"singular": "version", "id": "9"},
        ),
        (
            MESSAGE,
            {"dataschemaxid": "/nowhere/x"},
            "malformed_xid",
            MESSAGE,
            None,
        ),
    ],
)
@pytest.mark.usefixtures("untouched")
async def test_an_error_says_what_is_wrong_with_what(
    node: Node, path: str, body: Any, error: str, subject: str, args: Any
) -> None:
    """core/spec.md, "Error Processing": type, subject and args of each."""
    answer = await node.send("PUT", path, body)
    problem = assert_problem(answer)
    assert (answer.status, problem["type"]) == (400, SPEC + error)
    if subject:
        assert problem["subject"] == subject
    if args is not None:
        assert problem["args"] == args


async def test_every_write_says_which_interaction_it_was(node: Node) -> None:
    """core/events.md, "xregcorrelationid"; the cursor is where the log shows the write."""
    seen = set()
    for method, path, body in (
        ("PUT", "/endpoints/e", {"usage": ["producer"]}),
        ("POST", "/endpoints", {"e2": {}}),
        ("DELETE", "/endpoints", {"e2": {}}),
        ("DELETE", "/endpoints/e", None),
    ):
        answer = await node.send(method, path, body)
        assert answer.status < 300, answer.body
        seen.add(id := answer.headers["xRegistry-xregcorrelationid"])
        changes = [change for change in await node.changes() if change.interaction == id]
        assert changes
        cursor = LogCursor.at(node.database.node.instance, changes[-1].position)
        assert answer.headers["Concord-Position"] == str(cursor)
    assert len(seen) == 4
