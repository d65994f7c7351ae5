"""A copy that is spoilt on its way is noticed, and comes again, whatever is left of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.hostile.hostilesource import forged, hostile_source
from tests.integration.conftest import Node
from tests.integration.federation import digest_rows, eventually, link_is, running, start_member

OWNER = "urn:owner"


@pytest.fixture
async def member(database_url: str) -> AsyncIterator[Node]:
    async with start_member(database_url, pull_interval_seconds=0.2) as node:
        yield node


async def conflicts_of(node: Node, link: str = "owner") -> list[str]:
    shown = await node.get(f"/replication/links/{link}/conflicts")
    return [each["origin"] for each in shown["conflicts"]]


@pytest.mark.parametrize(
    ("spoilt", "noticed"),
    [
        (b'"description":"fetched"', "/messagegroups/h"),
        (b'"origin":"/messagegroups/h"', "/messagegroups/i"),
        (b',"origin":"/messagegroups/h"', "/messagegroups/g"),
        (b'"authority":"urn:owner","origin":"/messagegroups/h"', "/messagegroups/h"),
        (b'{"xid":"/messagegroups/h"', ""),
    ],
    ids=["content", "origin", "known origin", "authority", "no JSON"],
)
async def test_a_copy_that_was_spoilt_on_its_way_comes_again(
    member: Node, spoilt: bytes, noticed: str
) -> None:
    other = {
        b'"description":"fetched"': b'"description":"falsehood"',
        b'"origin":"/messagegroups/h"': b'"origin":"/messagegroups/i"',
        b',"origin":"/messagegroups/h"': b',"origin":"/messagegroups/g"',
        b'"authority":"urn:owner","origin":"/messagegroups/h"': (
            b'"authority":"urn:other","origin":"/messagegroups/h"'
        ),
        b'{"xid":"/messagegroups/h"': b'{,xid":"/messagegroups/h"',
    }[spoilt]
    async with hostile_source(OWNER, forged(OWNER, "/messagegroups/g", epoch=1)) as owner:
        body = {"id": "owner", "source": owner.url, "mode": "pull", "authority": OWNER}
        answer = await member.send("POST", "/replication/links", body)
        assert answer.status == 201, answer.body
        async with running(member):
            await link_is(member, "owner", "current")
            owner.spoils = spoilt, other
            owner.copies.append(forged(OWNER, "/messagegroups/h", epoch=1, text="fetched"))

            async def is_noticed() -> bool:
                return await conflicts_of(member) == [noticed]

            await eventually(is_noticed)
            owner.spoils = None

            async def is_whole() -> bool:
                held = {origin for _, origin in await digest_rows(member)}
                return held == {"/messagegroups/g", "/messagegroups/h"}

            await eventually(is_whole)

            async def is_settled() -> bool:
                return await conflicts_of(member) == []

            await eventually(is_settled)


async def test_a_relayed_copy_that_was_spoilt_is_no_conflict_if_its_authority_tells_it_itself(
    member: Node,
) -> None:
    """The authority has told it before, and does not tell it again."""
    told = forged(OWNER, "/messagegroups/h", epoch=1)
    async with hostile_source(OWNER, told) as owner, hostile_source("urn:relay") as relay:
        for id, source, more in (
            ("owner", owner, {}),
            ("relay", relay, {"authorities": ["*"]}),
        ):
            body = {"id": id, "source": source.url, "mode": "pull", "authority": source.authority}
            answer = await member.send("POST", "/replication/links", body | more)
            assert answer.status == 201, answer.body
        async with running(member):
            for id in ("owner", "relay"):
                await link_is(member, id, "current")
            relay.spoils = b'"digest":"', b'"digest":"z'
            relay.copies.append(told)

            async def is_noticed() -> bool:
                return await conflicts_of(member, "relay") == ["/messagegroups/h"]

            await eventually(is_noticed)
            relay.spoils = None

            async def is_settled() -> bool:
                return await conflicts_of(member, "relay") == []

            await eventually(is_settled)
