"""The standard's recipes to copy a registry, between nodes that have just begun."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.conftest import Node, start_fresh_node
from tests.integration.test_api_doc_view import SEED


@pytest.fixture
async def original(database_url: str) -> AsyncIterator[Node]:
    """A node with groups, resources, versions and documents of its own."""
    async with start_fresh_node(database_url) as node:
        answer = await node.send("POST", "/", SEED)
        assert answer.status == 200, answer.body
        await node.put("/endpoints/e", {"usage": ["producer"], "messages": {"m": {}}})
        for path, name in (("/messagegroups/g/messages/m", "later"), ("/", "The original")):
            answer = await node.send("PATCH", path, {"name": name})
            assert answer.status == 200, answer.body
        yield node


@pytest.fixture
async def fresh(other_database_url: str) -> AsyncIterator[Node]:
    async with start_fresh_node(other_database_url) as node:
        yield node


@pytest.mark.parametrize("flags", ["?collections", "?collections&doc"])
async def test_the_collections_of_one_can_be_posted_to_another(
    original: Node, fresh: Node, flags: str
) -> None:
    """core/spec.md, "Collections Flag"."""
    answer = await fresh.send("POST", "/", await original.get(f"/{flags}"))
    assert answer.status == 200, answer.body
    shown = await original.get("/?collections")
    held = {name: {*groups} for name, groups in shown.items() if isinstance(groups, dict)}
    assert held == {"endpoints": {"e"}, "messagegroups": {"g"}, "schemagroups": {"g", "h"}}
    assert comparable(await fresh.get("/?collections")) == comparable(shown)
    assert "name" not in await fresh.get("/")


async def test_an_export_of_one_can_be_put_to_another(original: Node, fresh: Node) -> None:
    """core/http.md, "GET /export"; core/spec.md, "Design: Importing Data"."""
    export = await original.get("/export")
    assert (await fresh.send("PUT", "/?ignore=epoch", export)).status == 200
    assert comparable(await fresh.get("/export")) == comparable(export)
    assert (await fresh.get("/"))["name"] == "The original"


async def test_an_export_is_refused_where_the_registrys_epoch_is_another(
    original: Node, fresh: Node
) -> None:
    """core/spec.md, "epoch Attribute": the registry is there, so putting it is an update."""
    before = await fresh.state()
    answer = await fresh.send("PUT", "/", await original.get("/export"))
    assert (answer.status, answer.error) == (400, "mismatched_epoch")
    assert answer.json["subject"] == "/"
    assert await fresh.state() == before


def comparable(shown: Any) -> Any:
    """What a copy has in common with its original: all but URLs and epochs."""
    if not isinstance(shown, dict):
        return shown
    return {
        name: comparable(value)
        for name, value in shown.items()
        if name != "epoch" and not (isinstance(value, str) and value.startswith("http://127"))
    }
