"""Flags that change what a write does: setdefaultversionid, ignore and epoch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.integration.conftest import HTTP, SPEC, Node, assert_problem, fresh_node

FILES: dict[str, Any] = {
    "files": {"singular": "file", "hasdocument": False},
    "singles": {"singular": "single", "hasdocument": False, "maxversions": 1},
    "papers": {"singular": "paper"},
}
SOURCE = {"groups": {"dirs": {"singular": "dir", "resources": FILES}}}
FILE = "/dirs/d/files/f"
ELSEWHERE = "https://elsewhere.example"

node = fresh_node(modelsource=SOURCE)


async def default_of(node: Node, path: str = FILE) -> tuple[str, bool]:
    meta = await node.get(f"{path}/meta")
    return meta["defaultversionid"], meta["defaultversionsticky"]


@pytest.mark.parametrize(
    ("method", "path", "body", "default"),
    [
        ("PUT", f"{FILE}?setdefaultversionid=2", {}, ("2", True)),
        ("PATCH", f"{FILE}?setdefaultversionid=2", {}, ("2", True)),
        ("PUT", f"{FILE}?setdefaultversionid=9", {"versions": {"9": {}}}, ("9", True)),
        ("PUT", f"{FILE}/versions/2?setdefaultversionid=2", {}, ("2", True)),
        ("PUT", f"{FILE}/versions/9?setdefaultversionid=2", {}, ("2", True)),
        ("POST", f"{FILE}/versions?setdefaultversionid=2", {}, ("2", True)),
        ("POST", f"{FILE}?setdefaultversionid=2", {}, ("2", True)),
        ("POST", f"{FILE}?setdefaultversionid=request", {}, ("4", True)),
        ("POST", f"{FILE}?setdefaultversionid=request", {"versionid": "new"}, ("new", True)),
        ("PATCH", f"{FILE}/meta?setdefaultversionid=2", {"defaultversionid": "3"}, ("2", True)),
        ("PUT", f"{FILE}/meta?setdefaultversionid=2", {"defaultversionsticky": False}, ("2", True)),
        ("PATCH", f"{FILE}/meta?setdefaultversionid=null", {"defaultversionid": "2"}, ("3", False)),
        ("PUT", f"{FILE}?setdefaultversionid=null", {}, ("3", False)),
        ("DELETE", f"{FILE}/versions/1?setdefaultversionid=2", None, ("2", True)),
        ("DELETE", f"{FILE}/versions/1?setdefaultversionid=null", None, ("3", False)),
        ("DELETE", f"{FILE}/versions?setdefaultversionid=2", {"1": {}, "3": {}}, ("2", True)),
        ("DELETE", f"{FILE}/versions?setdefaultversionid=2", {}, ("2", True)),
    ],
)
async def test_a_flag_chooses_the_default_version(
    node: Node, method: str, path: str, body: Any, default: tuple[str, bool]
) -> None:
    """core/spec.md, "SetDefaultVersionID Flag": the default was version 1, sticky."""
    await node.send("POST", f"{FILE}/versions", {"1": {}, "2": {}, "3": {}})
    await node.send("PATCH", f"{FILE}/meta", {"defaultversionid": "1"})
    epoch = (await node.get(f"{FILE}/meta"))["epoch"]
    answer = await node.send(method, path, body)
    assert answer.status in (200, 201, 204), answer.body
    assert await default_of(node) == default
    assert (await node.get(f"{FILE}/meta"))["epoch"] == epoch + 1


@pytest.mark.parametrize(
    ("method", "path", "body", "error"),
    [
        ("PUT", "/?setdefaultversionid=1", {}, "bad_flag"),
        ("POST", "/dirs?setdefaultversionid=1", {}, "bad_flag"),
        ("PUT", "/dirs/d?setdefaultversionid=1", {}, "bad_flag"),
        ("POST", "/dirs/d/files?setdefaultversionid=1", {"f": {}}, "bad_flag"),
        ("DELETE", "/dirs/d/files?setdefaultversionid=1", {"f": {}}, "bad_flag"),
        ("PUT", f"{FILE}?setdefaultversionid=request", {}, "bad_flag"),
        ("PUT", f"{FILE}/versions/9?setdefaultversionid=request", {}, "bad_flag"),
        ("PATCH", f"{FILE}/meta?setdefaultversionid=request", {}, "bad_flag"),
        ("DELETE", f"{FILE}/versions/1?setdefaultversionid=request", None, "bad_flag"),
        (
            "POST",
            f"{FILE}/versions?setdefaultversionid=request",
            {"8": {}, "9": {}},
            "too_many_versions",
        ),
        (
            "POST",
            f"{FILE}?setdefaultversionid=request",
            {"versionid": "1"},
            "defaultversionid_request",
        ),
        ("PUT", f"{FILE}?setdefaultversionid=nowhere", {}, "unknown_id"),
        ("DELETE", f"{FILE}/versions/1?setdefaultversionid=1", None, "unknown_id"),
        ("PUT", f"{FILE}?setdefaultversionid", {}, "bad_defaultversionid"),
        ("PUT", f"{FILE}?setdefaultversionid=a%20b", {}, "bad_defaultversionid"),
        ("PUT", f"{FILE}?setdefaultversionid=1&setdefaultversionid=2", {}, "bad_defaultversionid"),
        ("DELETE", f"{FILE}?setdefaultversionid=1", None, "bad_defaultversionid"),
        ("DELETE", f"{FILE}/versions?setdefaultversionid=1", None, "bad_defaultversionid"),
        (
            "PUT",
            "/dirs/d/singles/s?setdefaultversionid=1",
            {"versionid": "1"},
            "setdefaultversionsticky_false",
        ),
    ],
)
async def test_a_default_version_that_cannot_be_chosen(
    node: Node, method: str, path: str, body: Any, error: str
) -> None:
    """core/spec.md, "SetDefaultVersionID Flag"."""
    await node.send("POST", f"{FILE}/versions", {"1": {}, "2": {}})
    before = await node.state()
    assert assert_problem(await node.send(method, path, body))["type"] == SPEC + error
    assert await node.state() == before


@pytest.mark.parametrize(
    ("body", "default", "name"),
    [
        ({"versions": {"v1": {"name": "abc"}, "v2": {}}}, "v1", "abc"),
        ({"name": "n", "versionid": "v1"}, "v1", "n"),
    ],
)
async def test_a_new_resource_can_begin_with_a_chosen_default_version(
    node: Node, body: Any, default: str, name: str
) -> None:
    """core/resource.md, "Create Resource with SetDefaultVersionID flag"."""
    shown = await node.put(f"{FILE}?setdefaultversionid={default}", body)
    assert (shown["versionid"], shown["name"]) == (default, name)
    assert await default_of(node) == (default, True)


async def test_a_new_resource_can_begin_so_through_its_versions(node: Node) -> None:
    """core/resource.md, "Create Resource with SetDefaultVersionID flag via /versions"."""
    path = f"{FILE}/versions?setdefaultversionid=v1"
    assert (await node.send("POST", path, {"v1": {"name": "abc"}, "v2": {}})).status == 200
    assert await default_of(node) == ("v1", True)
    assert (await node.get(f"{FILE}/meta"))["epoch"] == 1


IGNORED: list[tuple[str, str, str, Any]] = [
    ("PUT", FILE, "epoch", {"epoch": 7, "meta": {"epoch": 8}, "versions": {"2": {"epoch": 9}}}),
    ("PATCH", f"{FILE}/meta", "epoch", {"epoch": 7}),
    ("PUT", "/dirs/d", "epoch", {"epoch": 7, "files": {"f": {"epoch": 8}}}),
    ("PATCH", "/", "epoch", {"epoch": 70}),
    ("DELETE", "/dirs/d/files", "epoch", {"f": {"epoch": 5}}),
    ("PATCH", f"{FILE}/meta", "defaultversionid", {"defaultversionid": "nowhere"}),
    (
        "PUT",
        f"{FILE}/meta",
        "defaultversionsticky",
        {"defaultversionid": "nowhere", "defaultversionsticky": True},
    ),
    ("PUT", FILE, "id", {"fileid": "other", "meta": {"fileid": "other"}}),
    ("PUT", FILE, "id", {"fileid": "other", "versions": {"2": {"fileid": "other"}}}),
    ("PUT", "/dirs/d", "id", {"dirid": "other"}),
    ("PATCH", "/", "id", {"registryid": "other"}),
    ("PUT", f"{FILE}/versions/1", "id", {"fileid": "other", "versionid": "other"}),
    ("PATCH", f"{FILE}/meta", "id", {"fileid": "other"}),
    ("PATCH", "/", "modelsource", {"modelsource": {"groups": 5}}),
    ("PATCH", "/", "capabilities", {"capabilities": {"flags": 5}}),
]


@pytest.mark.parametrize(("method", "path", "flag", "body"), IGNORED)
async def test_parts_of_a_request_can_be_ignored(
    node: Node, method: str, path: str, flag: str, body: Any
) -> None:
    """core/spec.md, "Ignore Flag"."""
    await node.put(f"{FILE}/versions/1")
    before = await node.state()
    assert_problem(await node.send(method, path, body))
    assert await node.state() == before, "without the flag it is refused"
    for query in (f"ignore={flag}", f"ignore=capabilities,{flag}", "ignore", "ignore=*"):
        answer = await node.send(method, f"{path}?{query}", body)
        assert answer.status in (200, 201, 204), answer.body


async def test_ids_inside_of_what_is_sent_are_never_ignored(node: Node) -> None:
    """core/spec.md, "Ignore Flag": nested entities keep their ids, and collections theirs."""
    for path, body in (
        ("/dirs/d?ignore=id", {"files": {"f": {"fileid": "other"}}}),
        (f"{FILE}?ignore=id", {"versions": {"1": {"versionid": "2"}}}),
    ):
        answer = await node.send("PUT", path, body)
        assert assert_problem(answer)["type"] == f"{SPEC}mismatched_id"
    for path, body in (
        ("/dirs?ignore=id", {"d": {"dirid": "other"}}),
        ("/dirs/d/files?ignore", {"f": {"fileid": "other"}}),
        (f"{FILE}/versions?ignore=id", {"1": {"versionid": "2"}}),
    ):
        answer = await node.send("POST", path, body)
        assert assert_problem(answer)["type"] == f"{SPEC}mismatched_id"


async def test_what_was_exported_can_be_imported_under_another_id(node: Node) -> None:
    """core/spec.md, "Ignore Flag": what `id` is for."""
    await node.send("POST", f"{FILE}/versions", {"1": {"name": "a"}, "2": {"name": "b"}})
    exported = await node.get(f"{FILE}?inline")
    copied = await node.put("/dirs/d/files/copy?ignore=id,epoch&inline", exported)
    assert copied["fileid"] == "copy"
    assert {vid: v["name"] for vid, v in copied["versions"].items()} == {"1": "a", "2": "b"}


@pytest.mark.parametrize("value", ["everything", "epoch,everything", "self"])
async def test_what_cannot_be_ignored(node: Node, value: str) -> None:
    """core/spec.md, "Ignore Flag"."""
    answer = await node.send("PUT", f"/dirs/d?ignore={value}", {})
    assert assert_problem(answer)["type"] == f"{SPEC}bad_ignore"


async def test_capabilities_say_what_can_be_ignored_and_which_flags_there_are(node: Node) -> None:
    """core/spec.md, "ignores Capability" and "flags Capability"."""
    configuration = node.context.configuration
    able = replace(configuration.capabilities, ignores=("epoch",), flags=("ignore",))
    node.context.shared.configuration = replace(configuration, capabilities=able)
    answer = await node.send("PUT", "/dirs/d?ignore=id", {})
    assert assert_problem(answer)["type"] == f"{SPEC}bad_ignore"
    assert (await node.send("PUT", "/dirs/d?ignore", {"epoch": 9})).status == 201
    assert (await node.send("PUT", "/dirs/d?ignore", {"dirid": "x"})).status == 400
    assert (await node.send("DELETE", "/dirs/d?epoch=99")).status == 204, "it is off, so ignored"


async def test_an_epoch_protects_the_deletion_of_one_entity(node: Node) -> None:
    """core/spec.md, "Epoch Flag"."""
    await node.put(f"{FILE}/versions/1")
    await node.put(f"{FILE}/versions/2")
    for path, epoch in ((f"{FILE}/versions/1", 1), (FILE, 3), ("/dirs/d", 2)):
        answer = await node.send("DELETE", f"{path}?epoch=99")
        assert assert_problem(answer)["type"] == f"{SPEC}mismatched_epoch"
        assert (await node.send("DELETE", f"{path}?epoch={epoch}")).status == 204, path


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/dirs/d?epoch=1", {}),
        ("POST", "/dirs?epoch=1", {}),
        ("DELETE", "/dirs?epoch=1", None),
        ("DELETE", "/dirs/d?epoch=-1", None),
        ("DELETE", "/dirs/d?epoch=x", None),
        ("DELETE", "/dirs/d?epoch=1&epoch=1", None),
    ],
)
async def test_an_epoch_that_would_not_be_looked_at_is_refused(
    node: Node, method: str, path: str, body: Any
) -> None:
    """core/spec.md, "Epoch Flag"."""
    await node.put("/dirs/d")
    answer = await node.send(method, path, body)
    assert assert_problem(answer)["type"] == f"{SPEC}bad_flag"


async def replicate(node: Node, *xids: str) -> None:
    """Make what is at these places somebody else's."""
    async with node.database.acquire() as connection:
        await connection.execute(
            "UPDATE entities SET authority = $1 WHERE xid = ANY ($2::text[])"
            " OR collection = ANY (SELECT x || '/versions' FROM unnest($2::text[]) AS x)",
            ELSEWHERE,
            list(xids),
        )


async def test_read_only_resources_are_refused_or_overlooked(node: Node) -> None:
    """core/spec.md, "readonly Attribute" and "Ignore Flag"."""
    for rid in ("own", "theirs"):
        await node.put(f"/dirs/d/files/{rid}", {"name": "before"})
    await replicate(node, "/dirs/d/files/theirs")
    body = {"own": {"name": "after"}, "theirs": {"name": "after"}, "new": {}}
    before = await node.state()
    answer = await node.send("POST", "/dirs/d/files", body)
    assert assert_problem(answer)["type"] == f"{SPEC}readonly"
    assert await node.state() == before
    answer = await node.send("POST", "/dirs/d/files?ignore=readonly", body)
    assert {*answer.json} == {"own", "new"}
    assert (await node.get("/dirs/d/files/theirs"))["name"] == "before"
    assert (await node.get("/dirs/d/files/own"))["name"] == "after"
    answer = await node.send("PUT", "/?ignore=readonly", {"dirs": {"d": {"files": body}}})
    assert answer.status == 200, answer.body
    answer = await node.send("DELETE", "/dirs/d/files?ignore=readonly")
    assert answer.status == 204, answer.body
    assert {*await node.get("/dirs/d/files")} == {"theirs"}
    assert (await node.send("POST", "/dirs/d/files?ignore", {"theirs": {}})).json == {}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", FILE, {}),
        ("PATCH", f"{FILE}/meta", {}),
        ("PUT", f"{FILE}/versions/1", {}),
        ("POST", f"{FILE}/versions", {"1": {}}),
        ("POST", FILE, {}),
        ("DELETE", FILE, None),
        ("DELETE", f"{FILE}/versions", {"1": {}}),
    ],
)
async def test_a_request_that_is_all_about_a_read_only_resource_is_refused(
    node: Node, method: str, path: str, body: Any
) -> None:
    """core/spec.md, "Ignore Flag": nothing would be left of it."""
    await node.put(f"{FILE}/versions/1")
    await replicate(node, FILE)
    before = await node.state()
    answer = await node.send(method, path, body)
    assert assert_problem(answer)["type"] == f"{SPEC}readonly"
    answer = await node.send(method, f"{path}?ignore=readonly", body)
    assert assert_problem(answer)["type"] == f"{SPEC}bad_flag"
    assert await node.state() == before


async def test_documents_take_the_same_flags(node: Node) -> None:
    """core/spec.md, "Ignore Flag" and "SetDefaultVersionID Flag"."""
    paper = "/dirs/d/papers/p"
    await node.request("PUT", f"{paper}/versions/1", body=b"1")
    headers = {"xRegistry-paperid": "other", "xRegistry-epoch": "9"}
    answer = await node.request("PUT", paper, body=b"2", headers=headers)
    assert assert_problem(answer)["type"] == f"{SPEC}mismatched_id"
    answer = await node.request("PUT", f"{paper}?ignore=id,epoch", body=b"2", headers=headers)
    assert (answer.status, answer.body) == (200, b"2")
    answer = await node.request("POST", f"{paper}?setdefaultversionid=request", body=b"3")
    assert answer.status == 201
    await node.request("POST", paper, body=b"4")
    assert await default_of(node, paper) == ("2", True)
    answer = await node.request("PATCH", paper, body=b"5")
    assert assert_problem(answer)["type"] == f"{HTTP}details_required"
