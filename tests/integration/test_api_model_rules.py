"""What a new model demands of resources that are there already, beyond their attributes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson

from catalog.model.entity import Entity
from replication.applying.apply import Batch, apply_batch
from replication.deciding.provenance import Policy
from tests.integration.conftest import Node, assert_problem, fresh_node, start_node

FILE = "/dirs/d/files/f"


def source(*, group: Any = None, **files: Any) -> dict[str, Any]:
    resources = {"files": {"singular": "file", **files}}
    return {"groups": {"dirs": {"singular": "dir", "resources": resources, **(group or {})}}}


node = fresh_node(modelsource=source())


async def change(node: Node, model: Any) -> None:
    answer = await node.send("PUT", "/modelsource", model)
    assert answer.status == 200, answer.body


async def refused(node: Node, model: Any) -> dict[str, str]:
    """The violations of a change that does nothing: the last error by what it is about."""
    before = await node.state()
    answer = await node.send("PUT", "/modelsource", model)
    problem = assert_problem(answer)
    assert answer.error == "model_compliance_error"
    assert await node.state() == before
    return {v["subject"]: v["type"].rpartition("#")[2] for v in problem["violations"]}


async def versions(node: Node) -> dict[str, Any]:
    shown: dict[str, Any] = await node.get(f"{FILE}/versions")
    return shown


async def test_a_new_version_mode_orders_the_versions_anew(node: Node) -> None:
    """As a write would: what gets another ancestor is updated, and so is the default."""
    for vid, parent in (("2.0.0", "2.0.0"), ("1.0.0", "2.0.0"), ("10.0.0", "1.0.0")):
        await node.put(f"{FILE}/versions/{vid}$details", {"ancestorid": parent})
    before = await versions(node)
    await change(node, source(versionmode="semver", singleversionroot=True))
    after = await versions(node)
    assert {vid: version["ancestorid"] for vid, version in after.items()} == {
        "1.0.0": "1.0.0",
        "2.0.0": "1.0.0",
        "10.0.0": "2.0.0",
    }
    assert all(after[vid]["epoch"] == before[vid]["epoch"] + 1 for vid in before)
    assert (await node.get(f"{FILE}/meta"))["defaultversionid"] == "10.0.0"


async def test_ids_must_fit_a_new_version_mode(node: Node) -> None:
    await node.put(f"{FILE}/versions/first$details")
    wanted = source(versionmode="semver", singleversionroot=True)
    assert await refused(node, wanted) == {f"{FILE}/versions/first": "malformed_id"}


async def put_document(node: Node, body: bytes, **headers: str) -> None:
    answer = await node.request(
        "PUT",
        FILE,
        body=body,
        headers={f"xRegistry-{name}": value for name, value in headers.items()},
    )
    assert answer.status in (200, 201), answer.body


async def test_documents_are_checked_when_the_model_begins_to_ask_for_that(node: Node) -> None:
    """core/model.md, "validateformat"."""
    await put_document(node, b'{"type": 5}', format="JsonSchema/draft-07")
    wanted = source(validateformat=True)
    assert await refused(node, wanted) == {f"{FILE}/versions/1": "format_violation"}
    await put_document(node, b'{"type": "object"}', format="JsonSchema/draft-07")
    await change(node, wanted)
    assert (await node.get(f"{FILE}$details"))["formatvalidated"] is True
    await change(node, source())
    assert "formatvalidated" not in await node.get(f"{FILE}$details")


async def test_new_constraints_hold_for_what_is_there(node: Node) -> None:
    """core/model.md, "groups.<STRING>.constraints"."""
    await node.put(f"{FILE}$details", {"name": "n", "format": "xsd"})
    only = {"constraints": {"files.format": {"enum": ["avro"]}}}
    assert await refused(node, source(group=only)) == {FILE: "constraint_failure"}
    either = {"constraints": {"files.format": {"enum": ["avro", "xsd"]}}}
    await change(node, source(group=either))


async def test_new_default_values_of_a_group_type_reach_its_versions(node: Node) -> None:
    await node.put(f"{FILE}$details", {"name": "n"})
    await change(node, source(group={"constraints": {"files.format": {"default": "avro"}}}))
    assert (await node.get(f"{FILE}$details"))["format"] == "avro"


async def test_an_empty_document_keeps_no_type_from_becoming_metadata(node: Node) -> None:
    await put_document(node, b"")
    await change(node, source(hasdocument=False))
    await change(node, source(hasdocument=True))
    assert (await node.send("GET", FILE)).body == b""


async def test_how_a_type_is_defined_makes_no_difference_to_references(node: Node) -> None:
    """core/model.md: `ximportresources`, or the same definition twice."""
    files = source()["groups"]["dirs"]
    boxes = {"singular": "box", "ximportresources": ["/dirs/files"]}
    await change(node, {"groups": {"dirs": files, "boxes": boxes}})
    await node.put(f"{FILE}$details", {"name": "n"})
    await node.put("/boxes/b/files/x/meta", {"xref": FILE})
    twice = {"singular": "box", "resources": files["resources"]}
    await change(node, {"groups": {"dirs": files, "boxes": twice}})
    other = {"singular": "box", "resources": {"files": {"singular": "file", "maxversions": 3}}}
    found = await refused(node, {"groups": {"dirs": files, "boxes": other}})
    assert found == {"/boxes/b/files/x": "malformed_xref"}


async def receive(node: Node) -> None:
    """A replica of a group."""
    now = datetime.now(UTC)
    group = Entity(
        xid="/dirs/r",
        kind="group",
        authority="https://elsewhere.example",
        origin="/dirs/r",
        epoch=4,
        attributes={},
        createdat=now,
        modifiedat=now,
    ).sealed()
    policy = Policy(own=node.database.node.authority, sender=group.authority)
    await apply_batch(node.context, Batch(copies=[group], policy=policy))


async def test_a_replica_without_what_is_required_now_is_a_violation(node: Node) -> None:
    """Only its authority could give it a default value."""
    await receive(node)
    await node.put("/dirs/own")
    owner = {"type": "string", "required": True, "default": "us"}
    wanted = source(group={"attributes": {"owner": owner}})
    assert await refused(node, wanted) == {"/dirs/r": "required_attribute_missing"}


async def test_replicas_come_in_under_the_model_that_is_in_force(
    database_url: str, node: Node
) -> None:
    """A process that has not heard of a new model yet reads it before it applies anything."""
    async with start_node(database_url) as other:
        await change(node, {"groups": {"zoos": {"singular": "zoo"}}})
        await receive(other)
        assert "zoos" in other.context.model.groups
        assert orjson.loads((await other.send("GET", "/")).body)["zooscount"] == 0
        async with node.database.acquire() as connection:
            assert not await connection.fetchval(
                "SELECT count(*) FROM entities WHERE xid LIKE '/dirs%'"
            )
