"""`concord serve --processes`: one node that several processes answer for."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
import pytest_asyncio

from catalog.operations.subscriptions import NewSubscription
from catalog.settings import Settings
from tests.e2e.nodes import NodeProcess, node_at, running, until
from tests.integration.webhooksink import WebHookSink

pytestmark = pytest.mark.asyncio(loop_scope="module")

M = "/messagegroups/g/messages/m"
PROCESSES = 2
CONNECTIONS = 8


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NodeProcess]:
    directory = tmp_path_factory.mktemp("node")
    directory.chmod(0o711)  # The account of the server passes through.
    node = node_at(directory, CONCORD_PROCESSES=str(PROCESSES))
    async with running(node):
        await until(lambda: "Concord serves" in node.log.read_text(), seconds=90)
        yield node


@pytest_asyncio.fixture(loop_scope="module")
async def clients(node: NodeProcess) -> AsyncIterator[list[aiohttp.ClientSession]]:
    """Clients that keep their connections, each of which one of the processes has accepted."""
    async with AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(aiohttp.ClientSession(node.url))
            for _ in range(CONNECTIONS)
        ]
        # One of the processes may have been killed by the test before.
        await asyncio.gather(*(until(partial(_is_served, client)) for client in opened))
        yield opened


async def _is_served(client: aiohttp.ClientSession) -> bool:
    try:
        async with client.get("/") as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


async def read(client: aiohttp.ClientSession, path: str) -> Any:
    async with client.get(path) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def put(client: aiohttp.ClientSession, path: str, body: Any) -> None:
    async with client.put(path, json=body) as answer:
        assert answer.status in (200, 201), await answer.text()


def members_of(node: NodeProcess) -> list[psutil.Process]:
    """The processes of a node that answer or do its work: children of the one that is forked."""
    assert node.process is not None
    below = psutil.Process(node.process.pid).children()
    found = [member for each in below for member in each.children()]
    return [member for member in found if is_alive(member)]


async def test_a_write_is_seen_by_every_process_once_it_is_answered(
    clients: list[aiohttp.ClientSession],
) -> None:
    await put(clients[0], M, {"name": "0"})
    for number in range(1, 40):
        writer = clients[number % CONNECTIONS]
        await put(writer, M, {"name": str(number)})
        seen = await asyncio.gather(*(read(client, M) for client in clients))
        assert {each["name"] for each in seen} == {str(number)}


async def test_a_configuration_is_in_force_in_every_process_once_it_is_answered(
    clients: list[aiohttp.ClientSession],
) -> None:
    source = await read(clients[0], "/modelsource")
    for number, writer in enumerate(clients):
        plural = f"dirs{number}"
        source["groups"][plural] = {"singular": f"dir{number}"}
        await put(writer, "/modelsource", source)
        await asyncio.gather(
            *(put(client, f"/{plural}/d{n}", {}) for n, client in enumerate(clients))
        )


async def test_one_process_delivers_and_the_others_answer(node: NodeProcess) -> None:
    async with WebHookSink() as sink, node.client() as client:
        await client.subscribe(NewSubscription(sink=sink.url, protocol="HTTP"))
        await client.create("/messagegroups/told", {})
        await sink.has(lambda sink: sink.events)
        assert len(members_of(node)) == PROCESSES + 1
        told = (await client.request("GET", "/metrics")).body.decode()
        assert 'concord_changes_total{action="created",kind="group"}' in told


async def test_a_process_that_ends_is_started_again(node: NodeProcess) -> None:
    before = {each.pid for each in members_of(node)}
    async with node.client() as client:
        await client.create("/messagegroups/sooner", {})
    await until(partial(_has_connections, node), what="the connections of all processes")
    counted = (await samples(node))[_CREATED]
    for pid in before:
        os.kill(pid, signal.SIGKILL)

    async def is_whole() -> bool:
        now = {each.pid for each in members_of(node)}
        return len(now) == PROCESSES + 1 and now.isdisjoint(before)

    await until(is_whole, what="other processes")
    async with node.client() as client:
        await until(client.is_ready, what="the node")
        await client.create("/messagegroups/later", {})
    assert (await samples(node))[_CREATED] > counted, "counters outlive processes"
    await until(partial(_has_connections, node), what="the connections of the new processes alone")


_CREATED = 'concord_changes_total{action="created",kind="group"}'
_LIMIT = 'concord_pool_limit{pool="tasks"}'


async def samples(node: NodeProcess) -> dict[str, float]:
    async with node.client() as client:
        told = (await client.request("GET", "/metrics")).body.decode()
    lines = (line.rpartition(" ") for line in told.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


async def _has_connections(node: NodeProcess) -> bool:
    each = Settings().database_task_connections
    return (await samples(node)).get(_LIMIT) == (PROCESSES + 1) * each


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_no_process_outlives_its_supervisor(tmp_path: Path, how: signal.Signals) -> None:
    node = node_at(tmp_path, CONCORD_PROCESSES="2")
    async with running(node):
        members = members_of(node)
        status = await node.end(how)
    assert status == (0 if how is signal.SIGTERM else -signal.SIGKILL)
    await until(lambda: not any(map(is_alive, members)), what="the end of all processes")


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_a_node_that_cannot_start_says_why_once(tmp_path: Path) -> None:
    node = node_at(
        tmp_path, CONCORD_PROCESSES="2", CONCORD_DATABASE_URL="postgresql://127.0.0.1:1/none"
    )
    with pytest.raises(AssertionError, match="The database cannot be used"):
        await node.start()
    assert node.process is not None
    assert await node.process.wait() == 2
    assert node.log.read_text().count("The database cannot be used") == 1
