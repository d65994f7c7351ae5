"""A node whose disk is lost comes back from its follower, even if it is killed meanwhile."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from catalog.client import Client, ClientError
from catalog.client.replication import DigestRow
from catalog.operations.links import NewLink
from catalog.operations.recovery import ABORT_RECOVERY, BEGIN_RECOVERY, GET_RECOVERY, NewRecovery
from tests.e2e.nodes import NodeProcess, node_at, running, until

MESSAGES = 300
GROUP = "/messagegroups/g"

# It starts five servers, one after the other.
pytestmark = pytest.mark.timeout(300)


async def rows_of(node: NodeProcess, authority: str) -> set[DigestRow]:
    async with node.client() as client:
        return {row for row in await client.digest_rows() if row.authority == authority}


async def state_of(client: Client) -> str:
    """The state of the recovery, empty while the node does not answer."""
    try:
        return (await client.call(GET_RECOVERY)).state
    except ClientError:
        return ""


async def test_a_node_that_lost_its_disk_recovers_though_it_is_killed_in_the_middle(
    tmp_path: Path,
) -> None:
    """kill -9 as soon as the recovery has begun, and again once it has read its source."""
    (tmp_path / "lost").mkdir()
    (tmp_path / "replica").mkdir()
    lost = node_at(tmp_path / "lost", CONCORD_AWAIT_RECOVERY="true")
    replica = node_at(tmp_path / "replica")
    async with running(lost, replica):
        async with lost.client() as client:
            await client.call(ABORT_RECOVERY)
            await client.put(GROUP, {})
            body = {f"m{number}": {"description": "as it was"} for number in range(MESSAGES)}
            await client.post(f"{GROUP}/messages", body)
            await client.delete(f"{GROUP}/messages/m0")
        before = await rows_of(lost, lost.url)
        async with replica.client() as client:
            await client.add_link(NewLink(id="from", source=lost.url, mode="pull"))

        async def is_followed() -> bool:
            return await rows_of(replica, lost.url) == await rows_of(lost, lost.url)

        await until(is_followed, what="the first copy")
        await lost.end(signal.SIGTERM)
        shutil.rmtree(tmp_path / "lost" / "data")
        await lost.start()
        async with lost.client() as client:
            await client.call(BEGIN_RECOVERY, NewRecovery(sources=[replica.url]))
            await lost.end(signal.SIGKILL)
            await lost.start()
            await until(lambda: _has_read(client), what="the end of the reading")
            await lost.end(signal.SIGKILL)
            await lost.start()
            await until(lambda: _is_done(client), what="the end of the recovery")
            assert await rows_of(lost, lost.url) == before
            await client.put(f"{GROUP}/messages/m1", {"description": "afterwards"})
            await client.put(f"{GROUP}/messages/m0", {"description": "again"})
        await until(is_followed, what="what was written after the recovery")


async def _has_read(client: Client) -> bool:
    return await state_of(client) in ("taking", "done")


async def _is_done(client: Client) -> bool:
    return await state_of(client) == "done"
