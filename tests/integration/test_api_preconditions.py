"""Writes on condition that nothing changed since the client looked (RFC 9110, 13.1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.conftest import Answer, Node, assert_problem, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")
GROUP = "/messagegroups/g"
MESSAGE = f"{GROUP}/messages/m"
SCHEMA = "/schemagroups/s/schemas/d"
ENTITIES = ["/", GROUP, MESSAGE, f"{MESSAGE}/meta", f"{MESSAGE}/versions/1", f"{SCHEMA}$details"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(shared_database_url) as running:
        await running.put(MESSAGE, {"versionid": "1"})
        assert (await send_document(running, b"one")).status == 201
        yield running


async def send_document(node: Node, body: bytes, **headers: str) -> Answer:
    typed = {"Content_Type": "text/plain", "xRegistry_format": "Text/1"}
    return await node.send("PUT", SCHEMA, body=body, **typed, **headers)


async def tag_of(node: Node, path: str) -> str:
    return str((await node.send("GET", path)).headers["ETag"])


async def refused(node: Node, method: str, path: str, json: Any = None, **headers: str) -> None:
    before = await node.state()
    answer = await node.send(method, path, json, **headers)
    assert (answer.status, answer.error) == (412, "precondition_failed"), answer.body
    assert assert_problem(answer)["subject"] == path.removesuffix("$details")
    assert await node.state() == before


@pytest.mark.parametrize("path", [*ENTITIES, "/capabilities"])
async def test_who_has_seen_what_is_there_may_change_it(node: Node, path: str) -> None:
    tag = await tag_of(node, path)
    body = {"shortself": False} if path == "/capabilities" else {"labels": {"seen": tag[1:9]}}
    answer = await node.send("PATCH", path, body, If_Match=f'"other", {tag}')
    assert answer.status == 200, answer.body


@pytest.mark.parametrize("path", [*ENTITIES, "/capabilities"])
async def test_who_has_seen_something_else_may_not(node: Node, path: str) -> None:
    tag = await tag_of(node, path)
    for given in ('"other"', f"W/{tag}"):
        answer = await node.send("PATCH", path, {}, If_Match=given)
        assert (answer.status, answer.error) == (412, "precondition_failed")
    answer = await node.send("PATCH", path, {}, If_None_Match=tag)
    assert (answer.status, answer.error) == (412, "precondition_failed")
    assert await tag_of(node, path) == tag


async def test_a_document_has_a_tag_as_well(node: Node) -> None:
    tag = await tag_of(node, SCHEMA)
    assert (await send_document(node, b"two", If_Match=tag)).status == 200
    assert (await send_document(node, b"three", If_Match=tag)).status == 412
    assert (await node.send("GET", SCHEMA)).body == b"two"


async def test_a_document_has_another_tag_once_its_metadata_is_another(node: Node) -> None:
    tag = await tag_of(node, SCHEMA)
    await node.send("PATCH", f"{SCHEMA}$details", {"description": "in a header"})
    assert await tag_of(node, SCHEMA) != tag
    assert (await send_document(node, b"four", If_Match=tag)).status == 412
    assert (await send_document(node, b"four", If_Match=await tag_of(node, SCHEMA))).status == 200


async def test_a_model_is_replaced_by_who_has_seen_it(node: Node) -> None:
    tag, source = await tag_of(node, "/modelsource"), await node.get("/modelsource")
    await refused(node, "PUT", "/modelsource", source, If_Match='"other"')
    changed = {**source, "labels": {"seen": "yes"}}
    assert (await node.send("PUT", "/modelsource", changed, If_Match=tag)).status == 200
    await refused(node, "PUT", "/modelsource", source, If_Match=tag)


async def test_what_must_not_be_there_yet_is_created_once(node: Node) -> None:
    path = f"{GROUP}/messages/once"
    assert (await node.send("PUT", path, {}, If_None_Match="*")).status == 201
    await refused(node, "PUT", path, {}, If_None_Match="*")


async def test_what_must_be_there_is_not_created(node: Node) -> None:
    await refused(node, "PUT", f"{GROUP}/messages/never", {}, If_Match="*")
    assert (await node.send("PUT", MESSAGE, {}, If_Match="*")).status == 200


async def test_who_has_not_seen_the_last_state_may_not_delete_it(node: Node) -> None:
    path = f"{GROUP}/messages/doomed"
    await node.put(path)
    seen = await tag_of(node, path)
    await node.put(path, {"name": "n"})
    await refused(node, "DELETE", path, If_Match=seen)
    assert (await node.send("DELETE", path, If_Match=await tag_of(node, path))).status == 204


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/messagegroups", {"h": {}}),
        ("PATCH", f"{GROUP}/messages", {"n": {}}),
        ("DELETE", f"{GROUP}/messages", {"m": {}}),
    ],
)
async def test_several_entities_have_no_tag_together(
    node: Node, method: str, path: str, body: Any
) -> None:
    tag = await tag_of(node, path)
    await refused(node, method, path, body, If_Match=tag)


async def test_of_those_who_have_seen_the_same_one_may_change_it(node: Node) -> None:
    tag = await tag_of(node, MESSAGE)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        tasks: list[asyncio.Task[Answer]] = [
            group.create_task(node.send("PUT", MESSAGE, {"name": f"n{n}"}, If_Match=tag))
            for n in range(16)
        ]
    statuses = [task.result().status for task in tasks]
    assert sorted(statuses) == [200] + [412] * 15
