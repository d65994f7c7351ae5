"""Relays of signed entities: a hub can withhold what an authority says, and never forge it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import orjson
import pytest

from catalog.model.entity import Entity, Tombstone
from replication.deciding.copychecks import Copy
from replication.feed.feedlines import read_line
from tests.hostile.hostilesource import HostileSource, forged, forged_end, hostile_source
from tests.integration.conftest import Node
from tests.integration.federation import (
    databases,
    eventually,
    link_is,
    running,
    start_member,
    write_some,
)
from tests.integration.test_signed_entities import rotate, sign

MALLORY = "urn:mallory"


@dataclass(frozen=True, slots=True)
class Members:
    """The owner of signed entities, and an edge that gets them from a hostile hub only."""

    owner: Node
    edge: Node

    @property
    def authority(self) -> str:
        return self.owner.database.node.authority

    async def copies(self) -> list[Copy]:
        """What the owner has, as a relay gets it, documents included."""
        answer = await self.owner.send("GET", "/replication/snapshot")
        read = [read_line(line) for line in answer.body.splitlines()]
        return [each for each in read if isinstance(each, Entity | Tombstone)]

    async def keys(self) -> list[dict[str, object]]:
        found = (await self.owner.get("/replication/keys"))["keys"]
        assert isinstance(found, list)
        return found

    async def follow(self, hub: HostileSource, key: str) -> None:
        answer = await self.edge.send(
            "POST", "/replication/trust", {"authority": self.authority, "key": key}
        )
        assert answer.status == 201, answer.body
        body = {"source": hub.url, "mode": "pull", "id": "hub", "authorities": [self.authority]}
        assert (await self.edge.send("POST", "/replication/links", body)).status == 201

    async def verdicts(self) -> dict[str, str]:
        found = await self.edge.get("/replication/links/hub/conflicts")
        return {each["origin"]: each["verdict"] for each in found["conflicts"]}


@pytest.fixture
async def members(postgres_url: str, template: str) -> AsyncIterator[Members]:
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_member(one, pull_interval_seconds=0.3) as owner,
        start_member(two, pull_interval_seconds=0.3) as edge,
    ):
        await write_some(owner, "g")
        yield Members(owner, edge)


async def test_a_relay_that_alters_replays_or_deletes_is_refused_and_the_rest_flows(
    members: Members,
) -> None:
    key = await sign(members.owner)
    before = await members.copies()
    await members.owner.put("/messagegroups/g", {"description": "now"})
    now = await members.copies()
    async with hostile_source(MALLORY, *now) as hub:
        await members.follow(hub, key)
        async with running(members.edge):
            await link_is(members.edge, "hub", "current")
            assert await members.verdicts() == {}
            held = (await members.edge.get("/messagegroups/g"))["description"]
            assert held == "now"

            message = next(each for each in now if each.kind == "version")
            assert isinstance(message, Entity)
            altered = replace(message, epoch=9, attributes={**message.attributes, "name": "x"})
            end = forged_end(members.authority, "/schemagroups/g", epoch=9)
            hub.copies += [
                altered.sealed(),
                next(each for each in before if each.xid == "/messagegroups/g"),
                replace(end, signature=message.signature, signedby=message.signedby),
                forged(members.authority, "/messagegroups/new", epoch=1),
            ]
            expected = {
                message.xid: "forged",
                "/schemagroups/g": "forged",
                "/messagegroups/new": "unsigned",
            }

            async def are_refused() -> bool:
                return await members.verdicts() == expected

            await eventually(are_refused)
            assert (await members.edge.get("/messagegroups/g"))["description"] == "now"
            assert (await members.edge.send("GET", "/schemagroups/g")).status == 200

            await members.owner.put("/messagegroups/later")
            hub.copies += [c for c in await members.copies() if c.xid == "/messagegroups/later"]

            async def has_arrived() -> bool:
                answer = await members.edge.send("GET", "/messagegroups/later")
                return answer.status == 200

            await eventually(has_arrived)
    [conflict] = [
        each
        for each in (await members.edge.get("/replication/links/hub/conflicts"))["conflicts"]
        if each["verdict"] == "unsigned"
    ]
    assert "has no signature" in conflict["detail"]


async def test_a_relay_cannot_introduce_keys_but_pass_on_those_of_the_authority(
    members: Members,
) -> None:
    """A node without keys of its own passes them on as well, and believes none."""
    first = await sign(members.owner)
    true = await members.keys()
    forged_keys = orjson.loads(orjson.dumps(true))
    forged_keys[0]["keys"][0]["key"] = f"ed25519:1:{'A' * 43}"
    await rotate(members.owner)
    await members.owner.put("/messagegroups/g", {"description": "by the second key"})
    async with hostile_source(MALLORY, *await members.copies()) as hub:
        hub.keys = forged_keys
        await members.follow(hub, first)
        async with running(members.edge):
            await link_is(members.edge, "hub", "current")

            async def is_refused() -> bool:
                return (await members.verdicts()).get("/messagegroups/g") == "forged"

            await eventually(is_refused)
            [trusted] = (await members.edge.get("/replication/trust"))["trusted"]
            assert [each["key"] for each in trusted["keys"]] == [first]
            hub.keys = await members.keys()

            async def is_settled() -> bool:
                return await members.verdicts() == {}

            await eventually(is_settled)
    assert (await members.edge.get("/messagegroups/g"))["description"] == "by the second key"


async def test_keys_are_taken_from_accepted_pushers_only(members: Members) -> None:
    await sign(members.owner)
    keys = await members.keys()
    node = members.owner.database.node
    sender = {"Concord_Authority": node.authority, "Concord_Instance": str(node.instance)}
    refused = await members.edge.send("POST", "/replication/keys", {"keys": keys}, **sender)
    assert (refused.status, refused.error) == (403, "push_not_accepted")
    accepted = {"mode": "accept", "authority": members.authority}
    assert (await members.edge.send("POST", "/replication/links", accepted)).status == 201
    told = [*keys, {"authority": "urn:another"}, keys[0] | {"authority": "urn:stranger"}]
    answer = await members.edge.send("POST", "/replication/keys", {"keys": told}, **sender)
    assert (answer.status, answer.json) == (200, {"learnt": 1})
    shown = (await members.edge.get("/replication/keys"))["keys"]
    assert [each["authority"] for each in shown] == [members.authority]
