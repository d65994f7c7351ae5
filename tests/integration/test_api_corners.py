"""Corners of the native API where the standard leaves what happens to the server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.conftest import HTTP, SPEC, Node, assert_problem, fresh_node

SOURCE: dict[str, Any] = {
    "groups": {
        "dirs": {
            "singular": "dir",
            "resources": {
                "files": {"singular": "file", "attributes": {"*": {"type": "any"}}},
                "notes": {
                    "singular": "note",
                    "hasdocument": False,
                    "attributes": {"*": {"type": "any"}},
                },
            },
        }
    }
}
FILE = "/dirs/d/files/f"
NOTE = "/dirs/d/notes/n"

node = fresh_node(modelsource=SOURCE)


async def document(node: Node, headers: list[tuple[str, str]]) -> Any:
    return await node.request("PUT", FILE, body=b"", headers=headers)


@pytest.mark.parametrize("value", ["soon", 5, ["soon"], {"effective": 5}])
async def test_an_extension_of_a_version_may_be_called_deprecated(node: Node, value: Any) -> None:
    for body in ({"deprecated": value}, {}, {"deprecated": value}, {"deprecated": True}):
        assert (await node.send("PUT", NOTE, body)).status in (200, 201)
    assert (await node.get(NOTE))["deprecated"] is True


@pytest.mark.parametrize("path", ["/$details", "/dirs/$details", "/dirs/d/files/$details"])
async def test_details_of_nothing_are_no_details(node: Node, path: str) -> None:
    problem = assert_problem(await node.send("GET", path))
    assert (problem["type"], problem["subject"]) == (SPEC + "bad_details", path)


@pytest.mark.parametrize("path", ["/model/", "/model/x", "/export/", "/capabilities/x"])
async def test_below_the_fixed_paths_there_is_no_api(node: Node, path: str) -> None:
    """core/http.md, "HTTP API Patterns": no model can define these."""
    answer = await node.send("GET", path)
    assert (answer.status, assert_problem(answer)["type"]) == (404, HTTP + "api_not_found")


async def test_null_deletes_a_key_of_a_map_unless_it_is_quoted_or_encoded(node: Node) -> None:
    """core/http.md, "HTTP Header Values"; what a GET shows can be sent back as it is."""
    answer = await document(
        node,
        [
            ("xRegistry-labels.gone", "null"),
            ("xRegistry-labels.kept", "%6Eull"),
            ("xRegistry-name", '"null"'),
        ],
    )
    assert answer.status == 201
    shown = await node.get(f"{FILE}$details")
    assert (shown["name"], shown["labels"]) == ("null", {"kept": "null"})
    again = await node.send("GET", FILE)
    headers = [(n, v) for n, v in again.headers.items() if n in ("xRegistry-name",)]
    assert (await document(node, headers)).status == 200
    assert (await node.get(f"{FILE}$details"))["name"] == "null"


@pytest.mark.parametrize(
    "headers",
    [
        [("xRegistry-name", "a"), ("xRegistry-name", "b")],
        [("xRegistry-labels", "null"), ("xRegistry-labels.a", "1")],
        [("xRegistry-labels.a", "1"), ("xRegistry-labels", "null")],
        [("xRegistry-labels.a", "1"), ("xRegistry-labels.a", "2")],
    ],
)
async def test_an_attribute_is_given_in_one_header_only(
    node: Node, headers: list[tuple[str, str]]
) -> None:
    answer = await document(node, headers)
    assert (answer.status, assert_problem(answer)["type"]) == (400, HTTP + "header_error")
    assert (await node.send("GET", f"{FILE}$details")).status == 404


async def test_a_document_without_a_type_is_no_page(node: Node) -> None:
    """A browser that guessed would run what is in it."""
    await node.request("PUT", FILE, body=b"<script>", headers={})
    for _ in range(2):
        shown = await node.send("GET", FILE)
        assert "Content-Type" not in shown.headers
        assert shown.headers["X-Content-Type-Options"] == "nosniff"
        assert not [name for name in shown.headers if "untyped" in name.lower()]


async def test_versions_are_not_deleted_through_a_reference(node: Node) -> None:
    await node.put(NOTE, {})
    await node.put("/dirs/d/notes/s", {"meta": {"xref": NOTE}})
    problem = assert_problem(await node.send("DELETE", "/dirs/d/notes/s/versions"))
    assert problem["type"] == SPEC + "readonly"
    assert (await node.get("/dirs/d/notes/s"))["versionid"] == "1"


async def test_an_error_about_the_request_still_tells_where_in_it(node: Node) -> None:
    body = {"notes": {"n": {"meta": {"xref": "x"}}, "no id": {}}}
    problem = assert_problem(await node.send("PUT", "/dirs/d", body))
    assert problem["subject"] == "/dirs/d"
    assert "/dirs/d/notes/n" in problem["detail"] or problem["violations"]
    only = assert_problem(await node.send("PUT", "/dirs/d", {"notes": {"no id": {}}}))
    assert (only["subject"], only["args"]["id"]) == ("/dirs/d", "no id")
    assert "/dirs/d/notes/no id" in only["detail"]


@pytest.mark.parametrize("body", [None, {}, {"x": {}}])
@pytest.mark.parametrize("owner", ["/dirs/d", FILE])
async def test_nothing_is_deleted_from_a_collection_whose_owner_is_not_there(
    node: Node, owner: str, body: Any
) -> None:
    answer = await node.send("DELETE", f"{owner}/{'versions' if owner == FILE else 'files'}", body)
    problem = assert_problem(answer)
    assert (answer.status, problem["type"]) == (404, SPEC + "not_found")
    assert problem["subject"] == owner
