"""What a fresh node begins with, as its settings say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from catalog.context import read_configuration
from catalog.model.configuration import Configuration
from catalog.model.modelsource import default_model
from catalog.node.noderuntime import open_database
from catalog.reconfiguration.initialmodel import InitialModelUnusable
from catalog.settings import Settings
from catalog.store.entities import load
from tests.integration.conftest import start_fresh_node

DIRS = {"groups": {"dirs": {"singular": "dir"}}}


async def begin(url: str, **settings: Any) -> tuple[Configuration, str]:
    """The configuration and the registry id that a node comes up with."""
    async with open_database(Settings(database_url=url, **settings)) as database:
        async with database.acquire() as connection:
            registry = (await load(connection, ["/"]))["/"]
        return await read_configuration(database.shared), registry.attributes["registryid"]


async def test_without_settings_it_has_the_default_model(database_url: str) -> None:
    configuration, id = await begin(database_url)
    assert configuration.model.expanded() == default_model().expanded()
    assert (configuration.revision, id) == (0, "concord")


async def test_it_holds_nothing(database_url: str) -> None:
    async with start_fresh_node(database_url) as node:
        collections = await node.get("/?collections")
        held = {name: groups for name, groups in collections.items() if isinstance(groups, dict)}
        assert held == {"endpoints": {}, "messagegroups": {}, "schemagroups": {}}
        assert (await node.get("/"))["epoch"] == 1
        assert await node.get("/messagecatalog") == []
        assert [one.change.xid for one in await node.changes()] == []


async def test_it_may_begin_with_no_types_at_all(database_url: str) -> None:
    configuration, id = await begin(database_url, initial_model="none", registry_id="mine")
    assert (configuration.model.groups, configuration.model.source) == ({}, {})
    assert id == "mine"


async def test_it_may_begin_with_a_model_from_a_file(database_url: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_bytes(orjson.dumps(DIRS))
    configuration, _ = await begin(database_url, initial_model=str(path))
    assert configuration.model.source == DIRS


async def test_a_model_from_a_file_may_include_files_beside_it(
    database_url: str, tmp_path: Path
) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "dirs.yaml").write_text("types:\n  dirs: {singular: dir}\n")
    source = {"groups": {"$include": "parts/dirs.yaml#/types"}}
    path = tmp_path / "model.json"
    path.write_bytes(orjson.dumps(source))
    configuration, _ = await begin(database_url, initial_model=str(path))
    assert configuration.model.source == source
    assert [*configuration.model.groups] == ["dirs"]
    assert configuration.resolved == DIRS


@pytest.mark.parametrize(
    ("include", "reason"),
    [("gone.json", "gone.json cannot be read"), ("https://a.example/m.json", "include a copy")],
)
async def test_what_a_model_from_a_file_includes_has_to_be_there(
    database_url: str, tmp_path: Path, include: str, reason: str
) -> None:
    path = tmp_path / "model.json"
    path.write_bytes(orjson.dumps({"groups": {"$include": include}}))
    with pytest.raises(InitialModelUnusable, match=reason):
        await begin(database_url, initial_model=str(path))


async def test_one_that_is_there_keeps_what_it_has(database_url: str) -> None:
    await begin(database_url, initial_model="none", registry_id="mine")
    configuration, id = await begin(database_url, initial_model="default", registry_id="other")
    assert (configuration.model.groups, id) == ({}, "mine")


@pytest.mark.parametrize("text", ["[]", "{", '{"groups": {"dirs": {}}}', '{"nonsense": 1}'])
async def test_a_file_without_a_model_keeps_it_from_starting(
    database_url: str, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(InitialModelUnusable, match=r"model\.json"):
        await begin(database_url, initial_model=str(path))
