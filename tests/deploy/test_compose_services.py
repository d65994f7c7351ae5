"""The services of compose.yaml become a federation that asks who is there, and agrees."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import orjson
import pytest

from catalog.client import Client, Refused
from catalog.store.embeddedpostgres import start_embedded
from tests.deploy.composed import NODES, Composed, services
from tests.deploy.files import ROOT
from tests.deploy.prometheus import Prometheus
from tests.e2e.nodes import running, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

# On a machine that runs much else.
_SPARK_SECONDS = 600


@pytest.fixture
async def composed(tmp_path: Path) -> AsyncIterator[Composed]:
    """PostgreSQL with the databases that its service makes when it is fresh."""
    server = await start_embedded(tmp_path / "postgres")
    try:
        await _initialise(server.dsn)
        yield Composed(tmp_path, server.dsn)
    finally:
        await server.stop()


async def _initialise(dsn: str) -> None:
    [script] = [each for each in services()["postgres"]["volumes"] if "-initdb.d/" in each]
    statements = (ROOT / script.split(":")[0]).read_text().split(";")
    connection = await asyncpg.connect(dsn)
    try:
        for statement in statements[:-1]:
            await connection.execute(statement)
    finally:
        await connection.close()


async def test_what_east_publishes_is_in_west_and_spark_finds_no_difference(
    composed: Composed, tmp_path: Path
) -> None:
    async with composed.provider(), contextlib.AsyncExitStack() as stack:
        token = await composed.token("links")
        nodes = {name: composed.node(name, token) for name in NODES}
        await stack.enter_async_context(running(*nodes.values()))
        async with composed.script("links"):
            await until((tmp_path / "linked").exists, seconds=120, what="links")
        east = await stack.enter_async_context(nodes["east"].client())
        west = await stack.enter_async_context(nodes["west"].client())
        await east.create("/messagegroups/shop", {"messages": {"sold": {}}})
        await until(
            lambda: _has(west, "/messagegroups/shop/messages/sold"), seconds=60, what="the copy"
        )
        async with Client.open(nodes["east"].url) as stranger:
            with pytest.raises(Refused) as refused:
                await stranger.entity("/messagegroups/shop")
            assert refused.value.problem.status == 401
        async with composed.script("reconcile") as comparing:
            # Meanwhile, what is linked stays as it is.
            (tmp_path / "linked").unlink()
            async with composed.script("links"):
                await until((tmp_path / "linked").exists, seconds=120, what="links")
            assert len(await west.links()) == 1
            await _scrape(composed)
            report = tmp_path / "report"
            await until((report / "_SUCCESS").exists, seconds=_SPARK_SECONDS, what="a report")
            comparing.send_signal(signal.SIGTERM)
            async with asyncio.timeout(_SPARK_SECONDS):
                assert await comparing.wait() == 0
    summary = orjson.loads((report / "summary.json").read_bytes())
    assert summary["equal"], summary
    assert {each["name"] for each in summary["catalogs"]} == {*NODES}


async def _scrape(composed: Composed) -> None:
    """Wait until Prometheus, if there is one, has got in everywhere."""
    if shutil.which("prometheus") is None:
        return
    async with composed.prometheus() as prometheus:
        await until(
            lambda: _are_up(prometheus), seconds=120, what="figures of all nodes in Prometheus"
        )


async def _are_up(prometheus: Prometheus) -> bool:
    return {each["metric"]["node"] for each in await prometheus.query("up == 1")} == {*NODES}


async def _has(client: Client, xid: str) -> bool:
    try:
        await client.entity(xid)
    except Refused:
        return False
    return True
