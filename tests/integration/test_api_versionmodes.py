"""How versions are ordered in each mode, and the samples of core/resource.md."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.conftest import SPEC, Node, assert_problem, fresh_node


def kind(singular: str, mode: str, **settings: Any) -> dict[str, Any]:
    single = {} if mode == "manual" else {"singleversionroot": True}
    return {"singular": singular, "hasdocument": False, "versionmode": mode, **single, **settings}


FILES = {
    "files": kind("file", "createdat"),
    "releases": kind("release", "semver"),
    "pairs": kind("pair", "createdat", maxversions=2),
    "fixed": kind(
        "fix",
        "manual",
        metaattributes={
            "defaultversionsticky": {
                "type": "boolean",
                "enum": [False],
                "required": True,
                "default": False,
            }
        },
    ),
    "nested": kind(
        "nest",
        "manual",
        attributes={
            "shape": {
                "type": "object",
                "attributes": {"size": {"type": "integer", "matchversions": True}},
            }
        },
    ),
}
SOURCE = {"groups": {"dirs": {"singular": "dir", "resources": FILES}}}
FILE = "/dirs/d1/files/f1"

node = fresh_node(modelsource=SOURCE)


def year(number: int) -> str:
    return f"{number}-01-01T00:00:00Z"


async def ancestors(node: Node, path: str) -> dict[str, str]:
    versions = await node.get(f"{path}/versions")
    return {vid: version["ancestorid"] for vid, version in versions.items()}


async def shape_of(node: Node, path: str = FILE) -> dict[str, Any]:
    """Everything that the samples of core/resource.md tell of a resource."""
    shown = await node.get(f"{path}?inline")
    meta = shown["meta"]
    return {
        "default": (meta["defaultversionid"], meta["defaultversionsticky"]),
        "meta": meta["epoch"],
        "versions": {
            vid: (version["ancestorid"], version["epoch"], version.get("name"))
            for vid, version in shown["versions"].items()
        },
    }


def expected(default: tuple[str, bool], meta: int, **versions: Any) -> dict[str, Any]:
    named = {vid.removeprefix("_"): version for vid, version in versions.items()}
    return {"default": default, "meta": meta, "versions": named}


async def begin(node: Node, versions: dict[str, int], sticky: str = "", name: str = "") -> None:
    """A resource at epoch 1 throughout, with versions of these years."""
    body: dict[str, Any] = {
        "versions": {
            vid: {"createdat": year(number), **({"name": name} if name else {})}
            for vid, number in versions.items()
        }
    }
    if sticky:
        body["meta"] = {"defaultversionid": sticky, "defaultversionsticky": True}
    await node.put(FILE, body)


V0, V1, V2, V3 = "v0", "v1", "v2", "v3"

CREATIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, expected(("1", False), 1, _1=("1", 1, None))),
    (
        {"name": "foo", "versions": {V1: {}, V2: {}}},
        expected((V2, False), 1, v1=(V1, 1, None), v2=(V1, 1, None)),
    ),
    (
        {
            "name": "foo",
            "meta": {"defaultversionid": V1},
            "versions": {V1: {"createdat": year(2020)}, V2: {"createdat": year(3030)}, V3: {}},
        },
        expected((V2, False), 1, v1=(V1, 1, None), v2=(V3, 1, None), v3=(V1, 1, None)),
    ),
    (
        {"name": "foo", "meta": {"defaultversionid": V1}, "versions": {V2: {}, V3: {}}},
        expected((V3, False), 1, v1=(V1, 1, "foo"), v2=(V1, 1, None), v3=(V2, 1, None)),
    ),
    (
        {"name": "foo", "meta": {"defaultversionid": V1}},
        expected((V1, False), 1, v1=(V1, 1, "foo")),
    ),
    (
        {
            "versionid": V0,
            "name": "foo",
            "versions": {V1: {"createdat": year(2020)}, V2: {}},
        },
        expected((V2, False), 1, v0=(V1, 1, "foo"), v1=(V1, 1, None), v2=(V0, 1, None)),
    ),
    (
        {
            "versionid": V0,
            "name": "foo",
            "createdat": year(2021),
            "meta": {"defaultversionid": V1, "defaultversionsticky": True},
            "versions": {V1: {"createdat": year(2020)}, V2: {}},
        },
        expected((V1, True), 1, v0=(V1, 1, "foo"), v1=(V1, 1, None), v2=(V0, 1, None)),
    ),
    (
        {
            "versionid": V0,
            "name": "foo",
            "meta": {"defaultversionid": V1},
            "versions": {V1: {"createdat": year(2020)}, V2: {}},
        },
        expected((V2, False), 1, v0=(V1, 1, "foo"), v1=(V1, 1, None), v2=(V0, 1, None)),
    ),
    (
        {
            "meta": {"defaultversionid": V1, "defaultversionsticky": True},
            "versions": {V1: {"createdat": year(2020)}, V2: {}},
        },
        expected((V1, True), 1, v1=(V1, 1, None), v2=(V1, 1, None)),
    ),
    (
        {
            "versionid": V1,
            "name": "foo",
            "meta": {"defaultversionsticky": True},
            "versions": {V1: {"name": "abc"}, V2: {}},
        },
        expected((V2, True), 1, v1=(V1, 1, "abc"), v2=(V1, 1, None)),
    ),
    (
        {"meta": {"defaultversionid": V1}, "versions": {V1: {"name": "abc"}, V2: {}}},
        expected((V2, False), 1, v1=(V1, 1, "abc"), v2=(V1, 1, None)),
    ),
    (
        {"versionid": V1, "versions": {V1: {"name": "abc"}, V2: {}}},
        expected((V2, False), 1, v1=(V1, 1, "abc"), v2=(V1, 1, None)),
    ),
]


@pytest.mark.parametrize(("body", "after"), CREATIONS)
async def test_what_a_new_resource_is_like(
    node: Node, body: dict[str, Any], after: dict[str, Any]
) -> None:
    """core/resource.md, "Create …"."""
    answer = await node.send("PUT", FILE, body)
    assert answer.status == 201, answer.body
    assert await shape_of(node) == after


@pytest.mark.parametrize(("body", "after"), [CREATIONS[0], CREATIONS[1], CREATIONS[-1]])
async def test_a_patch_creates_as_a_put_does(
    node: Node, body: dict[str, Any], after: dict[str, Any]
) -> None:
    """core/resource.md, "Create single Resource with empty content"."""
    answer = await node.send("PATCH", FILE, body)
    assert answer.status == 201, answer.body
    assert await shape_of(node) == after


UPDATES: list[tuple[dict[str, int], str, str, dict[str, Any], dict[str, Any]]] = [
    (
        {V0: 2021},
        "",
        "PUT",
        {
            "name": "foo",
            "meta": {"defaultversionid": V1, "defaultversionsticky": True},
            "versions": {V1: {"createdat": year(2020)}, V2: {}},
        },
        expected((V1, True), 2, v0=(V1, 2, "foo"), v1=(V1, 1, None), v2=(V0, 1, None)),
    ),
    (
        {V1: 2025, V2: 2025},
        V1,
        "PUT",
        {
            "name": "foo",
            "meta": {"defaultversionid": "abc"},
            "versions": {V2: {"createdat": year(2020)}},
        },
        expected((V1, False), 2, v1=(V2, 2, "foo"), v2=(V2, 2, None)),
    ),
    (
        {V1: 2025, V2: 2025},
        "",
        "PUT",
        {
            "name": "foo",
            "meta": {"defaultversionsticky": True},
            "versions": {V2: {"createdat": year(2020)}},
        },
        expected((V1, True), 2, v1=(V2, 2, None), v2=(V2, 2, None)),
    ),
    ({V1: 2025}, "", "PUT", {}, expected((V1, False), 1, v1=(V1, 2, None))),
    ({V1: 2025}, "", "PUT", {"description": "d"}, expected((V1, False), 1, v1=(V1, 2, None))),
    (
        {V1: 2025},
        "",
        "PUT",
        {"meta": {"defaultversionsticky": True}},
        expected((V1, True), 2, v1=(V1, 2, None)),
    ),
    (
        {V1: 2025},
        "",
        "PATCH",
        {"meta": {"defaultversionsticky": True}},
        expected((V1, True), 2, v1=(V1, 2, None)),
    ),
    (
        {V1: 2025},
        "",
        "PUT",
        {
            "name": "foo",
            "createdat": year(1999),
            "meta": {"defaultversionsticky": True},
            "versions": {V2: {"createdat": year(1998)}},
        },
        expected((V1, True), 2, v1=(V2, 2, "foo"), v2=(V2, 1, None)),
    ),
]


@pytest.mark.parametrize(("before", "sticky", "method", "body", "after"), UPDATES)
async def test_what_an_update_makes_of_a_resource(
    node: Node,
    before: dict[str, int],
    sticky: str,
    method: str,
    body: dict[str, Any],
    after: dict[str, Any],
) -> None:
    """core/resource.md, "Update …" and "Patch …"."""
    await begin(node, before, sticky)
    answer = await node.send(method, FILE, body)
    assert answer.status == 200, answer.body
    assert await shape_of(node) == after


async def test_a_patch_keeps_what_it_does_not_mention_but_counts(node: Node) -> None:
    """core/resource.md, "Patch Resource with empty content"."""
    await begin(node, {V1: 2025}, name="my file")
    await node.send("PATCH", FILE, {})
    assert await shape_of(node) == expected((V1, False), 1, v1=(V1, 2, "my file"))
    await node.send("PATCH", FILE, {"description": "very cool"})
    assert await shape_of(node) == expected((V1, False), 1, v1=(V1, 3, "my file"))


async def test_turning_sticky_in_a_patch_picks_the_newest_version(node: Node) -> None:
    """core/spec.md, "defaultversionid Attribute", against a sample of core/resource.md."""
    await begin(node, {V1: 2025, V2: 2025})
    versions = {V2: {"createdat": year(2020)}}
    body = {"name": "foo", "meta": {"defaultversionsticky": True}, "versions": versions}
    assert (await node.send("PATCH", FILE, body)).status == 200
    assert await shape_of(node) == expected((V1, True), 2, v1=(V2, 2, None), v2=(V2, 2, None))


@pytest.mark.parametrize(
    ("method", "meta"),
    [
        ("PATCH", {"defaultversionid": "foo"}),
        ("PUT", {"defaultversionid": "foo", "defaultversionsticky": True}),
    ],
)
async def test_a_default_version_that_sticks_must_exist(
    node: Node, method: str, meta: dict[str, Any]
) -> None:
    """core/resource.md, "… with bad … defaultversionid"."""
    await begin(node, {V1: 2025})
    answer = await node.send(method, FILE, {"meta": meta})
    assert assert_problem(answer)["type"] == f"{SPEC}unknown_id"
    assert await shape_of(node) == expected((V1, False), 1, v1=(V1, 1, None))


async def test_ancestors_follow_semantic_versions(node: Node) -> None:
    """core/model.md, "versionmode": semver."""
    release = "/dirs/d1/releases/r"
    ids = ["1.10.0", "1.2.0", "2.0.0-rc.1", "2.0.0"]
    await node.send("POST", f"{release}/versions", {vid: {} for vid in ids})
    assert await ancestors(node, release) == {
        "1.2.0": "1.2.0",
        "1.10.0": "1.2.0",
        "2.0.0-rc.1": "1.10.0",
        "2.0.0": "2.0.0-rc.1",
    }
    assert (await node.get(f"{release}/meta"))["defaultversionid"] == "2.0.0"
    answer = await node.send("PUT", f"{release}/versions/v3", {})
    assert assert_problem(answer)["type"] == f"{SPEC}malformed_id"
    answer = await node.send("POST", release, {})
    assert answer.json["versionid"] == "2.1.0"
    assert (await node.send("POST", "/dirs/d1/releases/other", {})).json["versionid"] == "1.0.0"


async def test_the_oldest_in_the_order_of_the_mode_goes_first(node: Node) -> None:
    """core/model.md, "maxversions"."""
    pair = "/dirs/d1/pairs/p"
    for vid, number in (("a", 2005), ("b", 2003), ("c", 2007)):
        await node.put(f"{pair}/versions/{vid}", {"createdat": year(number)})
    assert await ancestors(node, pair) == {"a": "a", "c": "a"}
    before = await node.state()
    answer = await node.send("PUT", f"{pair}/versions/z", {"createdat": year(1999)})
    assert assert_problem(answer)["type"] == f"{SPEC}bad_request"
    assert await node.state() == before
    many = {"x": {"createdat": year(2011)}, "y": {"createdat": year(2010)}, "z": {}}
    answer = await node.send("POST", f"{pair}/versions", many)
    assert {*answer.json} == {"x", "z"}
    assert await ancestors(node, pair) == {"x": "x", "z": "x"}


async def test_a_model_can_forbid_to_choose_a_default_version(node: Node) -> None:
    """core/spec.md, "defaultversionsticky Attribute"."""
    fix = "/dirs/d1/fixed/f"
    await node.put(f"{fix}/versions/1")
    answer = await node.send("PATCH", f"{fix}/meta", {"defaultversionid": "1"})
    assert assert_problem(answer)["type"] == f"{SPEC}invalid_attribute"
    assert (await node.send("PATCH", f"{fix}/meta", {"defaultversionid": None})).status == 200


async def test_attributes_inside_objects_match_in_all_versions_as_well(node: Node) -> None:
    """core/model.md, "matchversions"."""
    nest = "/dirs/d1/nested/n"
    await node.put(f"{nest}/versions/1", {"shape": {"size": 1}})
    answer = await node.send("PUT", f"{nest}/versions/2", {"shape": {"size": 2}})
    problem = assert_problem(answer)
    assert problem["type"] == f"{SPEC}mismatched_version_attribute"
    assert problem["args"] == {"name": "shape.size"}
    answer = await node.send("PUT", f"{nest}/versions/2", {})
    assert assert_problem(answer)["type"] == f"{SPEC}mismatched_version_attribute"
    assert (await node.send("PUT", f"{nest}/versions/2", {"shape": {"size": 1}})).status == 201
