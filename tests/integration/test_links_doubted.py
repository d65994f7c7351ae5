"""A link that begins to follow an authority itself doubts what others brought in its name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from replication.applying.apply import Batch, apply_batch
from replication.deciding.copychecks import Copy
from replication.deciding.provenance import Policy
from tests.hostile.hostilesource import forged, forged_end, forged_message, hostile_source
from tests.integration.conftest import Node
from tests.integration.federation import (
    digest_rows,
    eventually,
    link_history_is,
    link_is,
    running,
    start_member,
)

OWNER, RELAY = "urn:owner", "urn:relay"


@pytest.fixture
async def member(database_url: str) -> AsyncIterator[Node]:
    async with start_member(database_url, pull_interval_seconds=0.2) as node:
        yield node


async def relay(node: Node, *copies: Copy) -> None:
    """Let a relay bring copies."""
    policy = Policy(own=node.database.node.authority, sender=RELAY)
    await apply_batch(node.context, Batch(copies=copies, policy=policy))


async def follow(node: Node, url: str) -> None:
    body = {"id": "owner", "source": url, "mode": "pull", "authority": OWNER}
    answer = await node.send("POST", "/replication/links", body)
    assert answer.status == 201, answer.body


async def epochs(node: Node) -> dict[str, int]:
    """The epochs of what lives, by xid; those of what is deleted are negative."""
    rows = await digest_rows(node)
    return {o[1]: -row[0] if row[1] == "true" else row[0] for o, row in rows.items()}


async def test_a_copy_that_breaks_off_drops_nothing_and_goes_on_doubting(member: Node) -> None:
    await relay(
        member,
        forged(OWNER, "/messagegroups/g", epoch=50),
        forged_end(OWNER, "/messagegroups/h", epoch=60),
        forged_end(OWNER, "/messagegroups/never", epoch=60),
        *forged_message(OWNER, "new", "m", epoch=70),
    )
    true = [forged(OWNER, f"/messagegroups/{id}", epoch=2, text="true") for id in "gh"]
    async with hostile_source(OWNER, *true) as owner, running(member):
        owner.breaks_off = True
        await follow(member, owner.url)
        await link_is(member, "owner", "waiting")
        assert (await epochs(member))["/messagegroups/new"] == 70
        owner.breaks_off = False
        await link_history_is(member, "owner", "dropped", "copied")
        await link_is(member, "owner", "current")
    assert await epochs(member) == {"/messagegroups/g": 2, "/messagegroups/h": 2}
    assert (await member.get("/messagegroups/g"))["description"] == "true"


async def test_what_its_authority_has_but_this_node_cannot_take_is_not_dropped(
    member: Node,
) -> None:
    await relay(member, forged(OWNER, "/messagegroups/g", epoch=5))
    spoilt = replace(forged(OWNER, "/messagegroups/g", epoch=2), digest=b"\0" * 32)
    async with hostile_source(OWNER, spoilt) as owner, running(member):
        await follow(member, owner.url)
        await link_is(member, "owner", "current")
    assert await epochs(member) == {"/messagegroups/g": 5}


async def test_a_source_that_lacks_most_of_what_is_here_is_not_believed_at_once(
    member: Node,
) -> None:
    held = [forged(OWNER, f"/messagegroups/g{number}", epoch=1) for number in range(60)]
    await relay(member, *held)
    async with hostile_source(OWNER, *held[:15]) as owner, running(member):
        await follow(member, owner.url)
        await link_is(member, "owner", "asking")
        shown = await member.get("/replication/links/owner")
        question = shown.get("question")
        assert (question["deletions"], question["of"]) == (45, 60)
        assert "45 of the 60 entities" in shown["error"]
        assert f"`concord link allow owner {question['digest']}`" in shown["error"]
        assert len(await epochs(member)) == 60
        body = {"drop": True}
        answer = await member.send("POST", "/replication/links/owner/reset", body)
        assert answer.status == 200
        await link_is(member, "owner", "current")
    assert len(await epochs(member)) == 15


async def test_a_source_that_lost_data_by_itself_rolls_nothing_back(member: Node) -> None:
    """Its log was cut, so everything is copied again; nobody has asked to doubt what is here."""
    async with hostile_source(OWNER) as owner, running(member):
        owner.copies = [forged(OWNER, f"/messagegroups/{id}", epoch=9) for id in "gh"]
        await follow(member, owner.url)
        await link_is(member, "owner", "current")
        owner.copies = [forged(OWNER, "/messagegroups/g", epoch=3, text="from a backup")]
        owner.forgets = True
        await link_history_is(member, "owner", "copied", "resynchronise", "copied")
        await link_is(member, "owner", "current")
        assert await epochs(member) == {"/messagegroups/g": 9, "/messagegroups/h": 9}
        conflicts = (await member.get("/replication/links/owner/conflicts"))["conflicts"]
        assert [each["verdict"] for each in conflicts] == ["ahead"]


async def test_only_what_a_link_brings_can_be_dropped_by_it(member: Node) -> None:
    async with hostile_source(OWNER) as owner:
        await follow(member, owner.url)
    for body in ({"drop": True, "authorities": [RELAY]}, {"authorities": [OWNER]}):
        answer = await member.send("POST", "/replication/links/owner/reset", body)
        assert (answer.status, answer.error) == (400, "invalid_attribute")
    for method, below in (("POST", "/reset"), ("PATCH", ""), ("DELETE", "?drop")):
        body = {"authority": OWNER} if method == "PATCH" else {}
        answer = await member.send(method, f"/replication/links/nobody{below}", body)
        assert answer.status == 404


async def test_a_dropped_entity_is_no_deletion_to_followers_but_an_event_here(member: Node) -> None:
    await relay(member, *forged_message(OWNER, "g", "m", epoch=4))
    after = (await member.get("/"))["epoch"]
    async with hostile_source(OWNER) as owner, running(member):
        await follow(member, owner.url)
        await link_history_is(member, "owner", "dropped", "copied")

    async def is_gone() -> bool:
        return (await member.send("GET", "/messagegroups/g")).status == 404

    await eventually(is_gone)
    assert await epochs(member) == {}
    assert (await member.get("/"))["epoch"] == after + 1
    deleted = [c.change for c in await member.changes() if c.change.action == "deleted"]
    assert [(c.kind, c.epoch) for c in deleted] == [("group", 4), ("resource", 4), ("version", 4)]


async def test_a_link_that_never_met_its_source_is_removed_with_nothing_to_drop(
    member: Node,
) -> None:
    body = {"id": "l", "source": "http://127.0.0.1:9", "mode": "pull"}
    assert (await member.send("POST", "/replication/links?force", body)).status == 201
    assert (await member.send("DELETE", "/replication/links/l?drop")).status == 202

    async def is_removed() -> bool:
        return (await member.send("GET", "/replication/links/l")).status == 404

    async with running(member):
        await eventually(is_removed)
