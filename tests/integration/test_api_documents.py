"""Documents: as a body with its metadata in headers, and as a value, base64 or URL in metadata."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.integration.conftest import HTTP, SPEC, Node, assert_problem, shared_node

GROUP = "/schemagroups/g"
SCHEMA = f"{GROUP}/schemas/s"
FORMAT = {"xRegistry-format": "Text/1.0"}
DETAILS = {"format": "Text/1.0"}
MISSING = f"{SPEC}required_attribute_missing"


standing = shared_node()


async def put_document(node: Node, path: str, body: bytes, **headers: str) -> Any:
    named = {name.replace("__", "."): value for name, value in headers.items()}
    named = FORMAT | {f"xRegistry-{name}": value for name, value in named.items()}
    contenttype = named.pop("xRegistry-contenttype", None)
    if contenttype is not None:
        named["Content-Type"] = contenttype
    return await node.request("PUT", path, body=body, headers=named)


async def test_a_document_comes_back_byte_by_byte_with_its_metadata_in_headers(node: Node) -> None:
    """core/http.md, "Serializing Resource Domain-Specific Documents"."""
    body = bytes(range(256))
    name = 'Euro € 😀 "quoted" 100%'
    encoded = "Euro%20%E2%82%AC%20%F0%9F%98%80%20%22quoted%22%20100%25"
    answer = await put_document(
        node, SCHEMA, body, contenttype="application/octet-stream", name=encoded, labels__a="1"
    )
    assert (answer.status, answer.body) == (201, body)
    assert answer.headers["Location"] == f"{node.url}{SCHEMA}"
    assert answer.headers["Content-Location"] == f"{node.url}{SCHEMA}/versions/1"
    shown = await node.send("GET", SCHEMA)
    assert (shown.status, shown.body) == (200, body)
    wanted = {
        "Content-Type": "application/octet-stream",
        "xRegistry-schemaid": "s",
        "xRegistry-versionid": "1",
        "xRegistry-self": f"{node.url}{SCHEMA}",
        "xRegistry-xid": SCHEMA,
        "xRegistry-epoch": "1",
        "xRegistry-name": encoded,
        "xRegistry-isdefault": "true",
        "xRegistry-labels.a": "1",
        "xRegistry-ancestorid": "1",
        "xRegistry-metaurl": f"{node.url}{SCHEMA}/meta",
        "xRegistry-versionsurl": f"{node.url}{SCHEMA}/versions",
        "xRegistry-versionscount": "1",
        "Content-Disposition": "s",
        "Content-Location": f"{node.url}{SCHEMA}/versions/1",
    }
    assert wanted.items() <= dict(shown.headers).items()
    assert "xRegistry-schema" not in shown.headers
    version = await node.send("GET", f"{SCHEMA}/versions/1")
    assert version.body == body
    assert version.headers["xRegistry-self"] == f"{node.url}{SCHEMA}/versions/1"
    assert "xRegistry-versionscount" not in version.headers
    details = await node.get(f"{SCHEMA}$details")
    assert details["self"] == f"{node.url}{SCHEMA}$details"
    assert (details["name"], details["labels"]) == (name, {"a": "1"})
    assert (await node.get(f"{SCHEMA}/meta"))["defaultversionurl"].endswith("/versions/1$details")


async def test_headers_are_a_patch_of_the_metadata(node: Node) -> None:
    """core/http.md, "Serializing Resource Domain-Specific Documents" and "contenttype"."""
    await put_document(
        node, SCHEMA, b"1", contenttype="text/plain", name="n", labels__a="1", labels__b="2"
    )
    answer = await node.request("PUT", SCHEMA, body=b"2", headers={"xRegistry-labels.c.d": "3"})
    assert answer.status == 200, answer.body
    shown = await node.get(f"{SCHEMA}$details")
    assert shown["name"] == "n", "what is not mentioned stays"
    assert shown["labels"] == {"c.d": "3"}, "a map that is mentioned is replaced whole"
    assert "contenttype" not in shown, "its absence erases it"
    answer = await node.request("PUT", SCHEMA, body=b"2", headers={"xRegistry-name": "null"})
    shown = await node.get(f"{SCHEMA}$details")
    assert "name" not in shown
    assert shown["epoch"] == 3


async def test_headers_have_the_types_of_the_model(node: Node) -> None:
    """core/http.md, "HTTP Header Values"; an epoch that is not current is refused."""
    await put_document(node, SCHEMA, b"1")
    answer = await put_document(node, SCHEMA, b"2", epoch="5")
    assert assert_problem(answer)["type"] == f"{SPEC}mismatched_epoch"
    assert (await put_document(node, SCHEMA, b"2", epoch="1")).status == 200
    answer = await put_document(node, SCHEMA, b"2", epoch="x")
    assert assert_problem(answer)["type"] == f"{SPEC}invalid_attribute"
    answer = await put_document(node, SCHEMA, b"2", description='"a \\"b\\" c"')
    assert (await node.get(f"{SCHEMA}$details"))["description"] == 'a "b" c'
    answer = await put_document(node, SCHEMA, b"2", createdat="2020-01-01T00%3A00%3A00Z")
    assert answer.headers["xRegistry-createdat"] == "2020-01-01T00:00:00Z"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status", "error"),
    [
        ("PUT", SCHEMA, {"xRegistry-schema": "x"}, b"", 400, f"{HTTP}extra_xregistry_header"),
        ("PUT", SCHEMA, {"xRegistry-schemabase64": "x"}, b"", 400, f"{HTTP}extra_xregistry_header"),
        (
            "PUT",
            SCHEMA,
            {"xRegistry-schemaurl": "http://x/y"},
            b"z",
            400,
            f"{HTTP}extra_xregistry_header",
        ),
        (
            "PUT",
            f"{SCHEMA}$details",
            {"xRegistry-name": "x"},
            b"{}",
            400,
            f"{HTTP}extra_xregistry_header",
        ),
        ("PUT", SCHEMA, {"xRegistry-name": "%C0%A0"}, b"", 400, f"{HTTP}header_error"),
        ("PUT", SCHEMA, {"xRegistry-name": "%FF"}, b"", 400, f"{HTTP}header_error"),
        ("PUT", SCHEMA, {"xRegistry-name.x": "x"}, b"", 400, f"{SPEC}invalid_attribute"),
        ("PUT", SCHEMA, {"xRegistry-labels": "x"}, b"", 400, f"{SPEC}invalid_attribute"),
        ("PUT", SCHEMA, {"xRegistry-labels.!": "x"}, b"", 400, f"{SPEC}invalid_attribute"),
        ("PUT", SCHEMA, {"xRegistry-schemaid": "x"}, b"", 400, f"{SPEC}mismatched_id"),
        ("PUT", SCHEMA, {"xRegistry-versionid": "x"}, b"", 400, f"{SPEC}mismatched_id"),
        (
            "PUT",
            SCHEMA,
            {"xRegistry-format": "null"},
            b"",
            400,
            MISSING,
        ),
        ("PATCH", SCHEMA, {}, b"{}", 405, f"{HTTP}details_required"),
        ("PATCH", f"{SCHEMA}/versions/1", {}, b"{}", 405, f"{HTTP}details_required"),
        ("PUT", f"{SCHEMA}$details", {}, b"", 400, f"{HTTP}missing_body"),
        ("PUT", f"{GROUP}$details", {}, b"{}", 400, f"{SPEC}bad_details"),
        ("GET", "/schemagroups$details", {}, b"", 400, f"{SPEC}bad_details"),
        ("GET", f"{GROUP}$details", {}, b"", 400, f"{SPEC}bad_details"),
        ("GET", f"{SCHEMA}/meta$details", {}, b"", 400, f"{SPEC}bad_details"),
        ("GET", f"{SCHEMA}/versions$details", {}, b"", 400, f"{SPEC}bad_details"),
        (
            "PUT",
            f"{SCHEMA}$details",
            {},
            b'{"format": "f", "schema": 1, "schemabase64": ""}',
            400,
            f"{SPEC}one_resource",
        ),
        (
            "PUT",
            f"{SCHEMA}$details",
            {},
            b'{"format": "f", "schemaurl": "http://x/", "schema": 1}',
            400,
            f"{SPEC}one_resource",
        ),
        (
            "PUT",
            f"{SCHEMA}$details",
            {},
            b'{"format": "f", "schemabase64": "!"}',
            400,
            f"{SPEC}invalid_attribute",
        ),
        (
            "PUT",
            f"{SCHEMA}$details",
            {},
            b'{"format": "f", "schemabase64": 5}',
            400,
            f"{SPEC}invalid_attribute",
        ),
    ],
)
async def test_documents_that_are_refused(
    standing: Node, method: str, path: str, headers: Any, body: bytes, status: int, error: str
) -> None:
    """core/http.md, "Creating or Updating Entities" and "Error Processing"."""
    await put_document(standing, SCHEMA, b"1")
    before = await standing.state()
    answer = await standing.request(method, path, body=body, headers=headers)
    problem = assert_problem(answer)
    assert (answer.status, problem["type"]) == (status, error)
    assert await standing.state() == before


async def test_details_has_a_meaning_only_where_there_are_documents(node: Node) -> None:
    """core/http.md, "Resource Metadata vs Resource Document"; for others it changes nothing."""
    message = "/messagegroups/g/messages/m"
    shown = await node.put(message)
    assert shown["self"] == f"{node.url}{message}"
    details = await node.send("GET", f"{message}$details")
    assert (details.status, details.json) == (200, shown)


@pytest.mark.parametrize(
    ("metadata", "shown", "contenttype", "body"),
    [
        ({"schema": {"a": [1]}}, {"schema": {"a": [1]}}, "application/json", b'{"a":[1]}'),
        ({"schema": "text"}, {"schema": "text"}, "application/json", b'"text"'),
        (
            {"schema": "text", "contenttype": "text/plain"},
            {"schema": "text"},
            "text/plain",
            b"text",
        ),
        (
            {"schema": {"a": 1}, "contenttype": "application/schema+json; v=1"},
            {"schema": {"a": 1}},
            "application/schema+json; v=1",
            b'{"a":1}',
        ),
        (
            {"schemabase64": "AP8=", "contenttype": "avro/binary"},
            {"schemabase64": "AP8="},
            "avro/binary",
            b"\0\xff",
        ),
        (
            {"schemabase64": base64.b64encode(b"{oops").decode(), "contenttype": "a/b+json"},
            {"schemabase64": base64.b64encode(b"{oops").decode()},
            "a/b+json",
            b"{oops",
        ),
        ({"schemabase64": "AAAA"}, {"schemabase64": "AAAA"}, None, b"\0\0\0"),
        ({}, {"schemabase64": ""}, None, b""),
        ({"schema": None}, {"schemabase64": ""}, None, b""),
    ],
)
async def test_a_document_in_metadata(
    node: Node, metadata: Any, shown: Any, contenttype: str | None, body: bytes
) -> None:
    """core/spec.md, "<RESOURCE> Attribute" and "<RESOURCE>base64 Attribute"."""
    answer = await node.send("PUT", f"{SCHEMA}$details", DETAILS | metadata)
    assert answer.status == 201, answer.body
    assert answer.headers["Location"] == f"{node.url}{SCHEMA}$details"
    assert answer.headers["Content-Location"] == f"{node.url}{SCHEMA}/versions/1$details"
    assert not {"schema", "schemabase64"} & {*answer.json}, "it is shown where it is asked for"
    details = await node.get(f"{SCHEMA}$details?inline=schema")
    assert {k: v for k, v in details.items() if k in ("schema", "schemabase64")} == shown
    assert details.get("contenttype") == contenttype
    answer = await node.send("GET", SCHEMA)
    assert answer.body == body
    if contenttype is not None:
        assert answer.headers["Content-Type"] == contenttype


async def test_a_document_elsewhere_is_referred_to(node: Node) -> None:
    """core/http.md, "GET /<GROUPS>/<GID>/<RESOURCES>/<RID>": 303 See Other."""
    url = "https://example.com/a%20b"
    answer = await put_document(node, SCHEMA, b"", schemaurl="https://example.com/a%2520b")
    assert answer.status == 201, answer.body
    for path in (SCHEMA, f"{SCHEMA}/versions/1"):
        answer = await node.send("GET", path)
        assert (answer.status, answer.body) == (303, b"")
        assert answer.headers["Location"] == url
        assert answer.headers["xRegistry-schemaurl"] == "https://example.com/a%2520b"
    assert (await node.get(f"{SCHEMA}$details?inline=*"))["schemaurl"] == url
    await put_document(node, SCHEMA, b"", schemaurl="null")
    assert (await node.send("GET", SCHEMA)).status == 200
    await node.put(f"{SCHEMA}$details", DETAILS | {"schemaurl": url})
    await node.put(f"{SCHEMA}$details", DETAILS | {"schema": {}})
    assert (await node.send("GET", SCHEMA)).body == b"{}"
    assert "schemaurl" not in await node.get(f"{SCHEMA}$details")


async def test_metadata_without_a_document_leaves_it_alone(node: Node) -> None:
    """core/spec.md, "<RESOURCE>* Attribute Processing"."""
    await put_document(node, SCHEMA, b"kept", contenttype="text/plain")
    await node.put(f"{SCHEMA}$details", DETAILS)
    assert (await node.send("GET", SCHEMA)).body == b"kept"
    await node.send("PATCH", f"{SCHEMA}$details", {"name": "n"})
    assert (await node.send("GET", SCHEMA)).body == b"kept"
    await node.send("PATCH", f"{SCHEMA}$details", {"schemabase64": None})
    assert (await node.send("GET", SCHEMA)).body == b""


async def test_a_patch_with_a_document_keeps_the_media_type(node: Node) -> None:
    """core/spec.md, "<RESOURCE>* Attribute Processing"."""
    await put_document(node, SCHEMA, b"1", contenttype="text/plain")
    await node.send("PATCH", f"{SCHEMA}$details", {"schema": "two"})
    answer = await node.send("GET", SCHEMA)
    assert (answer.body, answer.headers["Content-Type"]) == (b"two", "text/plain")
    await node.put(f"{SCHEMA}$details", DETAILS | {"schema": "three"})
    answer = await node.send("GET", SCHEMA)
    assert (answer.body, answer.headers["Content-Type"]) == (b'"three"', "application/json")


async def test_a_posted_document_is_a_new_version(node: Node) -> None:
    """core/http.md, "POST /<GROUPS>/<GID>/<RESOURCES>/<RID>"."""
    await put_document(node, SCHEMA, b"1", name="first")
    answer = await node.request("POST", SCHEMA, body=b"2", headers=FORMAT)
    assert (answer.status, answer.body) == (201, b"2")
    assert answer.headers["Location"] == f"{node.url}{SCHEMA}/versions/2"
    assert answer.headers["xRegistry-versionid"] == "2"
    assert "xRegistry-name" not in answer.headers
    answer = await node.send("POST", f"{SCHEMA}$details", DETAILS | {"schema": 3})
    assert answer.headers["Location"] == f"{node.url}{SCHEMA}/versions/3$details"
    bodies = [(await node.send("GET", f"{SCHEMA}/versions/{n}")).body for n in "123"]
    assert bodies == [b"1", b"2", b"3"]


async def test_a_document_of_a_deleted_version_is_gone(node: Node) -> None:
    """A version that lives again begins without its earlier document."""
    await put_document(node, SCHEMA, b"1")
    await node.send("DELETE", GROUP)
    await node.put(f"{SCHEMA}$details", DETAILS)
    assert (await node.send("GET", SCHEMA)).body == b""
