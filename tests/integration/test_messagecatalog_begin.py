"""A fresh node's catalog defines the events by which message catalogs announce changes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from catalog.client import Client
from catalog.commands.document import read_document
from catalog.commands.importing import import_document
from catalog.config import Settings
from catalog.node import open_database
from catalog.registry.eventdefinitions import AUTHORITY, event_definitions
from catalog.store.entities import load_subtrees
from tests.integration.conftest import Node, start_node

GROUP = "io.cloudevents.messagecatalog"
UPDATED, DELETED = (f"{GROUP}.{verb}.v1" for verb in ("updated", "deleted"))
DEFINITIONS = f"/messagecatalog/{GROUP}/messagedefinitions"


@contextlib.asynccontextmanager
async def begun(url: str, **settings: Any) -> AsyncIterator[Node]:
    """A node that has begun as a process of its own would."""
    async with open_database(Settings(database_url=url, **settings)):
        pass
    async with start_node(url) as node:
        yield node


async def test_a_fresh_catalog_defines_its_own_events(database_url: str) -> None:
    async with begun(database_url) as node:
        assert await node.get("/messagecatalog") == [GROUP]
        assert await node.get(DEFINITIONS) == [DELETED, UPDATED]
        for id in (DELETED, UPDATED):
            shown = await node.get(f"{DEFINITIONS}/{id}")
            assert (shown["id"], shown["version"], shown["format"]) == (id, 1, "CloudEvents")
            assert shown["authority"] == AUTHORITY
            assert shown["definition"]["attributes"]["type"] == {"value": id}
            uri = f"{AUTHORITY}:{GROUP}/messagedefinitions/{id}/versions/1"
            assert await node.get(f"/messagedefinition?uri={uri}") == shown
        native = await node.get(f"/messagegroups/{GROUP}/messages/{UPDATED}?inline=meta")
        assert (native["authority"], native["meta"]["readonly"]) == (AUTHORITY, True)


@pytest.mark.parametrize("setting", ["none", "file"])
async def test_with_another_model_it_defines_nothing(
    database_url: str, setting: str, tmp_path: Any
) -> None:
    if setting == "file":
        path = tmp_path / "model.json"
        path.write_text('{"groups": {"messagegroups": {"singular": "messagegroup"}}}')
        setting = str(path)
    async with begun(database_url, initial_model=setting) as node:
        root = await node.get("/")
        assert not any(value for name, value in root.items() if name.endswith("count"))


async def test_they_are_the_same_entities_in_every_catalog(
    database_url: str, other_database_url: str
) -> None:
    held = []
    for url in (database_url, other_database_url):
        async with begun(url) as node, node.database.pool.acquire() as connection:
            held.append(await load_subtrees(connection, [f"/messagegroups/{GROUP}"]))
    assert held[0] == held[1]
    assert {one.xid: one.digest for one in held[0]} == {
        one.xid: one.digest for one in event_definitions()
    }
    assert {(one.authority, one.epoch) for one in held[0]} == {(AUTHORITY, 1)}
    assert all(one.digest == one.content_digest() for one in held[0])


async def test_they_are_stored_as_if_a_client_had_written_them(database_url: str) -> None:
    async with begun(database_url) as node:
        before = {id: await node.get(f"{DEFINITIONS}/{id}") for id in (DELETED, UPDATED)}
        group = await node.get(f"/messagecatalog/{GROUP}")
        assert (await node.send("DELETE", f"/messagecatalog/{GROUP}")).status == 204
        await node.put(f"/messagecatalog/{GROUP}", group)
        for shown in before.values():
            body = {name: value for name, value in shown.items() if name != "authority"}
            assert (await node.send("POST", DEFINITIONS, body)).status == 201
        async with node.database.pool.acquire() as connection:
            written = await load_subtrees(connection, [f"/messagegroups/{GROUP}"])
    begun_with = {one.xid: dict(one.attributes) for one in event_definitions()}
    assert {one.xid: dict(one.attributes) for one in written} == begun_with


async def test_nobody_changes_them(database_url: str) -> None:
    async with begun(database_url) as node:
        before = await node.state()
        message = f"/messagegroups/{GROUP}/messages/{UPDATED}"
        for method, path, body in (
            ("PATCH", f"/messagegroups/{GROUP}", {"name": "mine"}),
            ("PATCH", message, {"name": "mine"}),
            ("PUT", f"/messagegroups/{GROUP}/messages/another", {}),
            ("PUT", f"{message}/versions/2", {}),
            ("PUT", f"/messagecatalog/{GROUP}", {"format": "CloudEvents"}),
        ):
            answer = await node.send(method, path, body)
            assert (answer.status, answer.error) == (400, "readonly"), path
        assert await node.state() == before


@pytest.mark.parametrize(
    "paths",
    [
        [f"/messagegroups/{GROUP}"],
        ["/messagegroups"],
        [f"/messagecatalog/{GROUP}"],
        [DEFINITIONS, f"/messagecatalog/{GROUP}"],
        [f"{DEFINITIONS}/{DELETED}/versions/1", f"{DEFINITIONS}/{UPDATED}", "/messagegroups"],
    ],
)
async def test_everybody_can_delete_them(database_url: str, paths: list[str]) -> None:
    async with begun(database_url) as node:
        for path in paths:
            answer = await node.send("DELETE", path)
            assert answer.status == 204, answer.body
        assert await node.get("/messagecatalog") == []
        answer = await node.send("PUT", "/modelsource", {"groups": {"dirs": {"singular": "dir"}}})
        assert answer.status == 200, answer.body


async def test_one_deleted_leaves_the_others_as_they_are_everywhere(database_url: str) -> None:
    async with begun(database_url) as node:
        assert (await node.send("DELETE", f"{DEFINITIONS}/{DELETED}")).status == 204
        async with node.database.pool.acquire() as connection:
            left = await load_subtrees(connection, [f"/messagegroups/{GROUP}"])
    expected = [one for one in event_definitions() if DELETED not in one.xid]
    assert {one.xid: one.digest for one in left} == {one.xid: one.digest for one in expected}


async def test_they_stay_deleted(database_url: str) -> None:
    async with begun(database_url) as node:
        await node.send("DELETE", "/messagegroups")
    async with begun(database_url) as node:
        assert await node.get("/messagecatalog") == []


DIRS: dict[str, Any] = {"dirs": {"singular": "dir"}}
STRICT_GROUPS: dict[str, Any] = {
    "messagegroups": {
        "singular": "messagegroup",
        "attributes": {"*": {"type": "any"}, "owner": {"type": "string", "required": True}},
        "resources": {"messages": {"singular": "message", "hasdocument": False}},
    }
}


@pytest.mark.parametrize("groups", [DIRS, STRICT_GROUPS, {}])
async def test_they_go_with_a_model_that_has_no_room_for_them(
    database_url: str, groups: dict[str, Any]
) -> None:
    async with begun(database_url) as node:
        before, logged = await node.get("/"), await node.logged()
        source = await node.get("/modelsource")
        await node.put("/modelsource", {"groups": groups})
        assert (await node.get("/"))["epoch"] == before["epoch"] + 1
        gone = {
            one.change.xid: (one.change.action, one.change.epoch)
            for one in (await node.changes())[logged:]
            if one.change.authority == AUTHORITY
        }
        assert gone == {one.xid: ("deleted", 2) for one in event_definitions()}
        await node.put("/modelsource", source)
        assert await node.get("/messagegroups") == {}


async def test_they_stay_in_a_model_that_has_room_for_them(database_url: str) -> None:
    async with begun(database_url) as node:
        before = await node.get(f"/messagegroups/{GROUP}?inline")
        source = await node.get("/modelsource")
        source["groups"]["messagegroups"]["attributes"]["owner"] = {"type": "string"}
        source["groups"] |= DIRS
        await node.put("/modelsource", source)
        assert await node.get(f"/messagegroups/{GROUP}?inline") == before


async def test_they_stay_where_the_model_is_refused(database_url: str) -> None:
    async with begun(database_url) as node:
        await node.put("/messagegroups/mine")
        before = await node.state()
        answer = await node.send("PUT", "/modelsource", {"groups": DIRS})
        assert (answer.status, answer.error) == (400, "model_compliance_error")
        violations = answer.json["violations"]
        assert [each["subject"] for each in violations] == ["/messagegroups/mine"]
        assert await node.state() == before


async def test_what_one_catalog_exports_another_one_imports(
    database_url: str, other_database_url: str, tmp_path: Path
) -> None:
    """Both begin with the same definitions, which nobody may write."""
    path = tmp_path / "whole.xreg.json"
    async with begun(database_url) as node:
        await node.put("/messagegroups/g/messages/m", {"description": "theirs"})
        path.write_bytes(orjson.dumps(await node.get("/export")))
    async with begun(other_database_url) as node, Client.open(node.url) as client:
        imported = await import_document(client, read_document(path), keep_going=False)
        assert imported.is_imported
        assert (imported.violations, imported.left_out) == ((), ())
        assert imported.written == 3
        assert (await node.get("/messagegroups/g/messages/m"))["description"] == "theirs"


async def test_what_is_another_ones_own_is_not_left_alone(
    database_url: str, tmp_path: Path
) -> None:
    path = tmp_path / "own.xreg.json"
    groups = {GROUP: {"messages": {UPDATED: {"description": "ours"}}}, "g": {}}
    path.write_bytes(orjson.dumps({"messagegroups": groups}))
    async with begun(database_url) as node, Client.open(node.url) as client:
        imported = await import_document(client, read_document(path), keep_going=False)
        assert (imported.is_imported, imported.left_alone) == (False, ())
        assert {v.type.rpartition("#")[2] for v in imported.violations} == {"readonly"}
        assert (await node.send("GET", "/messagegroups/g")).status == 404
