"""Signed entities between real nodes: through a hub to whoever trusts their authority's keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from replication.signing.signing import sign_once
from tests.integration.commandline import concord
from tests.integration.conftest import Node
from tests.integration.federation import (
    accept,
    carries,
    databases,
    digest_rows,
    eventually,
    execute,
    link,
    link_is,
    own_rows,
    push,
    running,
    start_member,
    write_some,
)

Signatures = dict[str, tuple[bytes | None, str | None]]


@dataclass(frozen=True, slots=True)
class Members:
    """A source, a hub that follows it, and an edge that follows the hub."""

    source: Node
    hub: Node
    edge: Node

    @property
    def authority(self) -> str:
        return self.source.database.node.authority

    async def follow(self, **of_edge: Any) -> None:
        await link(self.hub, self.source, id="source")
        await link(self.edge, self.hub, id="hub", authorities=[self.authority], **of_edge)

    async def have_arrived(self) -> None:
        """Wait until hub and edge have what the source has, with its signatures."""

        async def is_so() -> bool:
            expected, rows = await signatures(self.source), await own_rows(self.source)
            for node in (self.hub, self.edge):
                held = await digest_rows(node)
                if held != rows or await signatures(node) != expected:
                    return False
            return True

        await eventually(is_so)


@pytest.fixture
async def members(postgres_url: str, template: str) -> AsyncIterator[Members]:
    async with (
        databases(postgres_url, template, 3) as (one, two, three),
        start_member(one, pull_interval_seconds=1) as source,
        start_member(two, pull_interval_seconds=1) as hub,
        start_member(three, pull_interval_seconds=1) as edge,
    ):
        yield Members(source, hub, edge)


async def sign(node: Node) -> str:
    """Let a node sign what it writes, and what is there; return its key."""
    answer = await node.put("/replication/signing", {"on": True})
    while await sign_once(node.context):
        pass
    return str(answer["key"])


async def rotate(node: Node, **how: Any) -> str:
    answer = await node.send("POST", "/replication/signing/rotate", how)
    assert answer.status == 200, answer.body
    while await sign_once(node.context):
        pass
    return str(answer.json["key"])


async def trust(node: Node, authority: str, key: str) -> None:
    answer = await node.send("POST", "/replication/trust", {"authority": authority, "key": key})
    assert answer.status == 201, answer.body


async def signatures(node: Node) -> Signatures:
    """The signatures of all that a node holds, by origin."""
    async with node.database.acquire() as connection:
        rows = await connection.fetch(
            "SELECT origin, signature, signedby FROM entities WHERE kind <> 'registry' "
            "UNION ALL SELECT origin, signature, signedby FROM tombstones"
        )
    return {row["origin"]: (row["signature"], row["signedby"]) for row in rows}


async def audit(node: Node) -> dict[str, dict[str, int]]:
    """What `concord signing verify` counts, by authority."""
    counts: dict[str, dict[str, int]] = {}
    after: str | None = ""
    while after is not None:
        part = await node.get(f"/replication/signatures?after={after.replace(chr(10), '%0A')}")
        for authority, count in part["counts"].items():
            sums = counts.setdefault(authority, {})
            sums.update({name: sums.get(name, 0) + number for name, number in count.items()})
        after = part.get("after")
    return counts


async def verdicts(node: Node, id: str) -> set[str]:
    found = await node.get(f"/replication/links/{id}/conflicts")
    return {each["verdict"] for each in found["conflicts"]}


async def test_what_was_written_before_and_after_arrives_signed_through_a_hub(
    members: Members,
) -> None:
    source = members.source
    await write_some(source, "old")
    await write_some(source, "gone")
    await source.send("DELETE", "/messagegroups/gone")
    await members.follow()
    async with running(members.hub, members.edge):
        await members.have_arrived()
        assert {signature for signature, _ in (await signatures(members.edge)).values()} == {None}

        key = await sign(source)
        await members.have_arrived()
        before = await signatures(members.edge)
        assert all(id and id.startswith("1-") for _, id in before.values())

        await trust(members.edge, members.authority, key)
        await source.put("/messagegroups/old/messages/m0", {"description": "changed"})
        await source.send("DELETE", "/messagegroups/old/messages/m1")
        await members.have_arrived()
    changed = "/messagegroups/old/messages/m0/versions/1"
    assert (await signatures(members.edge))[changed] != before[changed]
    for node in (source, members.hub, members.edge):
        [(authority, counts)] = (await audit(node)).items()
        assert (authority, {*counts}) == (members.authority, {"verified"})
    assert (await members.edge.get("/replication/links/hub"))["conflicts"] == 0


async def test_events_are_not_raised_by_signatures(members: Members) -> None:
    await write_some(members.source, "g")
    before = await members.source.logged()
    await sign(members.source)
    logged = await members.source.changes()
    assert {each.change.action for each in logged[before:]} == {"signed"}
    exported = await members.source.get("/export")
    assert "signature" not in str(exported)


async def test_first_contact_keeps_the_keys_of_the_source_and_needs_some(members: Members) -> None:
    source, hub = members.source, members.hub
    await write_some(source, "g")
    await link(hub, source, id="source", trust=["first"])
    async with running(hub):
        await link_is(hub, "source", "refused")
        assert "has no keys" in (await hub.get("/replication/links/source"))["error"]
        assert await digest_rows(hub) == {}
        key = await sign(source)
        await eventually(lambda: carries(hub, source))
        [pinned] = (await hub.get("/replication/trust"))["trusted"]
        assert [(each["key"], each["reason"]) for each in pinned["keys"]] == [(key, "first")]

        off = await concord(source, "signing", "set", "off")
        assert (off.exit_code, "signs nothing more" in off.output) == (0, True), off.output
        await source.put("/messagegroups/unsigned")
        await eventually(lambda: _has(hub, "source", "unsigned"))
        on = await concord(source, "signing", "set", "on")
        assert (on.exit_code, key in on.output) == (0, True), on.output
        while await sign_once(source.context):
            pass
        await eventually(lambda: carries(hub, source))
        await eventually(lambda: _has(hub, "source"))


async def _has(node: Node, link: str, *expected: str) -> bool:
    return await verdicts(node, link) == {*expected}


async def test_rotated_keys_are_followed_and_revoked_ones_dropped_from_far_away(
    members: Members,
) -> None:
    source, edge = members.source, members.edge
    await write_some(source, "g")
    first = await sign(source)
    await members.follow(trust=[first])
    async with running(members.hub, edge):
        await members.have_arrived()
        second = await rotate(source)
        await source.put("/messagegroups/g", {"description": "by the second key"})
        await members.have_arrived()
        ids = {id for _, id in (await signatures(edge)).values()}
        assert {str(id)[:2] for id in ids} == {"1-", "2-"}

        third = await rotate(source, revoke=True)
        await source.put("/messagegroups/g", {"description": "by the third key"})
        await members.have_arrived()
    [pinned] = (await edge.get("/replication/trust"))["trusted"]
    held = {each["key"]: (each["reason"], bool(each.get("revokedat"))) for each in pinned["keys"]}
    assert held == {
        first: ("named", False),
        second: ("endorsed", True),
        third: ("endorsed", False),
    }
    assert {str(id)[:2] for _, id in (await signatures(edge)).values()} == {"1-", "3-"}
    assert (await audit(edge))[members.authority].keys() == {"verified"}
    async with source.database.acquire() as connection:
        kept = await connection.fetch("SELECT number FROM authority_keys WHERE sealed IS NOT NULL")
    assert [row["number"] for row in kept] == [3]


async def test_pushed_copies_are_held_to_the_keys_as_well(members: Members) -> None:
    source, hub = members.source, members.hub
    await write_some(source, "g")
    key = await sign(source)
    await trust(hub, members.authority, key)
    await accept(hub, source)
    await push(source, hub, id="hub")
    async with running(source, hub):
        await eventually(lambda: carries(hub, source))
        await rotate(source)
        await source.put("/messagegroups/g", {"description": "by the second key"})
        await eventually(lambda: carries(hub, source))
        await source.put("/replication/signing", {"on": False})
        await source.put("/messagegroups/unsigned")
        await eventually(lambda: _has(source, "hub", "unsigned"))
    assert "/messagegroups/unsigned" not in await signatures(hub)
    assert (await audit(hub))[members.authority].keys() == {"verified"}


async def test_a_node_that_lost_its_secret_writes_on_and_signs_later_by_a_new_key(
    members: Members,
) -> None:
    source = members.source
    await sign(source)
    await execute(source, "UPDATE authority_keys SET sealed = 'lost'")
    source.context.signers.forget(1)
    await source.put("/messagegroups/g")
    assert await signatures(source) == {"/messagegroups/g": (None, None)}
    await rotate(source)
    [(_, id)] = (await signatures(source)).values()
    assert id is not None
    assert id.startswith("2-")
    shown = (await source.get("/replication/keys"))["keys"][0]["keys"]
    assert ["endorsement" in each for each in shown] == [False, False]


async def test_an_audit_finds_what_was_changed_behind_the_back_of_a_node(members: Members) -> None:
    source = members.source
    await write_some(source, "g")
    await sign(source)
    async with source.database.acquire() as connection:
        await connection.execute(
            'UPDATE entities SET attributes = \'{"description": "x"}\' '
            "WHERE xid = '/messagegroups/g'"
        )
        await connection.execute(
            "UPDATE entities SET signature = sha512('') WHERE xid = '/schemagroups/g'"
        )
        await connection.execute(
            "UPDATE entities SET signature = NULL, signedby = NULL "
            "WHERE xid = '/messagegroups/g/messages/m0'"
        )
    counts = (await audit(source))[members.authority]
    assert {name: counts[name] for name in ("damaged", "false", "unsigned")} == {
        "damaged": 1,
        "false": 1,
        "unsigned": 1,
    }


@pytest.mark.parametrize(
    ("definition", "fault"),
    [
        ({"trust": ["ed25519:1:short"]}, "invalid_attribute"),
        ({"trust": ["ed25519:1:" + "A" * 43], "authorities": ["*"]}, "invalid_attribute"),
        ({"trust": ["ed25519:1:" + "A" * 43], "authorities": ["urn:a", "urn:b"]},
         "invalid_attribute"),
    ],
)  # fmt: skip
async def test_a_link_says_whose_keys_it_trusts(
    members: Members, definition: dict[str, Any], fault: str
) -> None:
    body = {"source": members.source.url, "mode": "pull", **definition}
    answer = await members.hub.send("POST", "/replication/links", body)
    assert (answer.status, answer.error) == (400, fault)
    assert (await members.hub.get("/replication/trust"))["trusted"] == []
