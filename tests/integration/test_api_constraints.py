"""What groups demand of their resources, beyond what the types say."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.conftest import SPEC, Node, assert_problem, fresh_node

SOURCE: dict[str, Any] = {
    "groups": {
        "dirs": {
            "singular": "dir",
            "attributes": {"owner": {"type": "string"}, "level": {"type": "integer"}},
            "constraints": {
                "files.color": {"default": "red", "enum": ["red", "green", "blue"]},
                "files.owner": {"equals": "owner"},
            },
            "resources": {
                "files": {
                    "singular": "file",
                    "hasdocument": False,
                    "attributes": {
                        "color": {"type": "string"},
                        "owner": {"type": "string"},
                        "level": {"type": "integer"},
                        "shape": {
                            "type": "object",
                            "attributes": {"size": {"type": "integer"}},
                        },
                    },
                }
            },
        },
        "shelves": {
            "singular": "shelf",
            "attributes": {"owner": {"type": "string"}},
            "ximportresources": ["/dirs/files"],
        },
    }
}
FILE = "/dirs/d/files/f"

node = fresh_node(modelsource=SOURCE)


async def refused(
    node: Node, method: str, path: str, body: Any, kind: str, attribute: str, at: str = FILE
) -> None:
    """The request breaks a constraint, and leaves nothing behind."""
    before = await node.state()
    problem = assert_problem(await node.send(method, path, body))
    assert problem["type"] == f"{SPEC}constraint_failure"
    assert problem["subject"] == at
    assert problem["args"] == {"path": attribute, "kind": kind}
    assert await node.state() == before


async def test_a_group_gives_default_values(node: Node) -> None:
    """core/model.md, "constraints…default"."""
    assert (await node.put(FILE))["color"] == "red"
    assert (await node.put(FILE, {"color": "blue"}))["color"] == "blue"
    answer = await node.send("PATCH", FILE, {"color": None})
    assert answer.json["color"] == "red"
    await node.put("/dirs/d", {"constraints": {"files.color": {"default": "green"}}})
    assert (await node.get(FILE))["color"] == "red", "what is there stays"
    assert (await node.put(FILE))["color"] == "green"
    assert "color" not in await node.put("/shelves/s/files/f")


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_a_group_restricts_values(node: Node, method: str) -> None:
    """core/model.md, "constraints…enum", in every way to write a version."""
    await refused(node, method, FILE, {"color": "pink"}, "enum", "color")
    await node.put(FILE)
    pink = {"color": "pink"}
    for path, body in (
        (FILE, pink),
        (f"{FILE}/versions/1", pink),
        (f"{FILE}/versions/2", pink),
        ("/dirs/d", {"files": {"f": pink}}),
        ("/", {"dirs": {"d": {"files": {"f": pink}}}}),
    ):
        await refused(node, method, path, body, "enum", "color")
    await refused(node, "POST", f"{FILE}/versions", {"2": pink, "3": {}}, "enum", "color")


async def test_a_group_and_its_resources_have_attributes_in_common(node: Node) -> None:
    """core/model.md, "constraints…equals"."""
    await node.put(FILE, {"owner": "anyone"})
    assert (await node.get(FILE))["owner"] == "anyone", "the group has none"
    await refused(node, "PATCH", "/dirs/d", {"owner": "ann"}, "equals", "owner")
    await node.send("PATCH", FILE, {"owner": "ann"})
    assert (await node.send("PATCH", "/dirs/d", {"owner": "ann"})).status == 200
    await refused(node, "PATCH", FILE, {"owner": "bob"}, "equals", "owner")
    await refused(node, "PATCH", FILE, {"owner": None}, "equals", "owner")
    await refused(node, "PATCH", "/dirs/d", {"owner": "bob"}, "equals", "owner")
    both = {"owner": "bob", "files": {"f": {"owner": "bob"}}}
    assert (await node.send("PATCH", "/dirs/d", both)).status == 200
    assert (await node.send("PATCH", "/dirs/d", {"owner": None})).status == 200
    assert (await node.send("PATCH", FILE, {"owner": "carol"})).status == 200


async def test_a_group_can_demand_more_than_its_type(node: Node) -> None:
    """core/spec.md, "constraints Attribute"."""
    await node.put("/dirs/d", {"level": 1})
    await node.put(FILE, {"color": "blue", "level": 2, "shape": {"size": 5}})
    for constraints, kind, path in (
        ({"files.color": {"enum": ["red", "green"]}}, "enum", "color"),
        ({"files.level": {"equals": "level"}}, "equals", "level"),
        ({"files.shape.size": {"enum": [1, 2]}}, "enum", "shape.size"),
    ):
        await refused(node, "PATCH", "/dirs/d", {"constraints": constraints}, kind, path)
    fitting = {
        "files.shape.size": {"enum": [5, 6]},
        "files.color": {"enum": ["blue"], "default": "blue"},
    }
    answer = await node.send("PATCH", "/dirs/d", {"constraints": fitting})
    assert answer.status == 200, answer.body
    await refused(node, "PATCH", FILE, {"shape": {"size": 7}}, "enum", "shape.size")
    await refused(node, "PUT", FILE, {"color": "red"}, "enum", "color")
    assert (await node.put("/dirs/other/files/f", {"color": "red"}))["color"] == "red"


@pytest.mark.parametrize(
    "constraints",
    [
        {"files.color": {"enum": ["red", "pink"]}},
        {"files.owner": {"equals": "level"}},
        {"files.nowhere": {"enum": ["a"]}},
        {"pages.color": {"enum": ["a"]}},
        {"files.color": {"enum": "red"}},
        {"files.level": {"enum": ["a"]}},
        {"files.color": {"default": "pink"}},
    ],
)
async def test_a_group_cannot_allow_more_than_its_type(node: Node, constraints: Any) -> None:
    """core/spec.md, "constraints Attribute"."""
    before = await node.state()
    answer = await node.send("PUT", "/dirs/d", {"constraints": constraints})
    assert assert_problem(answer)["type"] == f"{SPEC}invalid_attribute"
    assert await node.state() == before


async def test_every_version_counts_not_just_the_default_one(node: Node) -> None:
    """core/model.md, "groups.<STRING>.constraints"."""
    await node.send("POST", f"{FILE}/versions", {"1": {"color": "blue"}, "2": {}})
    body = {"constraints": {"files.color": {"enum": ["red"]}}}
    answer = await node.send("PATCH", "/dirs/d", body)
    problem = assert_problem(answer)
    assert problem["type"] == f"{SPEC}constraint_failure"
    assert "1" in problem["detail"]


async def test_constraints_reach_what_a_group_refers_to(node: Node) -> None:
    """core/model.md, "constraints": enum and equals hold for cross references, too."""
    await node.put("/dirs/d/files/f", {"color": "red", "owner": "ann"})
    shelf = "/shelves/s"
    constraints = {"files.color": {"enum": ["red", "green"]}, "files.owner": {"equals": "owner"}}
    await node.put(shelf, {"constraints": constraints, "owner": "ann"})
    source = f"{shelf}/files/shown"
    refer = {"xref": FILE}
    assert (await node.send("PUT", f"{source}/meta", refer)).status == 201
    await refused(node, "PATCH", FILE, {"color": "blue"}, "enum", "color", at=source)
    await refused(node, "PATCH", FILE, {"owner": "bob"}, "equals", "owner", at=source)
    await refused(node, "PATCH", shelf, {"owner": "bob"}, "equals", "owner", at=source)
    narrower = {**constraints, "files.color": {"enum": ["green"]}}
    await refused(node, "PATCH", shelf, {"constraints": narrower}, "enum", "color", at=source)
    await node.send("PATCH", FILE, {"color": "green"})
    await node.put("/dirs/d/files/blue", {"color": "blue", "owner": "ann"})
    other = f"{shelf}/files/other"
    await refused(
        node, "PUT", f"{other}/meta", {"xref": "/dirs/d/files/blue"}, "enum", "color", at=other
    )
    assert (await node.send("PUT", f"{other}/meta", {"xref": "/dirs/d/files/none"})).status == 201
    await refused(node, "PUT", "/dirs/d/files/none", {"color": "blue"}, "enum", "color", at=other)
    assert (await node.send("DELETE", FILE)).status == 204


async def test_default_values_do_not_reach_what_a_group_refers_to(node: Node) -> None:
    """core/model.md, "constraints": a cross reference is read-only there."""
    await node.put("/shelves/s/files/f", {})
    await node.put("/dirs/d/files/shown/meta", {"xref": "/shelves/s/files/f"})
    assert "color" not in await node.get("/shelves/s/files/f")
    assert "color" not in await node.get("/dirs/d/files/shown")
