"""A link that is current compares digests with its peer periodically, and reports differences."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from replication.applying.apply import Batch, apply_batch
from replication.deciding.provenance import Policy
from tests.hostile.hostilesource import forged
from tests.integration.conftest import Node
from tests.integration.federation import (
    carries,
    databases,
    eventually,
    execute,
    link,
    link_history_is,
    link_is,
    members,
    running,
    start_member,
)
from tests.integration.meteredsource import metered

_MOST_BYTES = 64 * 1024
_SETTINGS = {"pull_interval_seconds": 0.2, "comparison_interval_seconds": 0.2}


@pytest.fixture
async def pair(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, Node]]:
    """A sender and a receiver."""
    async with members(postgres_url, template, 2, **_SETTINGS) as [sender, receiver]:
        await sender.put("/messagegroups/g")
        messages = {f"m{number}": {"description": "text"} for number in range(20)}
        answer = await sender.send("POST", "/messagegroups/g/messages", messages)
        assert answer.status == 200, answer.body
        await sender.changes()
        yield sender, receiver


async def push(sender: Node, receiver: Node, **more: Any) -> None:
    accepted = {"id": "in", "authority": sender.database.node.authority, "mode": "accept"}
    answer = await receiver.send("POST", "/replication/links", accepted | more)
    assert answer.status == 201, answer.body
    body = {"id": "eu", "target": receiver.url, "mode": "push", **more}
    assert (await sender.send("POST", "/replication/links", body)).status == 201


async def shown(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = await node.get("/replication/links/eu")
    return found


async def has_compared(node: Node, differing: int) -> None:
    """Wait until a comparison that begins now has found so many differences."""
    before = (await shown(node)).get("comparedat")

    async def has_found() -> bool:
        found = await shown(node)
        return found.get("comparedat") != before and found.get("differing") == differing

    await eventually(has_found)


@pytest.mark.parametrize("mode", ["pull", "events", "push"])
async def test_an_entity_that_was_damaged_is_reported_until_it_agrees_again(
    pair: tuple[Node, Node], mode: str
) -> None:
    sender, receiver = pair
    runs = sender if mode == "push" else receiver
    if mode == "push":
        await push(sender, receiver)
    else:
        await link(receiver, sender, id="eu", mode=mode)
    async with running(sender, receiver, deliveries=mode == "events"):
        await link_is(runs, "eu", "current")
        await has_compared(runs, 0)
        await execute(
            receiver,
            "UPDATE entities SET digest = sha256(digest), fingerprint = 1 WHERE xid LIKE '%/m1'",
        )
        await execute(receiver, "DELETE FROM entities WHERE xid LIKE '%/m2%' AND kind = 'version'")
        await link_history_is(runs, "eu", "differs")
        found = await shown(runs)
        assert found["differing"] == 2
        [event] = [each for each in found["history"] if each["event"] == "differs"][:1]
        assert "/messagegroups/g/messages/m1 of" in event["detail"]
        assert "`concord link reset eu`" in event["detail"]
        answer = await runs.send("POST", "/replication/links/eu/reset", {"full": True})
        assert answer.status == 200, answer.body
        await link_history_is(runs, "eu", "agrees", "differs")
        assert await carries(receiver, sender)


async def test_a_catalog_that_changes_all_the_time_is_not_reported(
    pair: tuple[Node, Node],
) -> None:
    sender, receiver = pair
    random = Random(7)
    await link(receiver, sender, id="eu", mode="pull")
    async with running(receiver):
        await link_is(receiver, "eu", "current")
        for number in range(150):
            path = f"/messagegroups/g/messages/m{random.randrange(30)}"
            if random.random() < 0.2:
                await sender.send("DELETE", path)
            else:
                await sender.put(path, {"description": f"text {number}"})
        await has_compared(receiver, 0)
        events = {each["event"] for each in (await shown(receiver))["history"]}
    assert "differs" not in events


async def test_a_conflict_is_no_difference(pair: tuple[Node, Node]) -> None:
    sender, receiver = pair
    await receiver.put("/messagegroups/taken")
    await sender.put("/messagegroups/taken")
    await link(receiver, sender, id="eu", mode="pull")
    async with running(receiver):
        await link_is(receiver, "eu", "current")
        await has_compared(receiver, 0)
        assert (await shown(receiver))["conflicts"] == 1


async def test_a_pushing_link_answers_for_the_entities_of_its_own_node_alone(
    pair: tuple[Node, Node],
) -> None:
    """The target may follow another authority itself, and ignores what is relayed then."""
    sender, receiver = pair
    relayed = forged("urn:other", "/messagegroups/o", epoch=5)
    policy = Policy(own=sender.database.node.authority, sender="urn:other")
    await apply_batch(sender.context, Batch(copies=[relayed], policy=policy))
    await push(sender, receiver, authorities=["*"])
    async with running(sender, receiver):
        await link_is(sender, "eu", "current")
        await has_compared(sender, 0)
        await execute(
            receiver,
            "UPDATE entities SET digest = sha256(digest), fingerprint = 1 WHERE xid LIKE '%/o'",
        )
        for _ in range(3):
            await has_compared(sender, 0)


async def test_two_catalogs_that_agree_send_each_other_little(pair: tuple[Node, Node]) -> None:
    sender, receiver = pair
    async with metered(sender) as way, running(receiver):
        body = {"id": "eu", "source": way.url, "mode": "pull"}
        assert (await receiver.send("POST", "/replication/links", body)).status == 201
        await link_is(receiver, "eu", "current")
        await has_compared(receiver, 0)
        way.forget()
        await has_compared(receiver, 0)
        assert 0 < way.bytes < _MOST_BYTES


async def test_comparisons_can_be_switched_off(postgres_url: str, template: str) -> None:
    settings = {**_SETTINGS, "comparison_interval_seconds": 0}
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_member(one) as sender,
        start_member(two, **settings) as receiver,
    ):
        await link(receiver, sender, id="eu", mode="pull")
        async with running(receiver):
            await link_is(receiver, "eu", "current")
            await sender.put("/messagegroups/g")
            await eventually(lambda: carries(receiver, sender))
            assert "comparedat" not in await shown(receiver)
