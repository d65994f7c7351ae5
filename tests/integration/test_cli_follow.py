"""Commands that write replicas at their authority, when they are asked to."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from replication.routes import routes
from tests.integration.commandline import concord
from tests.integration.conftest import Node, start_node
from tests.integration.federation import carries, databases, eventually, link, running

MESSAGE = "/messagegroups/g/messages/m"
DOCUMENT = {"messagegroups": {"g": {"messages": {"m": {"description": "by file"}}}}}


@pytest.fixture
async def nodes(postgres_url: str, template: str) -> AsyncIterator[list[Node]]:
    """A source, and a replica of it."""
    async with databases(postgres_url, template, 2) as urls, contextlib.AsyncExitStack() as stack:
        source, target = [
            await stack.enter_async_context(start_node(url, routes=routes)) for url in urls
        ]
        await source.put(MESSAGE, {"description": "first"})
        await link(target, source)
        async with running(target):
            await eventually(lambda: carries(target, source))
        yield [source, target]


async def test_a_replica_is_deleted_at_its_authority_when_that_is_asked_for(
    nodes: list[Node],
) -> None:
    source, target = nodes
    refused = await concord(target, "delete", "--yes", MESSAGE)
    assert refused.exit_code == 1
    assert (await source.send("GET", MESSAGE)).status == 200
    forbidden = await concord(
        target, "delete", "--yes", "--follow", MESSAGE, CONCORD_ALLOW_PRIVATE_ADDRESSES="false"
    )
    assert forbidden.exit_code == 2, forbidden.output
    assert (await source.send("GET", MESSAGE)).status == 200
    done = await concord(target, "delete", "--yes", "--follow", MESSAGE)
    assert done.exit_code == 0, done.output
    assert source.url in done.stderr
    assert (await source.send("GET", MESSAGE)).status == 404


@pytest.mark.parametrize("command", ["import", "apply"])
async def test_documents_of_replicas_are_written_at_their_authority(
    nodes: list[Node], tmp_path: Path, command: str
) -> None:
    source, target = nodes
    path = tmp_path / "g.xreg.json"
    path.write_bytes(orjson.dumps(DOCUMENT))
    await concord(target, command, str(path))
    assert (await source.get(MESSAGE))["description"] == "first"
    done = await concord(target, command, "--follow", str(path))
    assert done.exit_code == 0, done.output
    assert (await source.get(MESSAGE))["description"] == "by file"


@pytest.mark.parametrize("command", ["import", "apply"])
async def test_documents_of_several_catalogs_are_not_sent(
    nodes: list[Node], tmp_path: Path, command: str
) -> None:
    source, target = nodes
    path = tmp_path / "g.xreg.json"
    mixed = {"messagegroups": {**DOCUMENT["messagegroups"], "new": {}}}
    path.write_bytes(orjson.dumps(mixed))
    refused = await concord(target, command, "--follow", str(path))
    assert refused.exit_code == 2
    assert "several catalogs" in refused.stderr
    assert (await source.get(MESSAGE))["description"] == "first"
    assert (await target.send("GET", "/messagegroups/new")).status == 404


@pytest.mark.parametrize("command", ["import", "apply"])
async def test_documents_of_the_node_itself_stay_there(
    nodes: list[Node], tmp_path: Path, command: str
) -> None:
    source, target = nodes
    path = tmp_path / "g.xreg.json"
    path.write_bytes(orjson.dumps({"messagegroups": {"own": {}}}))
    done = await concord(target, command, "--follow", str(path))
    assert done.exit_code == 0, done.output
    assert (await target.send("GET", "/messagegroups/own")).status == 200
    assert (await source.send("GET", "/messagegroups/own")).status == 404
