"""Document view, the collections and binary flags, and cross references in every view."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
import pytest_asyncio

from tests.integration.conftest import SPEC, Node, assert_problem, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

FORMAT = "Text/1"
S1 = "/schemagroups/g/schemas/s1"
TARGET = "/schemagroups/g/schemas/target"
SOURCE = "/schemagroups/h/schemas/source"
LOST = "/schemagroups/h/schemas/lost"
CHAIN = "/schemagroups/h/schemas/chain"

SEED: dict[str, Any] = {
    "schemagroups": {
        "g": {
            "schemas": {
                "s1": {
                    "versions": {
                        "1": {"format": FORMAT, "name": "one", "schema": {"a": 1}},
                        "2.0~x": {"format": FORMAT, "name": "two", "schema": {"a": 2}},
                    },
                    "meta": {"labels": {"l": "v"}},
                },
                "target": {
                    "versions": {
                        "a": {"format": FORMAT, "name": "A", "schemabase64": "AAEC"},
                        "b": {"format": FORMAT, "name": "B", "schema": "text"},
                    },
                    "meta": {"defaultversionid": "a", "defaultversionsticky": True},
                },
            }
        },
        "h": {
            "schemas": {
                "source": {"meta": {"xref": TARGET}},
                "lost": {"meta": {"xref": "/schemagroups/g/schemas/nowhere"}},
                "chain": {"meta": {"xref": SOURCE}},
            }
        },
    },
    "messagegroups": {"g": {"messages": {"m": {"name": "m"}}}},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    """A node whose entities no test here changes."""
    async with start_node(shared_database_url) as running:
        answer = await running.send("POST", "/", SEED)
        assert answer.status == 200, answer.body
        yield running


def pointers_of(shown: Any) -> list[str]:
    """Every URL in an answer that the document view may make relative."""
    found: list[str] = []
    for name, value in shown.items():
        if isinstance(value, dict) and name not in ("schema", "modelsource", "capabilities"):
            found += pointers_of(value)
        elif name in ("self", "metaurl", "defaultversionurl") or (
            name.endswith("url") and f"{name[:-3]}count" in shown
        ):
            found.append(value)
    return found


def resolve(document: Any, pointer: str) -> Any:
    """RFC 6901; the root is written `#/` in core/spec.md, "Doc Flag"."""
    value = document
    for step in pointer.removeprefix("#").split("/")[1:]:
        if step:
            value = value[step.replace("~1", "/").replace("~0", "~")]
    return value


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("/", "#/schemagroups/g/schemas/s1"),
        ("/schemagroups", "#/g/schemas/s1"),
        ("/schemagroups/g", "#/schemas/s1"),
        ("/schemagroups/g/schemas", "#/s1"),
        (S1, "#/"),
        (f"{S1}$details", "#/"),
    ],
)
async def test_pointers_of_a_document_are_relative_to_the_answer(
    node: Node, path: str, own: str
) -> None:
    """core/spec.md, "Doc Flag": the table of `self` by path."""
    shown = await node.get(f"{path}?doc&inline=*")
    assert resolve(shown, own)["xid"] == S1
    assert resolve(shown, own)["self"] == own
    for pointer in pointers_of(shown):
        assert pointer.startswith("#/"), pointer
        assert resolve(shown, pointer) is not None
    version = resolve(shown, own)["versions"]["2.0~x"]
    assert version["self"] == f"{own.rstrip('/')}/versions/2.0~0x"


@pytest.mark.parametrize("inline", ["", "&inline=meta", "&inline=versions"])
async def test_what_a_document_does_not_include_has_an_absolute_url(
    node: Node, inline: str
) -> None:
    """core/spec.md, "Doc Flag"."""
    shown = await node.get(f"{S1}?doc{inline}")
    assert shown["self"] == "#/"
    assert shown["metaurl"] == ("#/meta" if "meta" in shown else f"{node.url}{S1}/meta")
    versions = "#/versions" if "versions" in shown else f"{node.url}{S1}/versions"
    assert shown["versionsurl"] == versions
    if "meta" in shown:
        default = f"{node.url}{S1}/versions/2.0~x$details"
        assert shown["meta"]["defaultversionurl"] == default


async def test_a_document_does_not_say_things_twice(node: Node) -> None:
    """core/spec.md, "Doc Flag": no attributes of the default version in the resource."""
    shown = await node.get(f"{S1}?doc&inline=*")
    assert {*shown} == {
        *("schemaid", "self", "xid", "metaurl", "meta", "versionsurl", "versionscount", "versions")
    }
    assert shown["versions"]["1"]["name"] == "one"
    assert shown["versions"]["1"]["schema"] == {"a": 1}
    assert shown["meta"]["labels"] == {"l": "v"}


async def test_documents_and_meta_entities_have_a_document_view_too(node: Node) -> None:
    """core/spec.md, "Doc Flag": metadata instead of the document, whatever the path."""
    version = await node.get(f"{S1}/versions/1?doc")
    assert (version["self"], version["name"], version["isdefault"]) == ("#/", "one", False)
    meta = await node.get(f"{S1}/meta?doc")
    assert meta["self"] == "#/"
    assert meta["defaultversionurl"] == f"{node.url}{S1}/versions/2.0~x$details"


async def test_what_was_validated_is_not_part_of_a_document(other_database_url: str) -> None:
    """core/spec.md, "Doc Flag": `formatvalidated`, `compatibilityvalidated`, their reasons."""
    kind = {"singular": "file", "validateformat": True}
    source = {"groups": {"dirs": {"singular": "dir", "resources": {"files": kind}}}}
    async with start_node(other_database_url, modelsource=source) as node:
        await node.put("/dirs/d/files/f$details", {"format": "unheard-of", "file": {}})
        shown = await node.get("/dirs/d/files/f$details")
        assert shown["formatvalidated"] is False
        assert shown["formatvalidatedreason"]
        for path in ("/dirs/d/files/f/versions/1", "/dirs/d/files/f/versions"):
            document = await node.get(f"{path}?doc")
            version = document.get("1", document)
            assert version["format"] == "unheard-of"
            assert not [name for name in version if "validated" in name]


async def test_the_export_is_the_document_view_of_everything(node: Node) -> None:
    """core/http.md, "GET /export"."""
    export = await node.get("/export")
    assert export == await node.get("/?doc&inline=*,capabilities,modelsource")
    narrow = await node.get("/export?inline=messagegroups")
    assert narrow == await node.get("/?doc&inline=messagegroups")


@pytest.mark.parametrize("path", ["/", "/schemagroups/g"])
async def test_the_collections_flag_leaves_out_the_owner(node: Node, path: str) -> None:
    """core/spec.md, "Collections Flag": only the maps, with everything inlined."""
    whole = await node.get(f"{path}?inline=*")
    shown = await node.get(f"{path}?collections")
    assert shown == {name: value for name, value in whole.items() if f"{name}url" in whole}
    document = await node.get(f"{path}?collections&doc")
    assert all(resolve(document, pointer) for pointer in pointers_of(document))


async def test_what_a_cross_reference_shows_is_only_taken_as_it_is(
    node: Node, other_database_url: str
) -> None:
    """core/spec.md, "Cross Referencing Resources"."""
    shown = await node.get("/?collections")
    shown["schemagroups"]["h"]["schemas"]["source"]["versions"]["b"]["name"] = "another"
    async with start_node(other_database_url) as other:
        answer = await other.send("POST", "/", shown)
        assert (answer.status, answer.error) == (400, "extra_xref_attribute")
        alone = {"schemagroups": {"h": shown["schemagroups"]["h"]}}
        answer = await other.send("POST", "/", alone)
        assert (answer.status, answer.error) == (400, "extra_xref_attribute")


@pytest.mark.parametrize(
    "path",
    ["/schemagroups", "/schemagroups/g/schemas", S1, f"{S1}/meta", f"{S1}/versions/1"],
)
async def test_only_registries_and_groups_have_a_collections_flag(node: Node, path: str) -> None:
    answer = await node.send("GET", f"{path}?collections")
    problem = assert_problem(answer)
    assert (answer.status, problem["type"]) == (400, f"{SPEC}bad_flag")
    assert problem["args"] == {"flag": "collections"}


async def test_binary_documents_keep_their_bytes(node: Node) -> None:
    """core/spec.md, "Binary Flag": how documents are shown, not whether."""
    plain = await node.get(f"{S1}$details?inline=schema")
    assert plain["schema"] == {"a": 2}
    binary = await node.get(f"{S1}$details?inline=schema&binary")
    assert binary["schemabase64"] == "eyJhIjoyfQ=="
    assert "schema" not in binary
    assert not {"schema", "schemabase64"} & {*await node.get(f"{S1}$details?binary")}
    everything = await node.get("/?inline=*&binary")
    versions = everything["schemagroups"]["g"]["schemas"]["s1"]["versions"]
    assert versions["1"]["schemabase64"] == "eyJhIjoxfQ=="


def as_source(shown: Any) -> Any:
    """What is shown of the target, as if it were the source's own."""
    text = orjson.dumps(shown).replace(TARGET.encode(), SOURCE.encode())
    return orjson.loads(text.replace(b'"schemaid":"target"', b'"schemaid":"source"'))


async def test_a_cross_reference_looks_like_its_target(node: Node) -> None:
    """core/spec.md, "Cross Referencing Resources"."""
    source = await node.get(f"{SOURCE}$details?inline=*")
    assert source["meta"].pop("xref") == TARGET
    assert source == as_source(await node.get(f"{TARGET}$details?inline=*"))
    assert source["versionid"] == "a"
    assert source["schemabase64"] == "AAEC"
    assert {*source["versions"]} == {"a", "b"}


@pytest.mark.parametrize("path", ["$details", "/meta", "/versions/b$details", "/versions"])
async def test_whatever_is_below_a_cross_reference_is_its_targets(node: Node, path: str) -> None:
    source = await node.get(SOURCE + path)
    if path == "/meta":
        assert source.pop("xref") == TARGET
    assert source == as_source(await node.get(TARGET + path))


@pytest.mark.parametrize("path", ["", "/versions/a", "/versions/b"])
async def test_a_cross_references_document_is_its_targets(node: Node, path: str) -> None:
    source = await node.send("GET", SOURCE + path)
    target = await node.send("GET", TARGET + path)
    assert (source.status, source.body) == (200, target.body)
    assert source.headers["xRegistry-xid"] == SOURCE + path
    assert source.headers["xRegistry-schemaid"] == "source"
    assert source.headers["Content-Disposition"] == "source"


@pytest.mark.parametrize(
    "path", ["/", "/schemagroups", "/schemagroups/h", "/schemagroups/h/schemas"]
)
async def test_cross_references_look_the_same_wherever_they_are_inlined(
    node: Node, path: str
) -> None:
    shown = await node.get(f"{path}?inline=*")
    for name in SOURCE.removeprefix(path).strip("/").split("/"):
        shown = shown[name]
    assert shown == await node.get(f"{SOURCE}$details?inline=*")
    flat = await node.get("/schemagroups/h/schemas")
    assert flat["source"] == await node.get(f"{SOURCE}$details")


@pytest.mark.parametrize("xid", [LOST, CHAIN])
async def test_a_cross_reference_that_leads_nowhere_shows_where_it_would(
    node: Node, xid: str
) -> None:
    """core/spec.md, "Cross Referencing Resources": also where the target is one itself."""
    shown = await node.get(f"{xid}$details?inline=*")
    assert {*shown} == {"schemaid", "self", "xid", "metaurl", "meta"}
    assert {*shown["meta"]} == {"schemaid", "self", "xid", "xref"}
    assert shown["meta"] == await node.get(f"{xid}/meta")
    assert await node.get(f"{xid}/versions") == {}
    for path in (xid, f"{xid}/versions/a"):
        assert (await node.send("GET", path)).status == 404


async def test_a_document_has_cross_references_without_their_targets(node: Node) -> None:
    """core/spec.md, "Doc Flag"."""
    shown = await node.get("/schemagroups/h?doc&inline=*")
    for id, xref in (("source", TARGET), ("chain", SOURCE)):
        assert shown["schemas"][id] == {
            "schemaid": id,
            "self": f"#/schemas/{id}",
            "xid": f"/schemagroups/h/schemas/{id}",
            "metaurl": f"#/schemas/{id}/meta",
            "meta": {
                "schemaid": id,
                "self": f"#/schemas/{id}/meta",
                "xid": f"/schemagroups/h/schemas/{id}/meta",
                "xref": xref,
            },
        }


@pytest.mark.parametrize(
    "path", ["/versions", "/versions/a", "/versions/a$details", "/versions?inline", "/versions/no"]
)
async def test_versions_of_cross_references_are_no_part_of_documents(node: Node, path: str) -> None:
    """core/spec.md, "Doc Flag"."""
    answer = await node.send("GET", SOURCE + path + ("&doc" if "?" in path else "?doc"))
    problem = assert_problem(answer)
    assert (answer.status, problem["type"]) == (400, f"{SPEC}cannot_doc_xref")
    assert problem["subject"] == SOURCE


async def test_writes_answer_in_the_views_that_reads_have(other_database_url: str) -> None:
    """core/spec.md, "Request Flags": the shape of an answer is not the reads' alone."""
    async with start_node(other_database_url) as node:
        answer = await node.send("POST", "/?doc&inline=*", SEED)
        assert answer.status == 200, answer.body
        everything = await node.get("/?collections&doc")
        assert answer.json == {name: everything[name] for name in SEED}
        answer = await node.send("PATCH", f"{S1}$details?binary&inline=schema", {"name": "new"})
        assert answer.json == await node.get(f"{S1}$details?binary&inline=schema")
        answer = await node.send("PATCH", f"{S1}$details?doc&inline", {"name": "newer"})
        assert answer.json == await node.get(f"{S1}$details?doc&inline")
        answer = await node.send("PATCH", "/schemagroups/g?collections", {"name": "g"})
        assert answer.json == await node.get("/schemagroups/g?collections")
        patch = {"g": {"description": "x"}}
        answer = await node.send("PATCH", "/schemagroups?doc&inline", patch)
        assert answer.json == {"g": (await node.get("/schemagroups?doc&inline"))["g"]}
        meta = {"xref": "/schemagroups/g/schemas/s1"}
        answer = await node.send("PUT", f"{SOURCE}/meta", meta)
        assert answer.json == await node.get(f"{SOURCE}/meta")
        answer = await node.send("PATCH", f"{SOURCE}$details?inline", {"meta": meta})
        assert answer.json == await node.get(f"{SOURCE}$details?inline")
