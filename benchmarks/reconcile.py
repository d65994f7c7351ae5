"""The command `concord reconcile` over two nodes, in memory and on Spark."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.bootstrap import fingerprints, seed, until_equal
from benchmarks.figure import Aim, Figure, middle
from benchmarks.load import connected, send_request
from benchmarks.messages import REPLICATED_PER_GROUP, entities_in
from benchmarks.process import node
from benchmarks.size import Size
from catalog.client import Client
from catalog.operations.links import NewLink

_FEW, _MANY = 1000, 100_000
_DIFFERING = 100
_ROUNDS = 3
_LONGEST_SECONDS = 600


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure the command on small catalogs, then on larger ones."""
    whole = entities_in(1, REPLICATED_PER_GROUP)
    figures = await _measure(directory, "few", -(-_FEW // whole), Aim(bound=2, is_most=True))
    groups = -(-_MANY // whole) if size.replica_groups >= _MANY // whole // 2 else 40
    return figures + await _measure(directory, "many", groups, None)


async def _measure(directory: Path, name: str, groups: int, aim: Aim | None) -> list[Figure]:
    """Compare two catalogs that agree, then where some entities differ."""
    count = entities_in(groups, REPLICATED_PER_GROUP)
    async with (
        asyncio.timeout(_LONGEST_SECONDS),
        node(directory, f"{name}-source") as source,
        node(directory, f"{name}-replica") as replica,
        Client.open(source) as origin,
        Client.open(replica) as target,
    ):
        await seed(source, groups)
        await target.add_link(NewLink(id="from", source=source, mode="pull"))
        await until_equal(target, "from", await fingerprints(origin))
        catalogs = [f"--catalog=a={source}", f"--catalog=b={replica}", "--settle=0"]
        equal = [await _seconds(0, *catalogs, "--fast") for _ in range(_ROUNDS)]
        proved = [await _seconds(0, *catalogs) for _ in range(_ROUNDS)]
        await target.pause_link("from")
        await _change(source, groups)
        differing = [await _seconds(1, *catalogs, "--fast") for _ in range(_ROUNDS)]
        on_spark = await _seconds(1, *catalogs, "--fast", "--master=local[*]")
    noted = f"two catalogs of {count:,} entities"
    return [
        Figure(
            name="Reconcile, stored digests agree",
            unit="s",
            value=middle(equal),
            aim=aim,
            note=noted,
        ),
        Figure(
            name="Reconcile, computed digests agree", unit="s", value=middle(proved), note=noted
        ),
        Figure(
            name=f"Reconcile, {_DIFFERING} differ",
            unit="s",
            value=middle(differing),
            baseline=on_spark,
            note=f"{noted}; the baseline uses Spark",
        ),
    ]


async def _seconds(code: int, *options: str) -> float:
    """Run the command, which is to end with an exit code; return how long it took."""
    command: Sequence[str] = (sys.executable, "-m", "catalog.cli", "reconcile", *options)
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    assert process.returncode == code, said.decode()
    return time.perf_counter() - began


async def _change(url: str, groups: int) -> None:
    """Change one version of each of some messages."""
    async with connected(url, 1) as (connection,):
        for number in range(_DIFFERING):
            path = f"/messagegroups/g{number % groups}/messages/m{number // groups % 60}"
            body = f'{{"description": "changed {number}"}}'.encode()
            await connection.request(send_request("PUT", url, path, body))
