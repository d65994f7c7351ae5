"""What could not be checked is checked once it can be: when capabilities or the model change."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.model.entity import Entity
from catalog.model.timestamps import parse_time
from replication.applying.apply import Batch, apply_batch
from replication.deciding.provenance import Policy
from tests.integration.conftest import SPEC, Node, assert_problem, fresh_node

CHECKED = {"validateformat": True, "validatecompatibility": True}
TYPES: dict[str, Any] = {
    "schemas": {"singular": "schema", **CHECKED},
    "words": {"singular": "word"},
}
SCHEMA = "/dirs/d/schemas/s"
AVRO = "Avro/1.12"
BACKWARD = {"meta": {"compatibility": "backward"}}
NOTHING: dict[str, Any] = {"formats": [], "compatibilities": {}}
EVERYTHING: dict[str, Any] = {"formats": ["*"], "compatibilities": None}


def source(**more: Any) -> dict[str, Any]:
    schemas = {**TYPES["schemas"], **more}
    return {"groups": {"dirs": {"singular": "dir", "resources": {**TYPES, "schemas": schemas}}}}


node = fresh_node(modelsource=source())


@pytest.fixture
async def rules(node: Node) -> Any:
    """Every compatibility rule that the node offers."""
    return (await node.get("/capabilities"))["compatibilities"]


def record(*fields: str, defaults: bool = True) -> dict[str, Any]:
    default = {"default": ""} if defaults else {}
    shown = [{"name": name, "type": "string", **default} for name in fields]
    return {"type": "record", "name": "r", "fields": shown}


def version(document: Any, **more: Any) -> dict[str, Any]:
    return {"format": AVRO, "schema": document, **more}


async def enable(node: Node, **capabilities: Any) -> None:
    answer = await node.send("PATCH", "/capabilities", capabilities)
    assert answer.status == 200, answer.body


async def verdicts(node: Node, vid: str = "1") -> tuple[Any, Any]:
    shown = await node.get(f"{SCHEMA}/versions/{vid}$details")
    for name in ("format", "compatibility"):
        told = shown.get(f"{name}validatedreason")
        assert (told is not None) is (shown.get(f"{name}validated") is False)
    return shown.get("formatvalidated"), shown.get("compatibilityvalidated")


async def test_a_format_that_is_turned_on_is_checked_where_it_was_not(
    node: Node, rules: Any
) -> None:
    """core/model.md, "validateformat": every version adheres to its format, as far as that
    can be told."""
    await enable(node, **NOTHING)
    await node.put(f"{SCHEMA}/versions/1$details", version(record("a")))
    await node.put(f"{SCHEMA}/versions/2$details", version(record("a", "b")))
    await node.send("PATCH", f"{SCHEMA}/meta", BACKWARD["meta"])
    assert [await verdicts(node, vid) for vid in "12"] == [(False, False)] * 2
    before = await node.get(f"{SCHEMA}/versions/2$details")
    logged = await node.logged()
    await enable(node, formats=["*"])
    assert [await verdicts(node, vid) for vid in "12"] == [(True, False)] * 2
    after = await node.get(f"{SCHEMA}/versions/2$details")
    assert after["epoch"] == before["epoch"] + 1
    assert after["modifiedat"] == before["modifiedat"]
    told = {one.change.xid: one.change.changed for one in (await node.changes())[logged:]}
    assert "formatvalidated" in told[f"{SCHEMA}/versions/2"]
    await enable(node, compatibilities=rules)
    assert [await verdicts(node, vid) for vid in "12"] == [(True, True)] * 2


async def test_what_was_checked_stays_so_when_its_format_is_turned_off(node: Node) -> None:
    """core/spec.md, "formatvalidated Attribute": it says whether the server has checked."""
    await node.put(f"{SCHEMA}/versions/1$details", version(record("a"), meta=None))
    await node.send("PATCH", f"{SCHEMA}/meta", BACKWARD["meta"])
    before = await node.get(f"{SCHEMA}/versions/1$details")
    await enable(node, **NOTHING)
    assert await node.get(f"{SCHEMA}/versions/1$details") == before
    await enable(node, formats=["*"])
    assert await node.get(f"{SCHEMA}/versions/1$details") == before


@pytest.mark.parametrize(
    ("second", "error"),
    [({"type": 5}, "format_violation"), (record("b", defaults=False), "compatibility_violation")],
)
async def test_capabilities_that_would_show_a_violation_are_refused(
    node: Node, rules: Any, second: Any, error: str
) -> None:
    """core/model.md: a document that breaks its format or rule is an error, never a `false`."""
    await enable(node, **NOTHING)
    await node.put(f"{SCHEMA}/versions/1$details", version(record("a")))
    await node.put(f"{SCHEMA}/versions/2$details", version(second))
    await node.send("PATCH", f"{SCHEMA}/meta", BACKWARD["meta"])
    before = await node.state(), await node.get("/capabilities")
    wanted = {"formats": ["*"], "compatibilities": rules}
    problem = assert_problem(await node.send("PATCH", "/capabilities", wanted))
    assert problem["type"] == f"{SPEC}capability_error"
    assert [each["type"] for each in problem["violations"]] == [f"{SPEC}{error}"]
    assert (await node.state(), await node.get("/capabilities")) == before


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"format": "Runes/1", "schema": {}}, "format_unknown"),
        ({"format": AVRO, "schemaurl": "http://example.com/x"}, "format_external"),
    ],
)
async def test_a_type_that_becomes_strict_has_nothing_that_could_not_be_checked(
    node: Node, more: Any, error: str
) -> None:
    """core/model.md, "strictvalidation"."""
    await node.put(f"{SCHEMA}/versions/1$details", more)
    assert await verdicts(node) == (False, None)
    before = await node.state()
    answer = await node.send("PUT", "/modelsource", source(strictvalidation=True))
    problem = assert_problem(answer)
    assert problem["type"] == f"{SPEC}model_compliance_error"
    assert [each["type"] for each in problem["violations"]] == [f"{SPEC}{error}"]
    assert await node.state() == before


async def test_what_another_authority_did_not_check_is_its_own_affair(node: Node) -> None:
    await enable(node, **NOTHING)
    at = parse_time("2026-01-01T00:00:00Z")
    noted = {"formatvalidated": False, "formatvalidatedreason": "not here"}
    copies = [
        Entity(
            xid=xid,
            kind=kind,
            authority="urn:theirs",
            origin=xid,
            epoch=3,
            attributes=attributes,
            createdat=at,
            modifiedat=at,
        ).sealed()
        for xid, kind, attributes in (
            ("/dirs/d", "group", {}),
            (SCHEMA, "resource", {"defaultversionid": "1", "defaultversionsticky": False}),
            (f"{SCHEMA}/versions/1", "version", {"ancestorid": "1", "format": AVRO, **noted}),
        )
    ]
    policy = Policy(own=node.database.node.authority, sender="urn:theirs")
    await apply_batch(node.context, Batch(copies=copies, policy=policy))
    before = await node.get(f"{SCHEMA}/versions/1$details")
    await enable(node, formats=["*"])
    answer = await node.send("PUT", "/modelsource", source(strictvalidation=True))
    assert answer.status == 200, answer.body
    assert await node.get(f"{SCHEMA}/versions/1$details") == before
