"""Rules that hold for every write: nulls, read-only attributes, times, places of what is new."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.conftest import SPEC, Node, assert_problem, fresh_node

FILES: dict[str, Any] = {
    "files": {"singular": "file", "hasdocument": False},
    "papers": {"singular": "paper"},
}
SOURCE = {"groups": {"dirs": {"singular": "dir", "resources": FILES}}}
DIR = "/dirs/d"
FILE, PAPER = f"{DIR}/files/f", f"{DIR}/papers/p"

node = fresh_node(modelsource=SOURCE)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize("exists", [False, True])
async def test_ids_and_epochs_that_are_null_are_not_there(
    node: Node, method: str, exists: bool
) -> None:
    """core/http.md, "Creating or Updating Entities"; core/spec.md, "epoch Attribute"."""
    if exists:
        await node.put(f"{FILE}/versions/1")
    nothing = {"dirid": None, "epoch": None}
    version = {"fileid": None, "versionid": None, "epoch": None, "ancestorid": None}
    for path, body in (
        (DIR, nothing),
        (FILE, {**version, "meta": {"fileid": None, "epoch": None}}),
        (f"{FILE}/versions/1", version),
        (f"{FILE}/meta", {"fileid": None, "epoch": None, "defaultversionid": None}),
        ("/", {"registryid": None, "epoch": None}),
    ):
        answer = await node.send(method, path, body)
        assert answer.status in (200, 201), answer.body
    answer = await node.send("POST", FILE, version)
    assert answer.json["versionid"] == "2"


async def test_read_only_attributes_are_overlooked_whatever_they_say(node: Node) -> None:
    """core/model.md, "attributes.<STRING>.readonly"."""
    junk = {"self": 5, "xid": [], "shortself": {}, "isdefault": "x", "versionscount": -1}
    shown = await node.put(FILE, {**junk, "versionsurl": 5, "metaurl": 6, "meta": {"self": 5}})
    assert shown["self"] == f"{node.url}{FILE}"
    assert shown["isdefault"] is True
    junk = {"readonly": 5, "defaultversionurl": 5, "xid": 5}
    answer = await node.send("PATCH", f"{FILE}/meta", junk)
    assert answer.json["readonly"] is False


async def test_the_meta_of_a_resource_that_is_not_there_creates_it(node: Node) -> None:
    """core/http.md, "PATCH and PUT …/meta" and "Creating or Updating Entities"."""
    answer = await node.send("PUT", f"{FILE}/meta", {"labels": {"a": "b"}})
    assert (answer.status, answer.headers["Location"]) == (201, f"{node.url}{FILE}/meta")
    assert answer.json["defaultversionid"] == "1"
    assert (await node.get(FILE))["versionscount"] == 1
    assert (await node.send("PUT", f"{FILE}/meta", {})).status == 200


async def test_the_meta_is_never_deleted_alone(node: Node) -> None:
    """core/http.md, "DELETE …/meta"."""
    await node.put(FILE)
    answer = await node.send("DELETE", f"{FILE}/meta")
    assert (answer.status, assert_problem(answer)["type"]) == (405, f"{SPEC}action_not_supported")
    assert (await node.send("GET", FILE)).status == 200


@pytest.mark.parametrize(
    ("method", "path", "location", "content"),
    [
        ("PUT", FILE, FILE, f"{FILE}/versions/1"),
        ("PATCH", FILE, FILE, f"{FILE}/versions/1"),
        ("PUT", f"{FILE}/versions/v", f"{FILE}/versions/v", f"{FILE}/versions/v"),
        ("PUT", f"{FILE}$details", FILE, f"{FILE}/versions/1"),
        ("PUT", f"{PAPER}$details", f"{PAPER}$details", f"{PAPER}/versions/1$details"),
        ("PUT", PAPER, PAPER, f"{PAPER}/versions/1"),
        ("POST", PAPER, f"{PAPER}/versions/1", f"{PAPER}/versions/1"),
        ("POST", f"{PAPER}$details", f"{PAPER}/versions/1$details", f"{PAPER}/versions/1$details"),
        ("PUT", DIR, DIR, None),
    ],
)
async def test_answers_say_where_what_is_new_is(
    node: Node, method: str, path: str, location: str, content: str | None
) -> None:
    """core/http.md, "Creating or Updating Entities": as `self` does."""
    answer = await node.send(method, path, {})
    assert answer.status == 201
    assert answer.headers["Location"] == node.url + location
    assert answer.headers.get("Content-Location") == (content and node.url + content)
    if method != "POST":
        again = await node.send(method, path, {})
        assert again.status == 200
        assert "Location" not in again.headers


async def test_an_answer_names_the_new_version_among_those_that_were_written(node: Node) -> None:
    """core/http.md, "Creating or Updating Entities": Content-Location."""
    await node.put(FILE)
    body = {"versions": {"1": {}, "b": {}, "a": {}}}
    answer = await node.send("PATCH", FILE, body)
    assert answer.headers["Content-Location"] == f"{node.url}{FILE}/versions/b"
    assert (await node.get(FILE))["versionid"] == "b"


async def test_a_document_in_the_body_replaces_one_elsewhere(node: Node) -> None:
    """core/http.md, "Creating or Updating Entities": also an empty one."""
    url = "http://example.com/doc"
    for body in (b"text", b""):
        answer = await node.request("PUT", PAPER, headers={"xRegistry-paperurl": url})
        assert answer.headers["xRegistry-paperurl"] == url
        assert (await node.send("GET", PAPER)).status == 303
        answer = await node.request("PUT", PAPER, body=body)
        assert (answer.status, answer.body) == (200, body)
        assert "xRegistry-paperurl" not in answer.headers
        shown = await node.send("GET", PAPER)
        assert (shown.status, shown.body) == (200, body)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize("name", ["paper", "paperbase64", "paperurl"])
async def test_a_document_that_is_null_is_empty(node: Node, method: str, name: str) -> None:
    """core/spec.md, "<RESOURCE>* Attribute Processing"."""
    for before in ({"paper": {"a": 1}}, {"paperurl": "http://example.com/doc"}):
        await node.put(f"{PAPER}$details", before)
        answer = await node.send(method, f"{PAPER}$details?inline=paper", {name: None})
        assert answer.status == 200, answer.body
        assert answer.json["paperbase64"] == ""
        assert "paperurl" not in answer.json


async def test_absent_documents_stay_where_they_are(node: Node) -> None:
    """core/spec.md, "<RESOURCE>* Attribute Processing"; an URL is an attribute like others."""
    await node.put(f"{PAPER}$details", {"paper": {"a": 1}})
    for method in ("PUT", "PATCH"):
        await node.send(method, f"{PAPER}$details", {"name": "n"})
        assert (await node.send("GET", PAPER)).json == {"a": 1}
    await node.put(f"{PAPER}$details", {"paperurl": "http://example.com/doc"})
    await node.send("PATCH", f"{PAPER}$details", {"name": "n"})
    assert (await node.send("GET", PAPER)).status == 303
    await node.put(f"{PAPER}$details", {"name": "n"})
    assert (await node.send("GET", PAPER)).body == b""


async def test_media_types_come_with_documents(node: Node) -> None:
    """core/spec.md, "<RESOURCE>* Attribute Processing"."""
    details = f"{PAPER}$details"
    given = {"contenttype": "text/plain"}
    for method, body, expected in (
        ("PUT", {"paper": "x", **given}, "text/plain"),
        ("PUT", {"paper": "x"}, "application/json"),
        ("PUT", {"paperbase64": "eA=="}, None),
        ("PATCH", {"paperbase64": "eA=="}, "application/json"),
        ("PUT", {"paperbase64": "eA==", **given}, "text/plain"),
        ("PATCH", {"paper": "x"}, "text/plain"),
        ("PATCH", {"paperbase64": "eA=="}, "text/plain"),
        ("PUT", {"name": "n"}, None),
        ("PATCH", {"name": "n"}, None),
    ):
        answer = await node.send(method, details, body)
        assert answer.json.get("contenttype") == expected, (method, body)


@pytest.mark.parametrize(
    "body",
    [{"f": None}, {"f": []}, {"f": "x"}, [], {"f": {"versions": {"1": None}}}],
)
async def test_entries_of_a_map_are_entities(node: Node, body: Any) -> None:
    """core/spec.md, "Updating Nested Registry Collections"."""
    before = await node.state()
    answer = await node.send("PUT", DIR, {"files": body})
    assert assert_problem(answer)["type"] == f"{SPEC}bad_request"
    assert await node.state() == before
