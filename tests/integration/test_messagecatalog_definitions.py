"""The example that defines the events by which message catalogs announce changes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from catalog.cli import app
from tests.integration.conftest import Node, start_fresh_node

EXAMPLE = Path(__file__).parents[2] / "examples" / "messagecatalog-events.xreg.json"
GROUP = "io.cloudevents.messagecatalog"
UPDATED, DELETED = (f"{GROUP}.{verb}.v1" for verb in ("updated", "deleted"))
DEFINITIONS = f"/messagecatalog/{GROUP}/messagedefinitions"


@pytest.mark.parametrize("command", ["import", "apply"])
async def test_a_fresh_node_takes_all_of_it_and_shows_both_definitions(
    database_url: str, command: str
) -> None:
    """Message catalog, section 5.5."""
    async with start_fresh_node(database_url) as node:
        await send_example(node, command)
        assert await node.get("/messagecatalog") == [GROUP]
        assert await node.get(DEFINITIONS) == [DELETED, UPDATED]
        for id in (DELETED, UPDATED):
            shown = await node.get(f"{DEFINITIONS}/{id}")
            assert (shown["id"], shown["version"], shown["format"]) == (id, 1, "CloudEvents")
            assert shown["definition"]["attributes"]["type"] == {"value": id}
            assert "authority" not in shown
            uri = f"{node.url}{DEFINITIONS}/{id}/versions/1"
            assert await node.get(f"/messagedefinition?uri={uri}") == shown
        [said] = orjson.loads(EXAMPLE.read_bytes())["messagegroups"].values()
        native = await node.get(f"/messagegroups/{GROUP}?inline&doc")
        assert contains(native, said)
        assert await node.logged() == 6, "the registry, the group, two messages, two versions"


async def test_what_a_client_writes_through_the_dialect_is_stored_as_it_has_it(
    database_url: str,
) -> None:
    async with start_fresh_node(database_url) as node:
        await send_example(node, "import")
        before = await node.get(f"/messagegroups/{GROUP}?inline&doc")
        group = await node.get(f"/messagecatalog/{GROUP}")
        shown = [await node.get(f"{DEFINITIONS}/{id}") for id in (DELETED, UPDATED)]
        assert (await node.send("DELETE", f"/messagecatalog/{GROUP}")).status == 204
        await node.put(f"/messagecatalog/{GROUP}", group)
        for definition in shown:
            assert (await node.send("POST", DEFINITIONS, definition)).status == 201
        after = await node.get(f"/messagegroups/{GROUP}?inline&doc")
        assert timeless(after) == timeless(before)


async def send_example(node: Node, command: str) -> None:
    arguments = [command, str(EXAMPLE), "--url", node.url]
    done = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    assert done.exit_code == 0, done.output


def contains(whole: Any, part: Any) -> bool:
    if not isinstance(part, dict):
        return bool(whole == part)
    return all(name in whole and contains(whole[name], value) for name, value in part.items())


def timeless(shown: Any) -> Any:
    """All but epochs and times."""
    if not isinstance(shown, dict):
        return shown
    return {
        name: timeless(value)
        for name, value in shown.items()
        if name not in ("epoch", "createdat", "modifiedat")
    }
