"""Four nodes as processes: a hub that gathers two catalogs, and an edge that knows only the hub."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from catalog.client import Refused
from catalog.operations.links import NewLink
from tests.e2e.nodes import NodeProcess, node_at, running, until

ROUNDS = 2
WRITES = 12


@pytest.mark.parametrize("mode", ["events", "pull"])
async def test_a_federation_converges_although_its_hub_is_killed(tmp_path: Path, mode: str) -> None:
    """Writes and deletes go on at both authorities while the hub dies and comes back; in the
    end every node holds the same copy of everything, and no deleted entity came back."""
    chance = random.Random(7)
    nodes = {name: _node(tmp_path, name) for name in ("eu", "us", "hub", "edge")}
    async with running(*nodes.values()):
        await _link(nodes["hub"], nodes["eu"], mode=mode)
        await _link(nodes["hub"], nodes["us"], mode=mode)
        relayed = [nodes["eu"].url, nodes["us"].url]
        await _link(nodes["edge"], nodes["hub"], mode=mode, authorities=relayed)
        for _ in range(ROUNDS):
            await nodes["hub"].end(signal.SIGKILL)
            await asyncio.gather(*(_write(nodes[name], name, chance) for name in ("eu", "us")))
            await nodes["hub"].start()
            await asyncio.gather(*(_write(nodes[name], name, chance) for name in ("eu", "us")))
        await until(lambda: _agree(nodes), seconds=60, what="agreement of the four catalogs")
        held = await _held(nodes["edge"])
        assert any(row[3] for row in held), "something was deleted, and that is known"
        assert sum(not row[3] for row in held) > WRITES


def _node(directory: Path, name: str) -> NodeProcess:
    (directory / name).mkdir()
    return node_at(directory / name)


async def _link(target: NodeProcess, source: NodeProcess, **definition: Any) -> None:
    async with target.client() as client:
        await client.add_link(NewLink(source=source.url, **definition))


async def _write(node: NodeProcess, name: str, chance: random.Random) -> None:
    async with node.client() as client:
        for _ in range(WRITES):
            path = f"/messagegroups/{name}{chance.randrange(2)}/messages/m{chance.randrange(6)}"
            if chance.random() < 0.25:
                with contextlib.suppress(Refused):  # it may not be there
                    await client.delete(path)
            else:
                await client.replace(path, {"description": str(chance.random())})


async def _agree(nodes: dict[str, NodeProcess]) -> bool:
    eu, us, hub, edge = [await _held(nodes[name]) for name in ("eu", "us", "hub", "edge")]
    return eu | us == hub == edge


async def _held(node: NodeProcess) -> set[tuple[str, str, int, bool, str]]:
    """Every origin that a node knows, with its epoch and digest."""
    async with node.client() as client:
        rows = await client.digest_rows()
    return {(row.authority, row.origin, row.epoch, row.is_deleted, row.digest) for row in rows}
