"""Entities that others delete while they are read: an answer shows one state, and is never 500."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from catalog.reading import entities
from catalog.store import entities as store
from tests.integration.conftest import Node

DOCUMENT = {"xRegistry_format": "X/1", "Content_Type": "text/plain"}
SCHEMA = "/schemagroups/g/schemas/s"


def run_before(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, act: Callable[[], Awaitable[Any]]
) -> None:
    """Run `act` once, before the first call of a function of a module."""
    called, is_first = getattr(module, name), True

    async def then(*arguments: Any, **named: Any) -> Any:
        nonlocal is_first
        if is_first:
            is_first = False
            await act()
        return await called(*arguments, **named)

    monkeypatch.setattr(module, name, then)


@pytest.mark.parametrize(
    "path",
    [
        "/messagegroups",
        "/messagegroups?limit=5",
        "/messagegroups?filter=description=x",
        "/messagegroups?filter=messages.description=x",
        "/messagegroups?sort=name",
        "/messagegroups?inline=messages",
        "/?inline=messagegroups",
        "/messagecatalog",
        "/registry/0.4/definitionGroups",
        "/registry/0.4/definitionGroups?inline",
    ],
)
async def test_a_group_that_is_deleted_while_its_collection_is_read(
    node: Node, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    for id in "ab":
        await node.put(f"/messagegroups/{id}", {"description": "x"})
        await node.put(f"/messagegroups/{id}/messages/m", {"description": "x"})
    run_before(monkeypatch, store, "load", lambda: node.send("DELETE", "/messagegroups/b"))
    answer = await node.send("GET", path, Cache_Control="no-cache")
    assert answer.status == 200, answer.body


@pytest.mark.parametrize(
    "path",
    [
        SCHEMA,
        f"{SCHEMA}/versions/1",
        f"{SCHEMA}$details?inline=schema",
        f"{SCHEMA}$details?inline=versions.schema",
        f"{SCHEMA}/versions?inline=schema",
        "/schemagroups/g/schemas?inline=schema",
        "/export",
        "/registry/0.4/schemaGroups/g/schemas/s",
    ],
)
@pytest.mark.parametrize("change", ["DELETE", "PUT"])
async def test_a_document_is_that_of_its_version(
    node: Node, monkeypatch: pytest.MonkeyPatch, path: str, change: str
) -> None:
    """It may be deleted or replaced after its version was read."""
    await node.send("PUT", SCHEMA, body="before", **DOCUMENT)
    whole = await node.send("GET", path, Cache_Control="no-cache")
    body = "after" if change == "PUT" else None
    target = SCHEMA if change == "PUT" else "/schemagroups/g"
    headers = DOCUMENT if change == "PUT" else {}

    async def act() -> None:
        changed = await node.send(change, target, body=body, **headers)
        assert changed.status in (200, 204), changed.body

    run_before(monkeypatch, store, "load_documents", act)
    answer = await node.send("GET", path, Cache_Control="no-cache")
    assert (answer.status, answer.body) == (200, whole.body)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", f"{SCHEMA}$details?inline=schema", {"format": "X/1", "description": "d"}),
        ("POST", f"{SCHEMA}/versions?inline=schema", {"1": {"format": "X/1"}}),
        ("POST", "/schemagroups/g/schemas?inline=schema", {"s": {"format": "X/1"}}),
    ],
)
async def test_a_version_that_is_deleted_before_its_write_is_answered(
    node: Node, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: Any
) -> None:
    await node.send("PUT", SCHEMA, body="before", **DOCUMENT)
    name = "read_entities" if "versions" in path else "follow"
    run_before(monkeypatch, entities, name, lambda: node.send("DELETE", "/schemagroups/g"))
    answer = await node.send(method, path, body)
    assert answer.status in (200, 404), answer.body
