"""Documents may be called `format`, as those of a sample of the standard are."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.conftest import HTTP, SPEC, Node, assert_problem, start_node

TEXT = "Please amend the contract"
FORMAT = "/docs/contract/formats/text"
SOURCE: dict[str, Any] = {
    "groups": {
        "docs": {
            "singular": "doc",
            "resources": {
                "formats": {"singular": "format"},
                "kinds": {"singular": "kind", "hasdocument": False},
            },
        }
    }
}
DATA: dict[str, Any] = {
    "contract": {
        "formats": {
            "text": {"contenttype": "text/plain", "format": TEXT},
            "word": {
                "versions": {
                    "v1": {"contenttype": "application/ms-word", "formatbase64": "AAE="},
                    "v2": {"contenttype": "application/ms-word", "formatbase64": "AAI="},
                }
            },
        },
        "kinds": {"k": {"format": "Text/1.0"}},
    }
}


@pytest.fixture
async def node(database_url: str) -> AsyncIterator[Node]:
    async with start_node(database_url) as running:
        await running.put("/modelsource", SOURCE)
        assert (await running.send("POST", "/docs", DATA)).status == 200
        yield running


async def test_they_are_read_as_they_were_written(node: Node) -> None:
    answer = await node.send("GET", FORMAT)
    assert (answer.body.decode(), answer.headers["Content-Type"]) == (TEXT, "text/plain")
    assert answer.headers["xRegistry-formatid"] == "text"
    assert "xRegistry-format" not in answer.headers
    assert (await node.send("GET", "/docs/contract/formats/word/versions/v1")).body == b"\0\1"
    assert (await node.get(f"{FORMAT}/meta"))["formatid"] == "text"


async def test_they_are_shown_among_metadata_only_where_they_are_inlined(node: Node) -> None:
    assert "format" not in await node.get(f"{FORMAT}$details")
    assert (await node.get(f"{FORMAT}$details?inline=format"))["format"] == TEXT
    versions = await node.get("/docs/contract/formats/word/versions?inline=format")
    shown = {vid: version["formatbase64"] for vid, version in versions.items()}
    assert shown == {"v1": "AAE=", "v2": "AAI="}


async def test_whoever_writes_one_writes_a_document(node: Node) -> None:
    await node.put(f"{FORMAT}$details", {"format": {"a": 1}})
    assert (await node.send("GET", FORMAT)).body == b'{"a":1}'
    answer = await node.send("PUT", FORMAT, body=b"plain", Content_Type="text/plain")
    assert (answer.status, answer.body) == (200, b"plain")
    patched = await node.send("PATCH", f"{FORMAT}$details", {"format": None})
    assert (patched.status, (await node.send("GET", FORMAT)).body) == (200, b"")
    await node.put(f"{FORMAT}$details", {"formaturl": "https://example.com/f"})
    assert (await node.get(f"{FORMAT}$details"))["formaturl"] == "https://example.com/f"


async def test_a_header_of_that_name_is_refused(node: Node) -> None:
    answer = await node.send("PUT", FORMAT, body=b"x", xRegistry_format="Text/1.0")
    assert assert_problem(answer)["type"] == HTTP + "extra_xregistry_header"


@pytest.mark.parametrize("flag", ["filter=format=a", "sort=format"])
async def test_nothing_is_found_by_them(node: Node, flag: str) -> None:
    answer = await node.send("GET", f"/docs/contract/formats?{flag}")
    assert assert_problem(answer)["type"] == f"{SPEC}bad_{flag.partition('=')[0]}"


async def test_other_attributes_of_such_a_resource_can_be_searched(node: Node) -> None:
    found = await node.get("/docs/contract/formats?filter=formatid=text&inline=format")
    assert {id: resource["format"] for id, resource in found.items()} == {"text": TEXT}


async def test_an_export_of_them_is_an_import(node: Node, other_database_url: str) -> None:
    export = await node.get("/export")
    shown = export["docs"]["contract"]["formats"]["text"]["versions"]["1"]
    assert shown["format"] == TEXT
    async with start_node(other_database_url) as other:
        await other.put("/?ignore=epoch", export)
        path = f"{FORMAT}$details?inline=format&binary"
        encoded = (await other.get(path))["formatbase64"]
    assert base64.b64decode(encoded).decode() == TEXT


async def test_beside_them_the_attribute_format_is_what_it_is(node: Node) -> None:
    assert (await node.get("/docs/contract/kinds/k"))["format"] == "Text/1.0"
    found = await node.get("/docs/contract/kinds?filter=format=text/1.0")
    assert [*found] == ["k"]


async def test_a_type_whose_versions_have_formats_gets_no_documents_called_so(node: Node) -> None:
    """What says which format a version has can't be read as the version's document."""
    assert (await node.send("DELETE", "/docs/contract/formats")).status == 204
    source = {"docs": {"singular": "doc", "resources": {"kinds": {"singular": "format"}}}}
    answer = await node.send("PUT", "/modelsource", {"groups": source})
    assert answer.status == 400
    assert (await node.get("/docs/contract/kinds/k"))["format"] == "Text/1.0"
