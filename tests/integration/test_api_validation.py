"""Formats and compatibility: what is checked, what comes of it, and what is left alone."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from catalog.formats.checker import Budget, Check, Key
from tests.integration.conftest import SPEC, Node, assert_problem, fresh_node, start_node

CHECKED = {"validateformat": True, "validatecompatibility": True}
TYPES: dict[str, Any] = {
    "schemas": {"singular": "schema", **CHECKED},
    "laws": {"singular": "law", **CHECKED, "strictvalidation": True},
    "forms": {"singular": "form", "validateformat": True},
    "words": {"singular": "word"},
    "cards": {"singular": "card", "hasdocument": False, "validateformat": True},
    "series": {
        "singular": "part",
        **CHECKED,
        "versionmode": "createdat",
        "singleversionroot": True,
    },
}
SOURCE = {"groups": {"dirs": {"singular": "dir", "resources": TYPES}}}
SCHEMA = "/dirs/d/schemas/s"
LAW = "/dirs/d/laws/l"
AVRO = "Avro/1.12"

node = fresh_node(modelsource=SOURCE)


def record(*fields: str, defaults: bool = True) -> dict[str, Any]:
    default = {"default": ""} if defaults else {}
    return {
        "type": "record",
        "name": "r",
        "fields": [{"name": name, "type": "string", **default} for name in fields],
    }


def version(document: Any, singular: str = "schema", format: str = AVRO, **more: Any) -> Any:
    return {"format": format, singular: document, **more}


def verdicts(shown: dict[str, Any]) -> tuple[Any, Any]:
    return shown.get("formatvalidated"), shown.get("compatibilityvalidated")


class Spy:
    """Notes which checks are run; finds that what contains `bad` is not valid."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self._known: dict[Key, str] = {}

    def remembered(self, key: Key) -> str | None:
        return self._known.get(key)

    async def run(
        self, checks: Iterable[Check], budget: Budget, *, client: str = ""
    ) -> dict[Key, str]:
        found = {check.key: self._answer(check) for check in checks}
        self._known |= found
        return found

    def _answer(self, check: Check) -> str:
        contents = [document.content for document in check.documents]
        texts = (content.decode() for content in contents)
        self.asked.append((check.direction or "validate", *texts))
        if check.direction:
            return "it breaks" if b"breaking" in contents[1] else ""
        return "it is bad" if b"bad" in contents[0] else ""

    def taken(self) -> list[tuple[str, ...]]:
        asked, self.asked = sorted(self.asked), []
        return asked


@pytest.fixture
def spy(node: Node, monkeypatch: pytest.MonkeyPatch) -> Spy:
    spy = Spy()
    monkeypatch.setattr(node.context.checked_requests, "checker", spy)
    return spy


async def text(node: Node, path: str, body: str, **attributes: Any) -> Any:
    """Put a version with this text as its document."""
    encoded = base64.b64encode(body.encode()).decode()
    answer = await node.send(
        "PUT", f"{path}$details", {"format": AVRO, "schemabase64": encoded, **attributes}
    )
    return answer


async def test_a_document_that_follows_its_format_is_said_to(node: Node) -> None:
    """core/spec.md, "formatvalidated Attribute"."""
    shown = await node.put(f"{SCHEMA}$details", version(record("a")))
    assert verdicts(shown) == (True, None)
    assert "formatvalidatedreason" not in shown
    answer = await node.send("GET", SCHEMA)
    assert answer.headers["xRegistry-formatvalidated"] == "true"


@pytest.mark.parametrize("path", [SCHEMA, LAW])
async def test_a_document_that_does_not_follow_its_format_is_refused(node: Node, path: str) -> None:
    """core/spec.md, "format_violation": whether validation is strict or not."""
    singular = "schema" if path == SCHEMA else "law"
    await node.put(f"{path}$details", version(record("a"), singular))
    before = await node.state()
    answer = await node.send("PUT", f"{path}/versions/2$details", version({"type": 5}, singular))
    problem = assert_problem(answer)
    assert problem["type"] == f"{SPEC}format_violation"
    assert problem["subject"] == f"{path}/versions/2"
    assert problem["args"] == {"format": AVRO}
    assert problem["detail"]
    headers = {"xRegistry-format": AVRO, "Content-Type": "application/json"}
    answer = await node.request("PUT", path, body=b"no schema", headers=headers)
    assert assert_problem(answer)["type"] == f"{SPEC}format_violation"
    assert await node.state() == before


async def test_a_version_without_a_format_is_not_checked(node: Node) -> None:
    """core/spec.md, "formatvalidated Attribute": it is absent then, and goes with the format."""
    shown = await node.put(f"{SCHEMA}$details", {"schema": {"type": 5}})
    assert verdicts(shown) == (None, None)
    await node.put(f"{SCHEMA}$details", version(record("a")))
    shown = await node.put(f"{SCHEMA}$details", {"schema": {"type": 5}})
    assert verdicts(shown) == (None, None)
    shown = (await node.send("PATCH", f"{LAW}$details", {"law": "x", "meta": {}})).json
    assert verdicts(shown) == (None, None)


@pytest.mark.parametrize(
    ("attributes", "error", "args"),
    [
        ({"format": "Runes/1"}, "format_unknown", {"format": "Runes/1"}),
        ({"format": AVRO, "{}url": "http://example.com/x"}, "format_external", None),
    ],
)
async def test_what_cannot_be_checked_is_noted_or_refused_where_validation_is_strict(
    node: Node, attributes: dict[str, str], error: str, args: Any
) -> None:
    """core/spec.md, "formatvalidated Attribute"; core/model.md, "strictvalidation"."""
    lax = {name.format("schema"): value for name, value in attributes.items()}
    shown = await node.put(f"{SCHEMA}$details", lax)
    assert verdicts(shown) == (False, None)
    assert shown["formatvalidatedreason"]
    strict = {name.format("law"): value for name, value in attributes.items()}
    answer = await node.send("PUT", f"{LAW}$details", strict)
    problem = assert_problem(answer)
    assert problem["type"] == SPEC + error
    assert problem["subject"] == f"{LAW}/versions/1"
    assert problem.get("args") == args
    mended = await node.put(f"{SCHEMA}$details", version(record("a")))
    assert verdicts(mended) == (True, None)
    assert "formatvalidatedreason" not in mended


async def test_only_the_types_that_ask_for_it_are_checked(node: Node) -> None:
    """core/model.md, "validateformat" and "validatecompatibility"."""
    meta = {"compatibility": "backward"}
    words = await node.put("/dirs/d/words/w$details", {"format": AVRO, "word": 5, "meta": meta})
    assert verdicts(words) == (None, None)
    body = {"format": AVRO, "form": "string", "meta": meta}
    form = await node.put("/dirs/d/forms/f$details", body)
    assert verdicts(form) == (True, None)


async def test_no_document_is_an_empty_one(node: Node, spy: Spy) -> None:
    """core/model.md, "validateformat": three variants of the same."""
    shown = await node.put("/dirs/d/cards/c", {"format": AVRO})
    assert verdicts(shown) == (True, None)
    shown = await node.put("/dirs/d/forms/f$details", {"format": AVRO})
    assert verdicts(shown) == (True, None)
    headers = {"xRegistry-format": AVRO}
    answer = await node.request("PUT", "/dirs/d/forms/g", body=b"", headers=headers)
    assert answer.headers["xRegistry-formatvalidated"] == "true"
    assert spy.taken() == [("validate", "")]


async def test_clients_cannot_say_what_is_valid(node: Node) -> None:
    """core/spec.md, "formatvalidated Attribute": read-only."""
    lies = {
        "formatvalidated": True,
        "formatvalidatedreason": "so",
        "compatibilityvalidated": True,
        "compatibilityvalidatedreason": "so",
    }
    shown = await node.put(f"{SCHEMA}$details", {"format": "Runes/1", **lies})
    assert verdicts(shown) == (False, None)
    assert shown["formatvalidatedreason"] != "so"
    shown = await node.put("/dirs/d/words/w$details", {"word": "x", **lies})
    assert verdicts(shown) == (None, None)


async def test_a_version_is_compared_with_its_ancestor(node: Node) -> None:
    """core/spec.md, "compatibility Attribute": backward."""
    body = version(record("a"), meta={"compatibility": "backward"})
    assert verdicts(await node.put(f"{SCHEMA}$details", body)) == (True, True)
    shown = await node.put(f"{SCHEMA}/versions/2$details", version(record("a", "b")))
    assert verdicts(shown) == (True, True)
    before = await node.state()
    new = version(record("a", "b", "c", defaults=False))
    answer = await node.send("PUT", f"{SCHEMA}/versions/3$details", new)
    problem = assert_problem(answer)
    assert problem["type"] == f"{SPEC}compatibility_violation"
    assert problem["subject"] == SCHEMA
    assert problem["args"] == {"compat": "backward"}
    assert "3" in problem["detail"]
    assert "2" in problem["detail"]
    assert await node.state() == before
    new["ancestorid"] = "3"
    answer = await node.send("PUT", f"{SCHEMA}/versions/3$details", new)
    assert answer.status == 201, "a root is compared with nothing"


@pytest.mark.parametrize(
    ("rule", "pairs"),
    [
        ("backward", [("backward", "2", "3")]),
        ("BackWard", [("backward", "2", "3")]),
        ("forward", [("forward", "2", "3")]),
        ("full", [("backward", "2", "3"), ("forward", "2", "3")]),
        ("backward_transitive", [("backward", "1", "3"), ("backward", "2", "3")]),
        ("forward_transitive", [("forward", "1", "3"), ("forward", "2", "3")]),
        (
            "full_transitive",
            [
                ("backward", "1", "3"),
                ("backward", "2", "3"),
                ("forward", "1", "3"),
                ("forward", "2", "3"),
            ],
        ),
    ],
)
async def test_each_rule_says_which_versions_are_compared(
    node: Node, spy: Spy, rule: str, pairs: list[tuple[str, str, str]]
) -> None:
    """core/spec.md, "compatibility Attribute"."""
    for vid in "12":
        await text(node, f"{SCHEMA}/versions/{vid}", vid)
    answer = await node.send("PATCH", f"{SCHEMA}/meta", {"compatibility": rule})
    assert answer.status == 200, answer.body
    spy.taken()
    answer = await text(node, f"{SCHEMA}/versions/3", "3")
    assert answer.status == 201
    assert verdicts(answer.json) == (True, True)
    assert spy.taken() == [*pairs, ("validate", "3")]


async def test_only_what_changed_is_checked_anew(node: Node, spy: Spy) -> None:
    """core/spec.md, "Resource Processing Algorithm", steps 6 and 9."""
    for vid in "1234":
        await text(node, f"{SCHEMA}/versions/{vid}", vid)
    await node.send("PATCH", f"{SCHEMA}/meta", {"compatibility": "backward_transitive"})
    assert len(spy.taken()) == 4 + 6
    await node.send("PATCH", f"{SCHEMA}/versions/2$details", {"name": "n"})
    await node.send("PATCH", f"{SCHEMA}/meta", {"labels": {"a": "b"}})
    await node.put("/dirs/d", {"name": "n"})
    await text(node, f"{SCHEMA}/versions/2", "2", name="m")
    assert spy.taken() == [], "no document changed"
    await text(node, f"{SCHEMA}/versions/2", "two", ancestorid="1")
    assert spy.taken() == [
        ("backward", "1", "two"),
        ("backward", "two", "3"),
        ("backward", "two", "4"),
        ("validate", "two"),
    ]
    await node.send("PATCH", f"{SCHEMA}/versions/4$details", {"ancestorid": "2"})
    assert spy.taken() == [], "it was compared with all of these"
    await node.send("PATCH", f"{SCHEMA}/versions/3$details", {"ancestorid": "4"})
    assert spy.taken() == [("backward", "4", "3")]


async def test_a_new_rule_holds_for_all_versions(node: Node) -> None:
    """core/spec.md, "compatibility Attribute"."""
    await node.put(f"{SCHEMA}/versions/1$details", version(record("a")))
    await node.put(f"{SCHEMA}/versions/2$details", version(record("b", defaults=False)))
    before = await node.state()
    answer = await node.send("PATCH", f"{SCHEMA}/meta", {"compatibility": "backward"})
    assert assert_problem(answer)["type"] == f"{SPEC}compatibility_violation"
    assert await node.state() == before
    await node.send("PATCH", f"{SCHEMA}/meta", {"compatibility": "forward"})
    versions = await node.get(f"{SCHEMA}/versions")
    assert [verdicts(shown) for shown in versions.values()] == [(True, True)] * 2
    await node.send("PATCH", f"{SCHEMA}/meta", {"compatibility": None})
    versions = await node.get(f"{SCHEMA}/versions")
    assert [verdicts(shown) for shown in versions.values()] == [(True, None)] * 2


@pytest.mark.usefixtures("spy")
async def test_what_cannot_be_compared_is_noted_or_refused(node: Node) -> None:
    """core/spec.md, "compatibilityvalidated Attribute" and "compatibility_unknown"."""
    meta = {"compatibility": "backward"}
    body = version({}, format="XSD/1.0", meta=meta)
    shown = await node.put(f"{SCHEMA}$details", body)
    assert verdicts(shown) == (True, False)
    assert shown["compatibilityvalidatedreason"]
    body["law"] = body.pop("schema")
    problem = assert_problem(await node.send("PUT", f"{LAW}$details", body))
    assert problem["type"] == f"{SPEC}compatibility_unknown"
    assert problem["subject"] == LAW
    assert problem["args"] == {"compat": "backward", "format": "XSD/1.0"}
    other = "/dirs/d/schemas/other"
    shown = await node.put(f"{other}$details", {"format": "Runes/1", "meta": meta})
    assert verdicts(shown) == (False, False)
    shown = await node.put(f"{other}/versions/2$details", version(record("a")))
    assert verdicts(shown) == (True, False), "its ancestor was not checked"
    await node.put(f"{other}/versions/1$details", version(record("a")))
    shown = await node.get(f"{other}/versions/2$details")
    assert verdicts(shown) == (True, True)
    assert "compatibilityvalidatedreason" not in shown


async def test_versions_of_different_formats_are_not_compatible(node: Node) -> None:
    """core/spec.md, "format Attribute"."""
    await node.put(f"{SCHEMA}$details", version(record("a"), meta={"compatibility": "backward"}))
    new = version({"type": "object"}, format="JsonSchema/draft-07")
    answer = await node.send("PUT", f"{SCHEMA}/versions/2$details", new)
    assert assert_problem(answer)["type"] == f"{SPEC}compatibility_violation"


async def test_versions_without_a_format_are_no_one_to_compare_with(node: Node, spy: Spy) -> None:
    """core/model.md, "validatecompatibility"."""
    meta = {"compatibility": "backward"}
    await node.put(f"{SCHEMA}/versions/1$details", {"schema": 1})
    await node.send("PATCH", f"{SCHEMA}/meta", meta)
    assert verdicts((await text(node, f"{SCHEMA}/versions/2", "2")).json) == (True, True)
    assert spy.taken() == [("validate", "2")]
    assert verdicts(await node.get(f"{SCHEMA}/versions/1$details")) == (None, None)


async def test_capabilities_say_what_is_checked(node: Node, spy: Spy) -> None:
    """core/spec.md, "formats Capability" and "compatibilities Capability"."""
    configuration = node.context.configuration
    able = replace(
        configuration.capabilities, formats=("avro/*",), compatibilities={"avro/*": ("full",)}
    )
    node.context.shared.configuration = replace(configuration, capabilities=able)
    answer = await text(node, SCHEMA, "1", meta={"compatibility": "full"})
    assert verdicts(answer.json) == (True, True)
    answer = await text(node, "/dirs/d/schemas/t", "1", meta={"compatibility": "backward"})
    assert verdicts(answer.json) == (True, False)
    answer = await text(node, "/dirs/d/schemas/u", "1", format="JsonSchema/draft-07")
    assert verdicts(answer.json) == (False, None)


async def test_an_order_that_changes_is_checked_along_the_new_line(node: Node, spy: Spy) -> None:
    """core/spec.md, "compatibility Attribute": `ancestorid` is the lineage."""
    part = "/dirs/d/series/p"
    for vid, year in (("1", 2001), ("2", 2002), ("3", 2003)):
        encoded = base64.b64encode(vid.encode()).decode()
        body = {"format": AVRO, "partbase64": encoded, "createdat": f"{year}-01-01T00:00:00Z"}
        await node.put(f"{part}/versions/{vid}$details", body)
    await node.send("PATCH", f"{part}/meta", {"compatibility": "backward"})
    spy.taken()
    moved = {"createdat": "2009-01-01T00:00:00Z"}
    await node.send("PATCH", f"{part}/versions/1$details", moved)
    assert spy.taken() == [("backward", "3", "1")]


async def test_every_violation_of_a_request_is_told(node: Node, spy: Spy) -> None:
    """core/spec.md, "Error Processing"."""
    bad = base64.b64encode(b"bad").decode()
    body = {vid: {"format": AVRO, "schemabase64": bad} for vid in "123"}
    answer = await node.send("POST", f"{SCHEMA}/versions", body)
    problem = assert_problem(answer)
    assert {each["subject"] for each in problem["violations"]} == {
        f"{SCHEMA}/versions/{vid}" for vid in "123"
    }


async def test_the_schemas_of_the_default_model_are_checked(database_url: str) -> None:
    """schema/spec.md, "validateformat" and "validatecompatibility"."""
    async with start_node(database_url) as node:
        path = "/schemagroups/g/schemas/s"
        body = version(record("a"), meta={"compatibility": "backward"})
        assert verdicts(await node.put(f"{path}$details", body)) == (True, True)
        body = version({"type": "never"})
        answer = await node.send("PUT", f"{path}/versions/2$details", body)
        assert assert_problem(answer)["type"] == f"{SPEC}format_violation"
        assert orjson.loads((await node.send("GET", path)).body) == record("a")
