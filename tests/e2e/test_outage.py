"""Nodes whose PostgreSQL is killed, stopped or hangs under them."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from catalog.client import Client, ClientError
from catalog.demo.eventsink import open_sink
from catalog.operations.links import NewLink
from catalog.operations.subscriptions import NewSubscription
from catalog.store.embeddedpostgres import start_embedded
from tests.e2e.nodes import NodeProcess, node_at, running, until
from tests.postmaster import kill_server, send_to_server

KILLS = 3
WRITES_BETWEEN_KILLS = 15
END_SECONDS = 5
# PostgreSQL gets a while to end by itself before it is killed.
HANGING_END_SECONDS = 10


async def test_no_acknowledged_write_is_lost_while_postgresql_is_killed_again_and_again(
    tmp_path: Path,
) -> None:
    """The node starts it again, and goes on by itself: to write, to deliver, and as a link's
    target and source."""
    (tmp_path / "other").mkdir()
    node, other = node_at(tmp_path), node_at(tmp_path / "other")
    told: set[str] = set()
    async with (
        open_sink(lambda event: told.add(str(event.get("subject")))) as sink,
        running(node, other),
        node.client() as client,
        other.client() as reader,
    ):
        await client.subscribe(NewSubscription(sink=sink, protocol="HTTP"))
        await reader.add_link(NewLink(source=node.url, mode="events"))
        acknowledged: list[str] = []
        for count in range(KILLS):
            for _ in range(WRITES_BETWEEN_KILLS):
                await _write(client, acknowledged)
            kill_server(Path(node.environment["CONCORD_DATA_DIR"]))
            if count == 1:
                kill_server(Path(other.environment["CONCORD_DATA_DIR"]))
        await _write(client, acknowledged)
        for path in acknowledged:
            await client.get(path)
        await until(lambda: told.issuperset(acknowledged), what="every event")
        await until(lambda: _has_all(reader, acknowledged), what="every replica")
    assert _outages(node) == KILLS
    assert "Traceback" not in node.log.read_text()


async def _write(client: Client, acknowledged: list[str]) -> None:
    """Write one group, however often that takes, as a client does that is told to come again."""
    path = f"/messagegroups/g{len(acknowledged)}"

    async def is_written() -> bool:
        try:
            await client.put(path, {})
        except ClientError:
            return False
        return True

    await until(is_written, what="a write")
    acknowledged.append(path)


async def _has_all(client: Client, paths: list[str]) -> bool:
    try:
        found = [await client.get(path) for path in paths]
    except ClientError:
        return False
    return len(found) == len(paths)


def _outages(node: NodeProcess) -> int:
    said = node.log.read_text()
    assert said.count("the database is back") == said.count("the database is away")
    return said.count("the database is away")


async def test_a_node_waits_for_a_server_that_somebody_else_starts_and_stops(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "foreign"
    server = await start_embedded(directory)
    node = node_at(tmp_path, CONCORD_DATABASE_URL=server.dsn)
    async with running(node), node.client() as client:
        await client.put("/messagegroups/g", {})
        await server.stop()
        await until(lambda: _is_refused(client), what="the outage")
        server = await start_embedded(directory)
        try:
            await until(lambda: _has_all(client, ["/messagegroups/g"]), what="the recovery")
            await client.put("/messagegroups/g/messages/m", {})
        finally:
            await server.stop()
        await until(lambda: _is_refused(client), what="the second outage")
        await _end(node)
    assert node.log.read_text().count("the database is away") == 2


async def _is_refused(client: Client) -> bool:
    try:
        await client.get("/messagegroups/g")
    except ClientError as error:
        return "database of this catalog" in str(error)
    return False


@pytest.mark.parametrize("how", ["killed", "hanging", "starting"])
async def test_a_node_ends_promptly_whatever_its_database_does(tmp_path: Path, how: str) -> None:
    node = node_at(tmp_path)
    directory = Path(node.environment["CONCORD_DATA_DIR"])
    if how == "starting":
        starting = asyncio.create_task(node.start())
        await until((directory / "data.new").exists, what="the first start of PostgreSQL")
        await _end(node)
        with pytest.raises(AssertionError):
            await starting
        return
    async with running(node):
        if how == "killed":
            kill_server(directory)
        else:
            send_to_server(directory, signal.SIGSTOP)
        await _end(node, HANGING_END_SECONDS if how == "hanging" else END_SECONDS)


async def _end(node: NodeProcess, seconds: float = END_SECONDS) -> None:
    """SIGTERM: a clean end within seconds."""
    async with asyncio.timeout(seconds):
        assert await node.end(signal.SIGTERM) == 0
    assert node.log.read_text().splitlines()[-1] == "Stopped cleanly."
