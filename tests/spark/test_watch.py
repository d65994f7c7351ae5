"""The watch of change streams: real nodes, a real topic, and Spark, which is killed in between."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from replication.applying.apply import Batch, apply_batch
from replication.deciding.provenance import Policy
from replication.reconcile.streamwatch import FINDINGS, StreamFinding
from tests.brokers.kafka import KafkaBroker
from tests.hostile.hostilesource import forged
from tests.integration.conftest import Node
from tests.integration.federation import (
    carries,
    databases,
    eventually,
    link,
    link_is,
    running,
    start_member,
)
from tests.integration.test_topic_links import publish

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sinks"), pytest.mark.timeout(300)]

_ROOT = Path(__file__).parents[2]
_SECONDS = 90.0


@asynccontextmanager
async def watching(
    directory: Path, *catalogs: str, lag: float = 3
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command, once it watches; it is killed in the end if it still runs."""
    options = ["--every=0.5", f"--lag={lag}", f"--report={directory}"]
    named = [f"--catalog={each}" for each in catalogs]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "catalog.cli", "watch", *named, *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        start_new_session=True,
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(_SECONDS):
            while b"Ctrl-C" not in (line := await process.stderr.readline()):
                assert line, "the watch has ended"
        yield process
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def read_findings(directory: Path) -> list[StreamFinding]:
    files = sorted((directory / FINDINGS).glob("*.parquet"))
    return [StreamFinding(**row) for file in files for row in pq.read_table(file).to_pylist()]


async def found(directory: Path, *wanted: tuple[str, str, str]) -> None:
    """Wait until these findings, by name, catalog and origin, are in the files."""

    async def is_there() -> bool:
        return {*wanted} <= {(e.finding, e.catalog, e.origin) for e in read_findings(directory)}

    await eventually(is_there, _SECONDS)


async def has_read(directory: Path) -> None:
    """Wait until a batch was executed, so that the streams have their beginning."""

    async def is_committed() -> bool:
        return any((directory / "checkpoint" / "commits").glob("[0-9]*"))

    await eventually(is_committed, _SECONDS)


def forget_the_last_commit(directory: Path) -> None:
    """Make Spark execute the batch of the newest findings again, as after a crash within it."""
    batch = max(int(file.stem.split("-")[1]) for file in (directory / FINDINGS).glob("*.parquet"))
    for kind, first in (("commits", batch), ("offsets", batch + 1)):
        for file in (directory / "checkpoint" / kind).iterdir():
            # Each file has a hidden one beside it with its checksum.
            name = file.name.removeprefix(".").removesuffix(".crc")
            if name.isdigit() and int(name) >= first:
                file.unlink()


async def change(node: Node, path: str, **changes: object) -> None:
    answer = await node.send("PATCH", path, changes)
    assert answer.status == 200, answer.body


async def test_the_watch_raises_each_finding_once_though_it_is_killed(
    postgres_url: str, template: str, kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = f"copies-{secrets.token_hex(4)}"
    quick = {"pull_interval_seconds": 0.3}
    async with (
        databases(postgres_url, template, 2) as [first, second],
        start_member(first, **quick) as eu,
        start_member(second, **quick) as us,
    ):
        await eu.put("/messagegroups/before", {})
        path = f"/replication/links/{(await link(us, eu))['id']}"
        await publish(eu, kafka, topic)
        catalogs = (f"eu={eu.url}", f"us={us.url}", f"topic=kafka://{kafka.address}/{topic}")
        async with running(eu, us):
            await eventually(lambda: carries(us, eu))
            await link_is(eu, "out", "current")
            await change(us, path, paused=True)
            # Without a lag, the batch that reads the changes finds that they are late.
            async with watching(tmp_path, *catalogs, lag=0) as process:
                await has_read(tmp_path)
                await eu.send("POST", "/messagegroups", {"forged": {}, "late": {}})
                for name in ("forged", "late"):
                    await found(tmp_path, ("late", "us", f"/messagegroups/{name}"))
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
            forget_the_last_commit(tmp_path)
            # Nobody watches while this happens. The repeated batch sees the forged copy, and no
            # longer that the copy was late.
            policy = Policy(own=us.database.node.authority, sender=eu.database.node.authority)
            copy = forged(eu.database.node.authority, "/messagegroups/forged", epoch=1)
            await apply_batch(us.context, Batch(copies=[copy], policy=policy))
            await eu.put("/messagegroups/unwatched", {})
            async with watching(tmp_path, *catalogs) as process:
                await found(tmp_path, ("diverged", "us", "/messagegroups/forged"))
                await found(tmp_path, ("late", "us", "/messagegroups/unwatched"))
                told = read_findings(tmp_path)
                # The watch goes on though an operator takes the files away.
                for file in (tmp_path / FINDINGS).glob("*.parquet"):
                    file.unlink()
                await change(us, path, paused=False)
                await eu.put("/messagegroups/before", {"description": "on time"})
                await eventually(lambda: carries(us, eu))
                await change(us, path, paused=True)
                # What arrives in time is no finding before this one.
                await eu.put("/messagegroups/after", {})
                await found(tmp_path, ("late", "us", "/messagegroups/after"))
                process.send_signal(signal.SIGTERM)
                assert await asyncio.wait_for(process.wait(), _SECONDS) == 0
    told += read_findings(tmp_path)
    counts = Counter((e.finding, e.catalog, e.origin) for e in told)
    # The node and the topic both have another content, which is one finding, or one for each
    # of the two if the forged copy is read first.
    counts.pop(("diverged", "topic", "/messagegroups/forged"), None)
    assert counts == {
        ("late", "us", "/messagegroups/forged"): 1,
        ("late", "us", "/messagegroups/late"): 1,
        ("late", "us", "/messagegroups/unwatched"): 1,
        ("late", "us", "/messagegroups/after"): 1,
        ("diverged", "us", "/messagegroups/forged"): 1,
    }
    assert {e.expected for e in told} == {1}
