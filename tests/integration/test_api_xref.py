"""Cross references: how resources become ones, what may be said of them, and how they end."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.conftest import SPEC, Node, assert_problem, start_node

FILES: dict[str, Any] = {
    "files": {"singular": "file", "hasdocument": False},
    "twins": {"singular": "file2", "hasdocument": False},
    "papers": {"singular": "paper"},
    "numbered": {"singular": "number", "hasdocument": False},
}
SOURCE = {
    "groups": {
        "dirs": {"singular": "dir", "resources": FILES},
        "shelves": {"singular": "shelf", "ximportresources": ["/dirs/files"]},
        "boxes": {"singular": "box", "ximportresources": ["/shelves/files"]},
        "others": {
            "singular": "other",
            "resources": {"files": {"singular": "file", "hasdocument": False}},
        },
    }
}
TARGET = "/dirs/d/files/target"
FILE = "/dirs/d/files/f"
REFER = {"meta": {"xref": TARGET}}


@contextlib.asynccontextmanager
async def with_target(dsn: str) -> AsyncIterator[Node]:
    async with start_node(dsn, modelsource=SOURCE) as running:
        await running.put(f"{TARGET}/versions/t1", {"name": "one"})
        await running.put(f"{TARGET}/versions/t2", {"name": "two"})
        yield running


@pytest.fixture
async def node(database_url: str) -> AsyncIterator[Node]:
    async with with_target(database_url) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def standing(shared_database_url: str) -> AsyncIterator[Node]:
    """A node with a cross reference, which no test here changes."""
    async with with_target(shared_database_url) as running:
        await running.put(FILE, REFER)
        yield running


async def refused(node: Node, method: str, path: str, body: Any, error: str) -> dict[str, Any]:
    before = await node.state()
    problem = assert_problem(await node.send(method, path, body))
    assert problem["type"] == SPEC + error
    assert await node.state() == before
    return problem


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", FILE, REFER),
        ("PATCH", FILE, REFER),
        ("PUT", FILE, {"fileid": "f", "meta": {"fileid": "f", "xref": TARGET}}),
        ("PUT", f"{FILE}/meta", {"xref": TARGET}),
        ("PATCH", f"{FILE}/meta", {"xref": TARGET}),
        ("POST", "/dirs/d/files", {"f": REFER}),
        ("PATCH", "/dirs/d/files", {"f": REFER}),
        ("POST", "/dirs/d", {"files": {"f": REFER}}),
        ("PUT", "/dirs/d", {"files": {"f": REFER}}),
        ("POST", "/dirs", {"d": {"files": {"f": REFER}}}),
        ("POST", "/", {"dirs": {"d": {"files": {"f": REFER}}}}),
        ("PATCH", "/", {"dirs": {"d": {"files": {"f": REFER}}}}),
    ],
)
@pytest.mark.parametrize("exists", [False, True])
async def test_a_resource_becomes_a_cross_reference(
    node: Node, method: str, path: str, body: Any, exists: bool
) -> None:
    """core/spec.md, "Cross Referencing Resources", in every way to write a resource."""
    if exists:
        await node.send("POST", f"{FILE}/versions", {"1": {"name": "mine"}, "2": {}})
    answer = await node.send(method, path, body)
    assert answer.status in (200, 201), answer.body
    shown = await node.get(f"{FILE}?inline")
    assert (shown["fileid"], shown["xid"]) == ("f", FILE)
    assert (shown["versionid"], shown["name"]) == ("t2", "two")
    assert shown["meta"]["xref"] == TARGET
    assert {*shown["versions"]} == {"t1", "t2"}
    assert (await node.send("GET", f"{FILE}/versions/1")).status == 404
    async with node.database.acquire() as connection:
        own = await connection.fetchval(
            "SELECT count(*) FROM entities WHERE collection = $1", f"{FILE}/versions"
        )
    assert own == 0, "its own versions are gone"


async def test_a_new_cross_reference_is_created(node: Node) -> None:
    """core/http.md, "Creating or Updating Entities": with a 201 that says where."""
    answer = await node.send("PUT", FILE, REFER)
    assert (answer.status, answer.headers["Location"]) == (201, f"{node.url}{FILE}")
    assert "Content-Location" not in answer.headers
    assert answer.json["name"] == "two"
    answer = await node.send("PUT", "/dirs/new/files/f/meta", {"xref": TARGET})
    assert answer.status == 201
    assert answer.headers["Location"] == f"{node.url}/dirs/new/files/f/meta"
    assert answer.json["xref"] == TARGET
    assert (await node.get("/dirs/new"))["filescount"] == 1


@pytest.mark.parametrize(
    ("method", "path", "body", "name"),
    [
        ("PUT", FILE, {**REFER, "name": "n"}, "name"),
        ("PUT", FILE, {**REFER, "versionid": "1"}, "versionid"),
        ("PUT", FILE, {**REFER, "versions": {"1": {}}}, "versions"),
        ("PUT", FILE, {**REFER, "labels": {}}, "labels"),
        ("PUT", FILE, {"meta": {"xref": TARGET, "compatibility": "backward"}}, "compatibility"),
        ("PUT", FILE, {"meta": {"xref": TARGET, "defaultversionid": "1"}}, "defaultversionid"),
        ("PUT", FILE, {"meta": {"xref": TARGET, "createdat": "2020-01-01T00:00:00Z"}}, "createdat"),
        ("PATCH", f"{FILE}/meta", {"xref": TARGET, "labels": {"a": "b"}}, "labels"),
        ("PUT", f"{FILE}/meta", {"xref": TARGET, "defaultversionsticky": True}, None),
        ("POST", "/dirs/d/files", {"f": {**REFER, "name": "n"}}, "name"),
    ],
)
@pytest.mark.parametrize("exists", [False, True])
async def test_nothing_else_may_be_said_of_a_cross_reference(
    node: Node, method: str, path: str, body: Any, name: str | None, exists: bool
) -> None:
    """core/spec.md, "extra_xref_attribute"."""
    if exists:
        await node.put(FILE)
    problem = await refused(node, method, path, body, "extra_xref_attribute")
    assert problem["subject"] == FILE
    assert problem["args"] == {"singular": "file", "name": name or "defaultversionsticky"}


@pytest.mark.parametrize(
    ("method", "path", "body", "name"),
    [
        ("PUT", FILE, {"name": "n"}, "name"),
        ("PATCH", FILE, {"name": "n"}, "name"),
        ("PATCH", f"{FILE}/meta", {"labels": {"a": "b"}}, "labels"),
        ("PATCH", f"{FILE}/meta", {"epoch": 1}, "epoch"),
        ("PUT", f"{FILE}/meta", {"xref": TARGET, "epoch": 1}, "epoch"),
        ("PUT", f"{FILE}/versions/t1", {"name": "n"}, "versions"),
        ("POST", f"{FILE}/versions", {"t1": {}}, "versions"),
        ("POST", FILE, {}, "versions"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_cross_reference_is_written_where_it_leads(
    standing: Node, method: str, path: str, body: Any, name: str
) -> None:
    """core/spec.md, "Cross Referencing Resources"."""
    problem = await refused(standing, method, path, body, "extra_xref_attribute")
    assert problem["args"]["name"] == name


async def test_versions_are_not_deleted_through_a_cross_reference(node: Node) -> None:
    """core/spec.md, "Cross Referencing Resources"; all of it can go, as it is one's own."""
    await node.put(FILE, REFER)
    await refused(node, "DELETE", f"{FILE}/versions/t1", None, "readonly")
    await refused(node, "DELETE", f"{FILE}/versions", {"t1": {}}, "readonly")
    assert (await node.send("DELETE", FILE)).status == 204
    assert (await node.get(TARGET))["versionscount"] == 2


@pytest.mark.parametrize(
    "xref",
    [
        5,
        {},
        "",
        "target",
        "/",
        "/dirs/d",
        "/dirs/d/files",
        "dirs/d/files/target",
        f"{TARGET}/meta",
        f"{TARGET}/versions/t1",
        f"{TARGET}/",
        "/dirs/d/files/a b",
        "/nowhere/d/files/target",
        "/dirs/d/nowhere/target",
        "/dirs/d/twins/target",
        "/dirs/d/papers/target",
        "/others/o/files/target",
        FILE,
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_what_cannot_be_referred_to(standing: Node, xref: Any) -> None:
    """core/spec.md, "malformed_xref", and "Cross Referencing Resources": the same type."""
    problem = await refused(standing, "PUT", FILE, {"meta": {"xref": xref}}, "malformed_xref")
    assert problem["args"]["xref"] == str(xref)


@pytest.mark.parametrize("group", ["/shelves/s", "/boxes/b"])
async def test_a_type_that_is_imported_is_the_same_type(node: Node, group: str) -> None:
    """core/model.md, "ximportresources", in both directions, through other imports, too."""
    await node.put(f"{group}/files/f", REFER)
    assert (await node.get(f"{group}/files/f"))["name"] == "two"
    await node.put(f"{group}/files/own", {"name": "own"})
    await node.put(FILE, {"meta": {"xref": f"{group}/files/own"}})
    assert (await node.get(FILE))["name"] == "own"


async def test_a_reference_may_lead_nowhere(node: Node) -> None:
    """core/spec.md, "Cross Referencing Resources": dangling, at first or later, or for long."""
    await node.put(FILE, {"meta": {"xref": "/dirs/nowhere/files/missing"}})
    shown = await node.get(f"{FILE}?inline=meta")
    assert {*shown} == {"fileid", "self", "xid", "metaurl", "meta"}
    assert {*shown["meta"]} == {"fileid", "self", "xid", "xref"}
    await node.put("/dirs/nowhere/files/missing", {"name": "found"})
    assert (await node.get(FILE))["name"] == "found"
    await node.send("DELETE", "/dirs/nowhere")
    assert "name" not in await node.get(FILE)


async def test_references_are_followed_once(node: Node) -> None:
    """core/spec.md, "Cross Referencing Resources": not transitively, so circles do no harm."""
    await node.put("/dirs/d/files/a", REFER)
    await node.put("/dirs/d/files/b", {"meta": {"xref": "/dirs/d/files/a"}})
    assert "name" not in await node.get("/dirs/d/files/b")
    await node.put("/dirs/d/files/a", {"meta": {"xref": "/dirs/d/files/b"}})
    assert "name" not in await node.get("/dirs/d/files/a")


@pytest.mark.parametrize(
    ("method", "path", "body", "versions"),
    [
        ("PUT", FILE, {"name": "n", "meta": {}}, {"1": "n"}),
        ("PUT", FILE, {"name": "n", "meta": {"xref": None}}, {"1": "n"}),
        ("PATCH", FILE, {"name": "n", "meta": {"xref": None}}, {"1": "n"}),
        ("PATCH", FILE, {"versionid": "v", "meta": {"xref": None}}, {"v": None}),
        ("PUT", FILE, {"meta": {"defaultversionid": "v"}}, {"v": None}),
        ("PUT", FILE, {"meta": {}, "versions": {"a": {"name": "a"}}}, {"a": "a"}),
        ("PUT", f"{FILE}/meta", {}, {"1": None}),
        ("PATCH", f"{FILE}/meta", {"xref": None}, {"1": None}),
        ("POST", "/dirs/d/files", {"f": {"meta": {"xref": None}}}, {"1": None}),
    ],
)
async def test_a_cross_reference_becomes_an_ordinary_resource(
    node: Node, method: str, path: str, body: Any, versions: dict[str, Any]
) -> None:
    """core/spec.md, "Cross Referencing Resources": with a default version, and nothing else."""
    await node.put(FILE, REFER)
    answer = await node.send(method, path, body)
    assert answer.status == 200, answer.body
    shown = await node.get(f"{FILE}?inline")
    assert "xref" not in shown["meta"]
    assert {vid: v.get("name") for vid, v in shown["versions"].items()} == versions
    assert (await node.get(TARGET))["versionscount"] == 2
    await node.put(f"{TARGET}/versions/t2", {"name": "changed"})
    assert (await node.get(FILE)).get("name") in (None, *versions.values())


async def test_nothing_of_an_earlier_life_comes_back(node: Node) -> None:
    """core/spec.md, "Cross Referencing Resources": but the time of creation does."""
    before = await node.put(
        f"{FILE}?inline=meta",
        {"name": "mine", "meta": {"labels": {"a": "b"}, "createdat": "2001-01-01T00:00:00Z"}},
    )
    await node.send("PATCH", f"{FILE}/meta", {"defaultversionid": "1"})
    await node.send("PATCH", f"{FILE}/meta", {"xref": TARGET})
    await node.send("PATCH", f"{FILE}/meta", {"xref": None})
    after = await node.get(f"{FILE}?inline=meta")
    assert "name" not in after
    assert "labels" not in after["meta"]
    assert after["meta"]["defaultversionsticky"] is False
    assert after["meta"]["createdat"] == "2001-01-01T00:00:00Z"
    assert after["meta"]["modifiedat"] > before["meta"]["modifiedat"]
    assert after["meta"]["modifiedat"] == after["createdat"]
    assert after["versionid"] == "2", "ids of versions are not given again"
    await node.put(f"{FILE}/meta", {"xref": TARGET})
    times = {"createdat": "2002-01-01T00:00:00Z", "modifiedat": "2003-01-01T00:00:00Z"}
    await node.put(f"{FILE}/meta", times)
    assert times.items() <= (await node.get(f"{FILE}/meta")).items()


@pytest.mark.parametrize(("own", "target"), [(1, 6), (6, 1)])
async def test_the_epoch_is_above_both_when_a_reference_ends(
    node: Node, own: int, target: int
) -> None:
    """core/spec.md, "Cross Referencing Resources"."""
    await node.put(FILE)
    for _ in range(own):
        await node.send("PATCH", f"{FILE}/meta", {})
    for _ in range(target):
        await node.send("PATCH", f"{TARGET}/meta", {})
    earlier = (await node.get(f"{FILE}/meta"))["epoch"]
    epoch = (await node.get(f"{TARGET}/meta"))["epoch"]
    await node.put(f"{FILE}/meta", {"xref": TARGET, "epoch": earlier})
    shown = await node.get(f"{FILE}/meta")
    assert shown["epoch"] == epoch, "a cross reference shows the epoch of its target"
    after = (await node.put(f"{FILE}/meta", {"epoch": epoch}))["epoch"]
    assert after > max(epoch, earlier)
    await node.put(f"{FILE}/meta", {"xref": TARGET})
    await node.send("DELETE", TARGET)
    assert (await node.put(f"{FILE}/meta"))["epoch"] > after


async def test_an_epoch_protects_a_resource_from_becoming_a_reference(node: Node) -> None:
    """core/spec.md, "Cross Referencing Resources"."""
    await node.put(FILE)
    await refused(node, "PUT", f"{FILE}/meta", {"xref": TARGET, "epoch": 9}, "mismatched_epoch")
    await refused(node, "PUT", FILE, {"fileid": "x", **REFER}, "mismatched_id")
    assert (await node.send("PUT", f"{FILE}/meta", {"xref": TARGET, "epoch": 1})).status == 200


async def test_a_cross_reference_has_no_default_version_to_choose(node: Node) -> None:
    """core/spec.md, "SetDefaultVersionID Flag"."""
    await refused(node, "PUT", f"{FILE}?setdefaultversionid=t1", REFER, "bad_defaultversionid")
    assert (await node.send("PUT", f"{FILE}?setdefaultversionid=null", REFER)).status == 201
    body = {"meta": {"xref": None}, "versions": {"a": {}, "b": {}}}
    await node.put(f"{FILE}?setdefaultversionid=a", body)
    assert (await node.get(f"{FILE}/meta"))["defaultversionid"] == "a"


async def test_a_document_is_not_written_through_a_cross_reference(node: Node) -> None:
    """core/spec.md, "Cross Referencing Resources"."""
    paper = "/dirs/d/papers/p"
    await node.request("PUT", "/dirs/d/papers/target", body=b"text")
    await node.put(f"{paper}/meta", {"xref": "/dirs/d/papers/target"})
    assert (await node.send("GET", paper)).body == b"text"
    before = await node.state()
    answer = await node.request("PUT", paper, body=b"other")
    assert assert_problem(answer)["args"] == {"singular": "paper", "name": "paper"}
    assert await node.state() == before


async def test_what_was_exported_can_be_imported(node: Node) -> None:
    """core/spec.md, "Doc Flag": ids and links beside a reference are no extra attributes."""
    await node.put(FILE, REFER)
    exported = await node.get("/dirs/d?doc&inline")
    assert exported["files"]["f"]["meta"]["xref"] == TARGET
    await node.send("DELETE", "/dirs/d")
    await node.put("/dirs/d?ignore=epoch", exported)
    assert (await node.get(FILE))["name"] == "two"


async def test_a_chain_of_writes_leaves_a_log_that_a_replica_can_follow(node: Node) -> None:
    """Epochs of one entity only ever rise in the log."""
    await node.put(FILE)
    for meta in ({"xref": TARGET}, {"xref": None}, {"xref": TARGET}, {}):
        await node.put(f"{FILE}/meta", meta)
    rows = [logged.change for logged in await node.changes()]
    for xid in {row.xid for row in rows}:
        epochs = [row.epoch for row in rows if row.xid == xid]
        assert epochs == sorted(set(epochs)), xid
