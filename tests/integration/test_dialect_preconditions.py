"""Writes through dialects, on condition that nothing changed since the client looked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from catalog import dialects
from tests.integration.conftest import Answer, Node, assert_problem, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

_SERVICE = "11111111-2222-4333-8444-555555555555"
_DOOMED_SERVICE = "88888888-2222-4333-8444-555555555555"
_PROTOCOLS = {"protocols": ["HTTP"]}
_IDS = {
    "group": "g",
    "definition": "m",
    "version": "1",
    "id": _SERVICE,
    "groups": "schemaGroups",
    "gid": "s",
    "resources": "schemas",
    "rid": "d",
    "vid": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """How one entity is written through a dialect: with a PUT that may be repeated."""

    path: str
    body: Mapping[str, Any] | bytes
    headers: Mapping[str, str]

    def changed(self, number: int) -> Mapping[str, Any] | bytes:
        """A body that no other number gives."""
        if isinstance(self.body, bytes):
            return b'{"title": "%d"}' % number
        return {**self.body, "description": f"number {number}"}


def _json(path: str, **body: Any) -> Entity:
    return Entity(path=path, body=body, headers={})


ENTITIES = {
    "messagecatalog": _json("/messagecatalog/g", format="CloudEvents"),
    "discovery": _json(f"/services/{_SERVICE}", id=_SERVICE, name="n", **_PROTOCOLS),
    "registry04 group": _json("/registry/0.4/schemaGroups/s", description=""),
    "registry04 document": Entity(
        path="/registry/0.4/schemaGroups/s/schemas/d",
        body=b"{}",
        headers={"Content-Type": "application/json"},
    ),
    "registry04 metadata": _json("/registry/0.4/schemaGroups/s/schemas/d?meta", format="Text/1"),
    "registry04 definition": _json(
        "/registry/0.4/definitionGroups/g/definitions/m", format="CloudEvents/1.0"
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(shared_database_url) as running:
        await running.put("/messagecatalog/g", {"format": "CloudEvents"})
        attributes = {"type": {"value": "m"}}
        definition = {"id": "m", "definition": {"attributes": attributes}}
        path = "/messagecatalog/g/messagedefinitions"
        for _ in range(2):
            assert (await running.send("POST", path, definition)).status == 201
        service = {"id": _SERVICE, "name": "n", **_PROTOCOLS}
        assert (await running.send("POST", "/services?import", [service])).status == 201
        await running.put("/schemagroups/s")
        for number in (1, 2):
            path = f"/schemagroups/s/schemas/d/versions/{number}$details"
            await running.put(path, {"format": "Text/1", "schema": "text"})
        yield running


async def write(node: Node, entity: Entity, number: int, **headers: str) -> Answer:
    body = entity.changed(number)
    given = {"json": body} if isinstance(body, Mapping) else {"body": body}
    return await node.send("PUT", entity.path, **given, **entity.headers, **headers)


async def tag_of(node: Node, path: str) -> str:
    answer = await node.send("GET", path)
    assert answer.status == 200, answer.body
    return str(answer.headers["ETag"])


def is_refused(answer: Answer) -> bool:
    return answer.status == 412 and assert_problem(answer)["type"].endswith("precondition_failed")


@pytest.mark.parametrize("name", ENTITIES)
async def test_who_has_seen_what_is_there_may_change_it_once(node: Node, name: str) -> None:
    entity = ENTITIES[name]
    tag = await tag_of(node, entity.path)
    assert (await write(node, entity, 1, If_Match=tag)).status == 200
    before = await node.state()
    assert is_refused(await write(node, entity, 2, If_Match=tag))
    assert await node.state() == before
    assert (await write(node, entity, 2, If_Match=await tag_of(node, entity.path))).status == 200


@pytest.mark.parametrize("name", ENTITIES)
async def test_of_those_who_have_seen_the_same_one_may_change_it(node: Node, name: str) -> None:
    entity = ENTITIES[name]
    tag = await tag_of(node, entity.path)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        tasks: list[asyncio.Task[Answer]] = [
            group.create_task(write(node, entity, 100 + number, If_Match=tag))
            for number in range(12)
        ]
    assert sorted(task.result().status for task in tasks) == [200] + [412] * 11


async def test_a_document_has_another_tag_once_its_metadata_is_another(node: Node) -> None:
    entity = ENTITIES["registry04 document"]
    tag = await tag_of(node, entity.path)
    await node.send("PATCH", "/schemagroups/s/schemas/d/versions/2$details", {"name": "another"})
    assert await tag_of(node, entity.path) != tag
    assert is_refused(await write(node, entity, 3, If_Match=tag))


async def test_the_metadata_of_a_document_has_the_tag_of_its_own_url(node: Node) -> None:
    document, metadata = ENTITIES["registry04 document"], ENTITIES["registry04 metadata"]
    assert is_refused(await write(node, metadata, 4, If_Match=await tag_of(node, document.path)))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/messagecatalog/once", {"format": "NATS"}),
        (
            "/services/99999999-2222-4333-8444-555555555555?import",
            {"id": "99999999-2222-4333-8444-555555555555", "name": "once", **_PROTOCOLS},
        ),
    ],
)
async def test_of_those_who_expect_nothing_there_one_creates_it(
    node: Node, path: str, body: Any
) -> None:
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        tasks: list[asyncio.Task[Answer]] = [
            group.create_task(node.send("PUT", path, body, If_None_Match="*")) for _ in range(8)
        ]
    assert sorted(task.result().status for task in tasks) == [201] + [412] * 7


@pytest.mark.parametrize(
    ("path", "body"),
    [("/messagecatalog/never", {"format": "NATS"})],
)
async def test_what_must_be_there_is_not_created(node: Node, path: str, body: Any) -> None:
    assert is_refused(await node.send("PUT", path, body, If_Match="*"))
    assert (await node.send("GET", path)).status == 404


async def test_an_answer_that_comes_later_says_that_the_condition_was_not_met(node: Node) -> None:
    entity = ENTITIES["discovery"]
    answer = await write(node, entity, 5, If_Match='"other"', Prefer="respond-async")
    assert answer.status == 202
    status_path = answer.headers["Location"].removeprefix(node.url)
    async with asyncio.timeout(20):
        while (now := await node.send("GET", status_path)).status == 202:
            await asyncio.sleep(0.02)  # between two looks
    assert (now.status, now.error) == (406, "precondition_failed")


@pytest.mark.parametrize(
    "path",
    [
        "/messagecatalog/doomed",
        "/messagecatalog/g/messagedefinitions/doomed",
        "/messagecatalog/g/messagedefinitions/m/versions/1",
        f"/services/{_DOOMED_SERVICE}",
        "/registry/0.4/schemaGroups/doomed",
        "/registry/0.4/schemaGroups/s/schemas/doomed",
        "/registry/0.4/schemaGroups/s/schemas/d/versions/1",
    ],
)
async def test_who_has_not_seen_the_last_state_may_not_delete_it(node: Node, path: str) -> None:
    for native, body in {
        "/messagegroups/doomed": {"protocol": "NATS"},
        "/messagegroups/g/messages/doomed": {"protocol": "NATS"},
        "/schemagroups/doomed": {},
        "/schemagroups/s/schemas/doomed$details": {"format": "Text/1", "schema": "text"},
    }.items():
        await node.put(native, body)
    service = {"id": _DOOMED_SERVICE, "name": "doomed", **_PROTOCOLS}
    await node.send("POST", "/services?import", [service])
    assert is_refused(await node.send("DELETE", path, If_Match='"other"'))
    tag = await tag_of(node, path)
    assert (await node.send("DELETE", path, If_Match=tag)).status in (200, 204)
    assert (await node.send("GET", path)).status == 404


async def test_every_write_of_a_dialect_heeds_its_conditions(database_url: str) -> None:
    attributes = {"type": {"value": "m"}}
    service = {"id": _SERVICE, "name": "n", **_PROTOCOLS}
    bodies: dict[str, Any] = {
        "/messagecatalog/g": {"format": "CloudEvents"},
        "/messagecatalog/g/messagedefinitions": {
            "id": "m",
            "definition": {"attributes": attributes},
        },
        "/services": [service],
        f"/services/{_SERVICE}": service,
        "/registry/0.4/schemaGroups": {"id": "new"},
    }
    writes = [
        (route.operation.method, route.operation.path.format_map(_IDS))
        for route in dialects.routes
        # The Confluent API has no conditions.
        if route.operation.method != "GET" and not route.operation.path.startswith("/confluent")
    ]
    async with start_node(database_url) as fresh:
        await fresh.put("/messagegroups/g", {"envelope": "CloudEvents/1.0"})
        for number in (1, 2):
            await fresh.put(f"/messagegroups/g/messages/m/versions/{number}")
            path = f"/schemagroups/s/schemas/d/versions/{number}$details"
            await fresh.put(path, {"format": "Text/1", "schema": "text"})
        assert (await fresh.send("POST", "/services?import", [service])).status == 201
        before = await fresh.state()
        for method, path in writes:
            has_body = method != "DELETE" or path == "/services"
            body = bodies.get(path.rstrip("/"), {}) if has_body else None
            for condition in ({"If-Match": '"other"'}, {"If-None-Match": "*"}):
                answer = await fresh.send(method, path, body, **condition)
                assert is_refused(answer), (method, path, condition, answer.body)
        assert await fresh.state() == before
