"""A subscription loses nothing when its node is killed, whenever that happens."""

from __future__ import annotations

import itertools
import random
import signal
from collections import defaultdict
from pathlib import Path
from typing import Any

from catalog.client import Client, ClientError
from catalog.demo.eventsink import open_sink
from catalog.operations.subscriptions import NewSubscription
from tests.e2e.nodes import NodeProcess, node_at, running, until

KILLS = 4
CHANGES_BETWEEN_KILLS = 40


async def test_a_subscriber_misses_no_change_of_a_node_that_is_killed_again_and_again(
    tmp_path: Path,
) -> None:
    """kill -9 while changes are written and delivered: each acknowledged change arrives, at
    least once, and each entity's changes arrive in the order in which they were made."""
    chance = random.Random(20261121)
    received: list[dict[str, Any]] = []
    node = node_at(tmp_path)
    async with open_sink(lambda event: received.append(dict(event))) as sink, running(node):
        async with node.client() as client:
            types = ["io.xregistry.version.created", "io.xregistry.version.updated"]
            await client.subscribe(NewSubscription(sink=sink, protocol="HTTP", types=types))
        acknowledged: list[tuple[str, int]] = []
        for _ in range(KILLS):
            await _write_until_killed(node, chance, acknowledged)
            await node.start()
        await until(
            lambda: set(acknowledged) <= {_key(event) for event in received},
            seconds=60,
            what="the arrival of every acknowledged change",
        )
    assert len(acknowledged) >= KILLS * CHANGES_BETWEEN_KILLS / 2
    assert _are_in_order(received)


async def _write_until_killed(
    node: NodeProcess, chance: random.Random, acknowledged: list[tuple[str, int]]
) -> None:
    moment = chance.randrange(CHANGES_BETWEEN_KILLS // 2, CHANGES_BETWEEN_KILLS)
    async with node.client() as client:
        for count in itertools.count():
            if count == moment:
                await node.end(signal.SIGKILL)
            if not await _write(client, chance, acknowledged):
                return


async def _write(
    client: Client, chance: random.Random, acknowledged: list[tuple[str, int]]
) -> bool:
    path = f"/messagegroups/g/messages/m{chance.randrange(5)}"
    try:
        shown = await client.replace(path, {"description": str(chance.random())})
    except ClientError:
        return False
    acknowledged.append((f"{path}/versions/{shown['versionid']}", shown["epoch"]))
    return True


def _key(event: dict[str, Any]) -> tuple[str, int]:
    return event["subject"], int(event["epoch"])


def _are_in_order(events: list[dict[str, Any]]) -> bool:
    """Whether no subject's new epochs came out of order; repetitions are allowed."""
    seen: dict[str, list[int]] = defaultdict(list)
    for subject, epoch in map(_key, events):
        if epoch not in seen[subject]:
            seen[subject].append(epoch)
    return all(epochs == sorted(epochs) for epochs in seen.values())
