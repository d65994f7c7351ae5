"""Reads: inlined collections, pages, the export, what the registry says of itself, and headers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.conftest import HTTP, SPEC, Node, assert_problem, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

NEXT = re.compile(r"<([^>]+)>;rel=next;count=(\d+)")
FORMAT = "Text/1.0"
SCHEMA = {"format": FORMAT, "schema": {"type": "string"}}
SEED: dict[str, Any] = {
    "messagegroups": {
        "g": {
            "labels": {"team": "a"},
            "messages": {
                "m": {
                    "versions": {"1": {"name": "one"}, "2": {"name": "two"}},
                    "meta": {
                        "defaultversionid": "1",
                        "defaultversionsticky": True,
                        "labels": {"l": "v"},
                    },
                }
            },
        },
        **{f"g{n}": {} for n in range(1, 8)},
    },
    "schemagroups": {
        "s": {
            "schemas": {
                **{f"s{n}": SCHEMA for n in range(5)},
                "s~1": {"versions": {f"v{n}": SCHEMA for n in range(7)}},
                "bin": {"format": FORMAT, "schemabase64": "AAEC", "contenttype": "a/b"},
                "far": {"format": FORMAT, "schemaurl": "http://example.com/far"},
            }
        }
    },
    "endpoints": {"e": {"usage": ["producer"], "messages": {"m": {}}}},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    """A node with entities of every kind, which no test here changes."""
    async with start_node(shared_database_url) as running:
        answer = await running.send("POST", "/", SEED)
        assert answer.status == 200, answer.body
        yield running


def paths_of(shown: Any, names: tuple[str, ...], prefix: str = "") -> set[str]:
    """Where in an answer, by the names of collections, something is inlined."""
    found: set[str] = set()
    for name in names:
        if isinstance(shown, dict) and name in shown and not name.endswith("url"):
            found.add(prefix + name)
            if name in ("meta", "schema"):
                continue
            for child in shown[name].values():
                found |= paths_of(child, names, f"{prefix}{name}.")
    return found


NAMES = ("messagegroups", "schemagroups", "endpoints", "messages", "schemas", "versions", "meta")
BELOW = {
    "messagegroups",
    "messagegroups.messages",
    "messagegroups.messages.meta",
    "messagegroups.messages.versions",
    "schemagroups",
    "schemagroups.schemas",
    "schemagroups.schemas.meta",
    "schemagroups.schemas.versions",
    "endpoints",
    "endpoints.messages",
    "endpoints.messages.meta",
    "endpoints.messages.versions",
}


@pytest.mark.parametrize(
    ("path", "inlined"),
    [
        ("/", set()),
        ("/?inline=*", BELOW),
        ("/?inline", BELOW),
        ("/?inline=", BELOW),
        ("/?inline=endpoints", {"endpoints"}),
        ("/?inline=endpoints,messagegroups", {"endpoints", "messagegroups"}),
        ("/?inline=endpoints&inline=messagegroups", {"endpoints", "messagegroups"}),
        ("/?inline=endpoints.*", {name for name in BELOW if name.startswith("endpoints")}),
        (
            "/?inline=messagegroups.messages.versions",
            {"messagegroups", "messagegroups.messages", "messagegroups.messages.versions"},
        ),
        (
            "/?inline=messagegroups.messages.meta",
            {"messagegroups", "messagegroups.messages", "messagegroups.messages.meta"},
        ),
        ("/messagegroups/g", set()),
        ("/messagegroups/g?inline=messages", {"messages"}),
        ("/messagegroups/g?inline=*", {"messages", "messages.meta", "messages.versions"}),
        ("/messagegroups/g/messages/m?inline=meta", {"meta"}),
        ("/messagegroups/g/messages/m?inline=versions,meta", {"versions", "meta"}),
        ("/messagegroups/g/messages/m?inline=*", {"versions", "meta"}),
        ("/messagegroups/g/messages/m/versions/1?inline=*", set()),
        ("/messagegroups/g/messages/m/meta?inline=*", set()),
    ],
)
async def test_what_is_asked_for_is_inlined_with_its_parents_and_no_more(
    node: Node, path: str, inlined: set[str]
) -> None:
    """core/spec.md, "Inline Flag"."""
    shown = await node.get(path)
    assert paths_of(shown, NAMES) == inlined
    assert not {"model", "modelsource", "capabilities"} & {*shown}


@pytest.mark.parametrize(
    ("path", "inlined"),
    [
        ("/messagegroups?inline=messages", {"messages"}),
        ("/messagegroups?inline=messages.meta", {"messages", "messages.meta"}),
        ("/messagegroups/g/messages?inline=versions", {"versions"}),
        ("/messagegroups/g/messages?inline=*", {"versions", "meta"}),
    ],
)
async def test_collections_inline_inside_each_of_their_entities(
    node: Node, path: str, inlined: set[str]
) -> None:
    """core/spec.md, "Inline Flag": the table's rows for collections."""
    shown = await node.get(path)
    entity = shown.get("g") or shown["m"]
    assert paths_of(entity, NAMES) == inlined
    plain = await node.get(path.partition("?")[0])
    for id, entity in plain.items():
        assert entity.items() <= shown[id].items(), "inlining only adds"


async def test_inlined_entities_are_what_a_get_of_each_shows(node: Node) -> None:
    """core/spec.md, "Inline Flag"."""
    shown = await node.get("/?inline=*,model,modelsource,capabilities")
    assert shown["model"] == await node.get("/model")
    assert shown["modelsource"] == await node.get("/modelsource")
    assert shown["capabilities"] == await node.get("/capabilities")
    message = shown["messagegroups"]["g"]["messages"]["m"]
    assert message["meta"] == await node.get("/messagegroups/g/messages/m/meta")
    assert message["versions"] == await node.get("/messagegroups/g/messages/m/versions")
    assert message == await node.get("/messagegroups/g/messages/m?inline=*")
    schemas = shown["schemagroups"]["s"]["schemas"]
    for id, schema in schemas.items():
        assert schema == await node.get(f"/schemagroups/s/schemas/{id}$details?inline=*")
    assert schemas["s0"]["schema"] == {"type": "string"}
    assert schemas["bin"]["schemabase64"] == "AAEC"
    assert not {"schema", "schemabase64"} & {*schemas["far"]}
    versions = await node.get("/schemagroups/s/schemas/s~1/versions?inline=schema")
    assert versions == schemas["s~1"]["versions"]


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        ("/", "nowhere", "bad_inline"),
        ("/", "messages", "bad_inline"),
        ("/", "messagegroups.nowhere", "bad_inline"),
        ("/", "messagegroups.g", "bad_inline"),
        ("/", "messagegroups*", "bad_inline"),
        ("/", "*.messages", "bad_inline"),
        ("/", "messagegroups..messages", "bad_inline"),
        ("/", "MessageGroups", "bad_inline"),
        ("/", "messagegroups,,endpoints", "bad_inline"),
        ("/", "name", "inline_noninlineable"),
        ("/", "schemagroups.schemas.schemabase64", "bad_inline"),
        ("/messagegroups", "messagegroups", "bad_inline"),
        ("/messagegroups/g", "messagegroups", "bad_inline"),
        ("/messagegroups/g", "messages.message", "bad_inline"),
        ("/messagegroups/g/messages/m", "message", "bad_inline"),
        ("/messagegroups/g/messages/m", "versions.versions", "bad_inline"),
        ("/messagegroups/g/messages/m/meta", "versions", "bad_inline"),
        ("/schemagroups/s/schemas/s0$details", "meta.labels", "bad_inline"),
        ("/schemagroups/s/schemas/s0$details", "schemabase64", "bad_inline"),
        ("/", ",".join(["endpoints"] * 101), "bad_inline"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_what_cannot_be_inlined_is_refused(
    node: Node, method: str, path: str, value: str, error: str
) -> None:
    """core/spec.md, "bad_inline": also where a write asks for it, and then nothing is written."""
    before = await node.state()
    answer = await node.send(method, f"{path}?inline={value}", None if method == "GET" else {})
    assert (answer.status, assert_problem(answer)["type"]) == (400, SPEC + error)
    assert await node.state() == before


async def pages_of(node: Node, path: str) -> tuple[list[list[str]], set[int]]:
    pages, counts = [], set()
    following: str | None = path
    while following is not None:
        answer = await node.send("GET", following)
        assert answer.status == 200
        pages.append([*answer.json])
        links = [NEXT.fullmatch(link) for link in answer.headers.getall("Link")]
        found = [link for link in links if link]
        following = found[0][1].removeprefix(node.url) if found else None
        counts |= {int(link[2]) for link in found}
        assert len(pages) < 100
    return pages, counts


@pytest.mark.parametrize(
    "path",
    [
        "/messagegroups",
        "/schemagroups",
        "/messagegroups/g1/messages",
        "/schemagroups/s/schemas",
        "/schemagroups/s/schemas/s~1/versions",
    ],
)
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 1000])
async def test_every_collection_is_paged_to_its_end(node: Node, path: str, limit: int) -> None:
    """pagination/spec.md; core/http.md, "Pagination"."""
    whole = await node.get(path)
    pages, counts = await pages_of(node, f"{path}?limit={limit}&inline=*")
    assert [id for page in pages for id in page] == [*whole]
    assert [*whole] == sorted(whole, key=str.lower)
    assert all(len(page) == limit for page in pages[:-1])
    assert len(pages) == max(1, -(-len(whole) // limit))
    assert counts <= {len(whole)}


@pytest.mark.parametrize("limit", ["0", "-1", "x", "", "1.5", "9" * 30, "%31%00"])
async def test_a_limit_is_a_number_above_zero(node: Node, limit: str) -> None:
    """pagination/spec.md, "limit"."""
    answer = await node.send("GET", f"/messagegroups?limit={limit}")
    assert assert_problem(answer)["type"] == f"{SPEC}bad_request"


async def test_the_server_limits_pages_by_itself(other_database_url: str) -> None:
    """core/http.md, "Pagination": the server may page where the client did not ask."""
    async with start_node(other_database_url, page_size=3) as node:
        await node.send("POST", "/messagegroups", {f"g{n}": {} for n in range(8)})
        pages, counts = await pages_of(node, "/messagegroups")
        assert [len(page) for page in pages] == [3, 3, 2]
        assert counts == {8}
        pages, _ = await pages_of(node, "/messagegroups?limit=1000")
        assert [len(page) for page in pages] == [3, 3, 2]


async def test_a_page_of_large_entities_ends_early_and_names_the_next(
    other_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions of 240 KB, and small cross references that show one of them each."""
    group, labels = "/messagegroups/g/messages", {f"k{n}": "x" * 4000 for n in range(60)}
    async with start_node(other_database_url) as node:
        for first in range(1, 41, 4):
            versions = {str(number): {"labels": labels} for number in range(first, first + 4)}
            answer = await node.send("POST", f"{group}/m/versions", versions)
            assert answer.status == 200, answer.body[:1000]
        references = {f"x{number}": {"meta": {"xref": f"{group}/m"}} for number in range(39)}
        await node.send("POST", group, references)
        for collection in (f"{group}/m/versions", f"{group}/x0/versions", group):
            for query in ("limit=40", "filter=labels.k1=x*", "sort=epoch"):
                pages, counts = await pages_of(node, f"{collection}?{query}")
                assert [len(page) for page in pages] == [35, 5], (collection, query)
                assert (counts, len({id for page in pages for id in page})) == ({40}, 40)
        assert len((await pages_of(node, f"{group}?inline=meta"))[0]) == 2
        assert (await node.send("GET", "/messagegroups/g?inline=messages.versions")).status == 200
        assert (await node.send("GET", f"{group}/m?inline=versions")).status == 200
        monkeypatch.setattr("catalog.reading.entities._MOST_BYTES_AT_ONCE", 2**20)
        refused = assert_problem(await node.send("GET", f"{group}/m?inline=versions"))
        assert refused["type"] == f"{SPEC}too_large"
        assert "page by page" in refused["detail"]


async def test_the_export_is_one_document_whose_urls_point_into_it(node: Node) -> None:
    """core/http.md, "GET /export"; core/spec.md, "Doc Flag"."""
    export = await node.get("/export")
    assert {"capabilities", "modelsource"} <= {*export}
    assert "model" not in export
    assert paths_of(export, NAMES) == BELOW
    found = 0

    def check(shown: Any) -> None:
        nonlocal found
        for name, value in shown.items():
            if isinstance(value, dict) and name not in ("modelsource", "schema"):
                check(value)
            elif name in ("self", "metaurl", "defaultversionurl") or (
                name.endswith("url") and name[:-3] in NAMES
            ):
                found += 1
                assert value.startswith("#"), (name, value)
                assert resolve(value) is not None

    def resolve(pointer: str) -> Any:
        value = export
        for step in pointer[1:].split("/")[1:]:
            if step:
                value = value[step.replace("~1", "/").replace("~0", "~")]
        return value

    check(export)
    assert found > 50
    message = export["messagegroups"]["g"]["messages"]["m"]
    assert not {"name", "versionid", "epoch", "isdefault"} & {*message}
    assert message["versions"]["2"]["self"] == "#/messagegroups/g/messages/m/versions/2"


async def test_what_one_registry_exports_another_takes(node: Node, other_database_url: str) -> None:
    """core/http.md, "GET /export" and "POST /": epochs aside, the entities are the same."""

    def plain(shown: Any) -> Any:
        if isinstance(shown, dict):
            return {name: plain(value) for name, value in shown.items() if name != "epoch"}
        return shown

    export = await node.get("/export")
    groups = {name: export[name] for name in ("messagegroups", "schemagroups", "endpoints")}
    async with start_node(other_database_url) as other:
        answer = await other.send("POST", "/", groups)
        assert answer.status == 200, answer.body
        copy = await other.get("/export")
        assert {name: plain(copy[name]) for name in groups} == plain(groups)


async def test_the_export_is_read_only(node: Node) -> None:
    """core/http.md, "GET /export"."""
    for path in ("/export", "/model", "/capabilitiesoffered"):
        for method in ("PUT", "PATCH", "POST", "DELETE"):
            answer = await node.send(method, path, {})
            problem = assert_problem(answer)
            assert (answer.status, problem["type"]) == (405, f"{SPEC}action_not_supported")
            assert {"GET", "HEAD"} <= {*answer.headers["Allow"].split(", ")}


async def test_the_model_shows_what_the_standard_adds(node: Node) -> None:
    """core/http.md, "GET /model" and "GET /modelsource"."""
    model, source = await node.get("/model"), await node.get("/modelsource")
    assert {*model["groups"]} == {*source["groups"]}
    versions = model["groups"]["schemagroups"]["resources"]["schemas"]["attributes"]
    assert {"versionid", "epoch", "schemaurl", "schema", "schemabase64"} <= {*versions}
    assert "epoch" not in source["groups"]["schemagroups"]["resources"]["schemas"]["attributes"]


async def test_capabilities_name_what_is_there(node: Node) -> None:
    """core/http.md, "GET /capabilities"."""
    capabilities = await node.get("/capabilities")
    assert capabilities["specversions"] == ["1.0-rc4"]
    assert capabilities["pagination"] is True
    assert {"epoch", "inline"} <= {*capabilities["flags"]}


EVERY_PATH = {
    "/": "GET, HEAD, PATCH, POST, PUT",
    "/messagegroups": "DELETE, GET, HEAD, PATCH, POST",
    "/messagegroups/g": "DELETE, GET, HEAD, PATCH, POST, PUT",
    "/messagegroups/g/messages": "DELETE, GET, HEAD, PATCH, POST",
    "/messagegroups/g/messages/m": "DELETE, GET, HEAD, PATCH, POST, PUT",
    "/messagegroups/g/messages/m/meta": "GET, HEAD, PATCH, PUT",
    "/messagegroups/g/messages/m/versions": "DELETE, GET, HEAD, PATCH, POST",
    "/messagegroups/g/messages/m/versions/1": "DELETE, GET, HEAD, PATCH, PUT",
}


@pytest.mark.parametrize("path", EVERY_PATH)
async def test_a_method_that_a_path_lacks_is_answered_with_those_it_has(
    node: Node, path: str
) -> None:
    """core/spec.md, "action_not_supported"; RFC 9110, 15.5.6."""
    allowed = EVERY_PATH[path].split(", ")
    for method in {"PUT", "POST", "DELETE", "TRACE", "PROPFIND"} - {*allowed}:
        answer = await node.request(method, path)
        problem = assert_problem(answer)
        assert answer.status == 405, method
        assert problem["type"] == f"{SPEC}action_not_supported"
        assert problem["args"] == {"action": method}
        assert {*allowed} <= {*answer.headers["Allow"].split(", ")}


@pytest.mark.parametrize("path", [*EVERY_PATH, "/model", "/export", "/schemagroups/s/schemas/bin"])
async def test_head_is_get_without_the_body(node: Node, path: str) -> None:
    """RFC 9110, 9.3.2."""
    get, head = await node.send("GET", path), await node.send("HEAD", path)
    assert (head.status, head.body) == (200, b"")
    ignored = {"Date", "X-Request-ID"}
    assert {k: v for k, v in head.headers.items() if k not in ignored} == {
        k: v for k, v in get.headers.items() if k not in ignored
    }


@pytest.mark.parametrize(
    "path", [*EVERY_PATH, "/nowhere", "/messagegroups/x", "/messagegroups/$", "/a/b/c/d/e/f/g/h"]
)
async def test_every_response_names_the_root(node: Node, path: str) -> None:
    """core/http.md, "xRegistry Root HTTP Header"."""
    answer = await node.send("GET", path)
    assert f"<{node.url}>;rel=xregistry-root" in answer.headers.getall("Link")


@pytest.mark.parametrize(
    ("path", "status", "error", "subject", "args"),
    [
        ("/nowhere", 400, f"{SPEC}unknown_group_type", "", {"name": "nowhere"}),
        ("/nowhere/x/y/z", 400, f"{SPEC}unknown_group_type", "", {"name": "nowhere"}),
        ("/MessageGroups", 400, f"{SPEC}unknown_group_type", "", {"name": "MessageGroups"}),
        (
            "/messagegroups/g/nowhere",
            400,
            f"{SPEC}unknown_resource_type",
            "",
            {"group": "messagegroups", "name": "nowhere"},
        ),
        ("/messagegroups/x", 404, f"{SPEC}not_found", "", None),
        ("/messagegroups/G", 404, f"{SPEC}not_found", "", None),
        ("/messagegroups/x/messages", 404, f"{SPEC}not_found", "/messagegroups/x", None),
        ("/messagegroups/g/messages/x", 404, f"{SPEC}not_found", "", None),
        (
            "/messagegroups/g/messages/x/meta",
            404,
            f"{SPEC}not_found",
            "/messagegroups/g/messages/x",
            None,
        ),
        (
            "/messagegroups/g/messages/x/versions",
            404,
            f"{SPEC}not_found",
            "/messagegroups/g/messages/x",
            None,
        ),
        ("/messagegroups/g/messages/m/versions/9", 404, f"{SPEC}not_found", "", None),
        ("/messagegroups/g/messages/m/nowhere", 404, f"{HTTP}api_not_found", "", None),
        ("/messagegroups/g/messages/m/versions/1/x", 404, f"{HTTP}api_not_found", "", None),
        ("/messagegroups/g/messages/m/meta/x", 404, f"{HTTP}api_not_found", "", None),
    ],
)
async def test_what_is_not_there_is_said_to_be_missing(
    node: Node, path: str, status: int, error: str, subject: str, args: Any
) -> None:
    """core/spec.md, "not_found", "unknown_group_type" and "unknown_resource_type"."""
    answer = await node.send("GET", path)
    problem = assert_problem(answer)
    assert (answer.status, problem["type"]) == (status, error)
    assert problem["subject"] == (subject or path)
    assert problem.get("args") == args
