"""A group changes hands although both nodes are killed meanwhile."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from catalog.client import Client, ClientError, Refused
from catalog.operations.handovers import BEGIN_HANDOVER, LIST_HANDOVERS, NewHandover
from catalog.operations.links import NewLink
from tests.e2e.nodes import NodeProcess, node_at, running, until
from tests.integration.federation import databases

GROUP = "/messagegroups/g"
MESSAGES = 300

# It starts each of two servers several times.
pytestmark = pytest.mark.timeout(300)


async def test_a_group_is_owned_by_one_side_whenever_either_is_killed(
    tmp_path: Path, postgres_url: str, template: str
) -> None:
    """kill -9 of the giver as soon as the group is offered, and of each side as soon as it may have
    done its part; what is written afterwards shows whose it is."""
    async with databases(postgres_url, template, 2) as urls:
        nodes = []
        for name, url in zip(("giver", "taker"), urls, strict=True):
            (tmp_path / name).mkdir()
            nodes.append(node_at(tmp_path / name, CONCORD_DATABASE_URL=url))
        async with running(*nodes):
            await _hand_over(*nodes)


async def _hand_over(giver: NodeProcess, taker: NodeProcess) -> None:
    async with giver.client() as client:
        await client.put(GROUP, {})
        body = {f"m{number}": {"description": "as it was"} for number in range(MESSAGES)}
        await client.post(f"{GROUP}/messages", body)
        await client.add_link(NewLink(id="taker", source=taker.url, mode="pull"))
    async with taker.client() as client:
        await client.call(BEGIN_HANDOVER, _handover("from", giver))
    async with giver.client() as client:
        await client.call(BEGIN_HANDOVER, _handover("to", taker))
        await _kill(giver)
        await until(lambda: _has_offered(taker), what="the offer", seconds=90)
        await _kill(taker)
        await until(lambda: _has_given(client), what="the end of the giver's part", seconds=90)
        await asyncio.gather(_kill(giver), _kill(taker))
        await until(lambda: _is_done(client), what="the end of the handover", seconds=90)
        with pytest.raises(Refused, match="read-only"):
            await client.put(f"{GROUP}/messages/m1", {"description": "the giver's"})
    async with taker.client() as client:
        written = await client.put(f"{GROUP}/messages/m1", {"description": "the taker's"})
        assert written["epoch"] == 4
        assert (await client.get(GROUP))["messagescount"] == MESSAGES

    async def is_followed() -> bool:
        async with giver.client() as one, taker.client() as other:
            rows = [await each.digest_rows() for each in (one, other)]
        held = [{row for row in each if row.xid != "/"} for each in rows]
        return held[0] == held[1]

    await until(is_followed, what="what the taker has written", seconds=90)


def _handover(way: str, other: NodeProcess) -> NewHandover:
    return NewHandover.model_validate({"group": GROUP, way: other.url})


async def _kill(node: NodeProcess) -> None:
    await node.end(signal.SIGKILL)
    await node.start()


async def _state_at(client: Client) -> str:
    """The state of the only handover, empty while the node does not answer."""
    try:
        [found] = (await client.call(LIST_HANDOVERS)).handovers
    except ClientError:
        return ""
    return found.state


async def _has_offered(node: NodeProcess) -> bool:
    async with node.client() as client:
        return await _state_at(client) in ("asked", "promised", "done")


async def _has_given(client: Client) -> bool:
    return await _state_at(client) in ("given", "done")


async def _is_done(client: Client) -> bool:
    return await _state_at(client) == "done"
