"""A hundred kills -9 of a node at random moments of its deliveries lose nothing."""

from __future__ import annotations

import asyncio
import random
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from catalog.demo.eventsink import open_sink
from tests.e2e.forkednodes import kill_forked, start_forked
from tests.e2e.nodes import node_at, until
from tests.integration.conftest import Node, start_node

SEED = 20261122
KILLS = 100
SUBJECTS = 5
CHANGES_BETWEEN_KILLS = 12
LONGEST_LIFE_SECONDS = 0.15


@pytest.mark.timeout(900)
async def test_a_hundred_kills_lose_nothing_and_keep_the_order(
    database_url: str, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    received: list[dict[str, Any]] = []
    environment = node_at(tmp_path, CONCORD_DATABASE_URL=database_url).environment
    async with (
        # It writes, and does not deliver.
        start_node(database_url, allow_private_addresses=True) as writer,
        open_sink(lambda event: received.append(dict(event))) as sink,
    ):
        types = ["io.xregistry.group.created", "io.xregistry.group.updated"]
        asked = {"sink": sink, "protocol": "HTTP", "types": types}
        answer = await writer.send("POST", "/subscriptions", asked)
        assert answer.status == 201, answer.body
        for _ in range(KILLS):
            node = start_forked(environment, tmp_path / "node.log")
            await _kill_while_it_delivers(node, writer, chance, received)
        node = start_forked(environment, tmp_path / "node.log")
        path = f"/subscriptions/{answer.json['id']}"
        await until(lambda: _is_done(writer, path), seconds=90, what="the last delivery")
        await asyncio.to_thread(kill_forked, node)
        logged = [each for each in await writer.changes() if each.change.kind == "group"]
    assert len(logged) == KILLS * CHANGES_BETWEEN_KILLS
    for xid in {each.change.xid for each in logged}:
        sent = [str(each.position) for each in logged if each.change.xid == xid]
        came = [event["sequence"] for event in received if event["subject"] == xid]
        assert [*dict.fromkeys(came)] == sent


async def _kill_while_it_delivers(
    node: BaseProcess, writer: Node, chance: random.Random, received: list[dict[str, Any]]
) -> None:
    """Write, and kill the node at a random moment after it has begun to deliver."""
    before, life = len(received), chance.uniform(0, LONGEST_LIFE_SECONDS)
    for _ in range(CHANGES_BETWEEN_KILLS):
        path = f"/messagegroups/g{chance.randrange(SUBJECTS)}"
        await writer.put(path, {"description": str(chance.random())})
    await until(lambda: len(received) > before, seconds=60, what="a delivery")
    await asyncio.sleep(life)
    await asyncio.to_thread(kill_forked, node)


async def _is_done(writer: Node, path: str) -> bool:
    return bool((await writer.get(path))["status"]["lag"] == 0)
