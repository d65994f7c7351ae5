"""Catalogs that speak in the name of others: what they say is kept out, or can be undone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from replication.deciding.provenance import MOST_LEAP
from tests.hostile.hostilesource import (
    GREATEST,
    HostileSource,
    forged,
    forged_end,
    forged_message,
    hostile_source,
)
from tests.integration.conftest import Answer, Node
from tests.integration.federation import (
    Rows,
    carries,
    databases,
    digest_rows,
    eventually,
    execute,
    link,
    link_history_is,
    link_is,
    own_rows,
    running,
    start_member,
    write_some,
)

MALLORY = "urn:mallory"
EVIL = "/replication/links/evil"


@dataclass(frozen=True, slots=True)
class Members:
    """The owner of some entities, a hub that follows it, and an edge that follows the hub."""

    owner: Node
    hub: Node
    edge: Node

    @property
    def authority(self) -> str:
        return self.owner.database.node.authority

    async def wrong_at(self, node: Node) -> Rows:
        """What a node holds in the owner's name that the owner does not, or not so."""
        true = await own_rows(self.owner)
        held = {o: row for o, row in (await digest_rows(node)).items() if o[0] == self.authority}
        missing = dict.fromkeys(true.keys() - held.keys(), (-1, "missing", ""))
        return missing | {o: row for o, row in held.items() if true.get(o) != row}

    def forgeries(self, epoch: int) -> list[Any]:
        """An entity that is overwritten, two that never were, and a group that is deleted."""
        return [
            forged(self.authority, "/messagegroups/g", epoch=epoch),
            *forged_message(self.authority, "new", "m", epoch=epoch),
            forged_end(self.authority, "/messagegroups/h", epoch=epoch),
        ]


@pytest.fixture
async def members(postgres_url: str, template: str) -> AsyncIterator[Members]:
    async with (
        databases(postgres_url, template, 3) as (one, two, three),
        start_member(one) as owner,
        start_member(two, pull_interval_seconds=0.5) as hub,
        start_member(three, pull_interval_seconds=0.5) as edge,
    ):
        for group in ("g", "h"):
            await write_some(owner, group)
        yield Members(owner, hub, edge)


async def add(node: Node, source: HostileSource, **definition: Any) -> Answer:
    body = {"source": source.url, "mode": "pull", "id": "evil", **definition}
    return await node.send("POST", "/replication/links", body)


async def post(node: Node, path: str, body: Any) -> Any:
    answer = await node.send("POST", f"/replication/links/{path}", body)
    assert answer.status == 200, answer.body
    return answer.json


async def verdicts(node: Node, id: str) -> list[tuple[str, str]]:
    found = await node.get(f"/replication/links/{id}/conflicts")
    return [(each["origin"], each["verdict"]) for each in found["conflicts"]]


async def test_a_source_is_not_followed_as_another_authority_than_the_named_one(
    members: Members,
) -> None:
    async with hostile_source(MALLORY, *members.forgeries(GREATEST)) as evil:
        answer = await add(members.hub, evil, authority=members.authority)
        assert (answer.status, answer.error) == (400, "source_unusable")
        assert MALLORY in answer.json["title"]
        body = {"source": evil.url, "mode": "pull", "authority": members.authority, "id": "evil"}
        assert (await members.hub.send("POST", "/replication/links?force", body)).status == 201
        async with running(members.hub):
            await link_is(members.hub, "evil", "refused")
    assert f"claims to be {MALLORY}" in (await members.hub.get("/replication/links/evil"))["error"]
    assert await digest_rows(members.hub) == {}


async def test_a_claim_that_is_senseless_or_this_nodes_own_is_refused(members: Members) -> None:
    hub = members.hub
    own = hub.database.node.authority
    claims: list[Any] = [own, "not a URI", "urn:x; rm -rf ~\n", 5]
    async with hostile_source(MALLORY) as evil, running(hub):
        for claim in claims:
            evil.authority = claim
            assert (await add(hub, evil)).error == "source_unusable"
        evil.authority = MALLORY
        assert (await add(hub, evil)).status == 201
        for claim in claims:
            evil.authority = MALLORY
            await link_is(hub, "evil", "current")
            evil.authority = claim
            await post(hub, "evil/reset", {})
            await link_is(hub, "evil", "refused")
            evil.authority = MALLORY
            await post(hub, "evil/reset", {})
    named = await hub.send("PATCH", EVIL, {"authority": own})
    assert (named.status, named.error) == (400, "invalid_attribute")


async def test_a_source_may_not_introduce_itself_as_an_authority_that_is_known_here(
    members: Members,
) -> None:
    """The operator has to name it, and an authority has one source."""
    await link(members.hub, members.owner, id="owner")
    await link(members.edge, members.hub, id="hub", authorities=[members.authority])
    async with running(members.hub):
        await eventually(lambda: carries(members.hub, members.owner))
    async with hostile_source(members.authority, *members.forgeries(GREATEST)) as evil:
        for node in (members.hub, members.edge):
            answer = await add(node, evil)
            assert (answer.status, answer.error) == (400, "source_unusable")
        assert f"--pin {members.authority}" in answer.json["detail"]
        for named in ({}, {"authority": members.authority}):
            answer = await add(members.hub, evil, **named)
            assert 'link "owner" follows the authority' in answer.json["title"]
        body = {"source": evil.url, "mode": "pull", "id": "evil"}
        assert (await members.edge.send("POST", "/replication/links?force", body)).status == 201
        async with running(members.edge):
            await link_is(members.edge, "evil", "refused")
        error = (await members.edge.get("/replication/links/evil")).get("error")
        assert f"concord link set evil --pin {members.authority}" in error
    assert await members.wrong_at(members.hub) == {}
    assert {row[0] for row in (await members.wrong_at(members.edge)).values()} <= {-1, 0, 1, 2, 3}


async def test_a_source_that_claims_another_authority_later_needs_the_operator(
    members: Members,
) -> None:
    hub = members.hub
    await link(hub, members.owner, id="owner")
    async with hostile_source(MALLORY, forged(MALLORY, "/endpoints/e", epoch=1)) as evil:
        assert (await add(hub, evil)).status == 201
        async with running(hub):
            await link_is(hub, "evil", "current")
            await eventually(lambda: carries_owner(members))
            evil.authority = members.authority
            evil.copies += members.forgeries(GREATEST)
            await hub.put("/replication/links/evil", {"source": evil.url, "mode": "pull"})
            await link_is(hub, "evil", "refused")
            error = (await hub.get("/replication/links/evil")).get("error")
            assert f"pinned to the authority {MALLORY}" in error
            pinned = await hub.send("PATCH", EVIL, {"authority": members.authority})
            assert (pinned.status, pinned.error) == (400, "source_unusable")
            assert await members.wrong_at(hub) == {}
            evil.authority = "urn:mallory:renamed"
            renamed = await hub.send("PATCH", EVIL, {"authority": "urn:mallory:renamed"})
            assert renamed.status == 200, renamed.body
            await link_is(hub, "evil", "current")
    assert await members.wrong_at(hub) == {}


async def carries_owner(members: Members) -> bool:
    return await members.wrong_at(members.hub) == {}


@pytest.mark.parametrize("listed", ["*", "the owner", ""])
async def test_what_relays_say_of_an_authority_that_is_followed_itself_is_not_heard(
    members: Members, listed: str
) -> None:
    authorities = {"*": ["*"], "the owner": [members.authority], "": []}[listed]
    hub = members.hub
    await link(hub, members.owner, id="owner")
    async with hostile_source(MALLORY, *members.forgeries(MOST_LEAP)) as evil, running(hub):
        await link_is(hub, "owner", "current")
        assert (await add(hub, evil, authorities=authorities)).status == 201
        await link_is(hub, "evil", "current")
        evil.copies += members.forgeries(MOST_LEAP + 1)
        await post(hub, "evil/reset", {})
        await link_is(hub, "evil", "current")
        await members.owner.put("/messagegroups/g", {"description": "the owner's update"})
        await eventually(lambda: carries_owner(members))
        await link_is(hub, "evil", "current")
    assert await members.wrong_at(hub) == {}


async def test_an_epoch_that_leaps_is_quarantined_and_shown(members: Members) -> None:
    """A relay that is believed about the owner cannot make an epoch that no update gets above."""
    hub = members.hub
    async with hostile_source(MALLORY, *members.forgeries(GREATEST)) as evil, running(hub):
        assert (await add(hub, evil, authorities=[members.authority])).status == 201
        await link_is(hub, "evil", "current")
        assert await digest_rows(hub) == {}
        shown = await verdicts(hub, "evil")
        assert {verdict for _, verdict in shown} == {"leapt"}
        assert len(shown) == 5
        conflicts = (await hub.get("/replication/links/evil/conflicts"))["conflicts"]
        assert f"more than {MOST_LEAP} above 0" in conflicts[0]["detail"]
        await link(hub, members.owner, id="owner", authority=members.authority)
        await eventually(lambda: carries_owner(members))


async def test_what_a_relay_forged_ends_with_the_owners_own_word(members: Members) -> None:
    """At the hub, by a link to the owner; further on, by dropping what the hub has relayed."""
    owner, hub, edge = members.owner, members.hub, members.edge
    await link(edge, hub, id="hub", authorities=[members.authority])
    async with (
        hostile_source(MALLORY, *members.forgeries(1000)) as evil,
        running(hub, edge),
    ):
        assert (await add(hub, evil, authorities=[members.authority])).status == 201
        await eventually(lambda: has_forgeries(members, hub))
        await eventually(lambda: has_forgeries(members, edge))
        await link(hub, owner, id="owner", authority=members.authority)
        await eventually(lambda: carries_owner(members))
        await link_history_is(hub, "owner", "dropped", "copied")
        await owner.put("/messagegroups/g", {"description": "the owner's update"})
        await eventually(lambda: carries_owner(members))
        evil.copies += members.forgeries(2000)
        await link_is(hub, "evil", "current")
        assert (await hub.send("DELETE", "/replication/links/evil")).status == 200
        assert await members.wrong_at(hub) == {}
        assert (await edge.send("GET", "/messagegroups/new")).status == 200
        assert await members.wrong_at(edge) != {}, "the hub has not told of deletions"
        await post(edge, "hub/reset", {"drop": True})

        async def is_right() -> bool:
            return await members.wrong_at(edge) == {}

        await eventually(is_right)
        dropped = [c.change for c in await edge.changes() if c.change.xid == "/messagegroups/new"]
        assert [(c.action, c.epoch) for c in dropped] == [("created", 1000), ("deleted", 1000)]
        assert (await edge.send("GET", "/messagegroups/new")).status == 404


async def has_forgeries(members: Members, node: Node) -> bool:
    wrong = await members.wrong_at(node)
    return (members.authority, "/messagegroups/new/messages/m") in wrong


async def test_what_was_forged_in_spite_of_a_direct_link_is_shown_and_repaired(
    members: Members,
) -> None:
    """The owner's next update, a repair of the origin, and a reset of the link all find it."""
    owner, hub = members.owner, members.hub
    made = await link(hub, owner, id="owner")
    async with running(hub):
        await link_is(hub, "owner", "current")
        await inject(hub, members)
        await owner.put("/messagegroups/g", {"description": "the owner's update"})

        async def is_shown() -> bool:
            return ("/messagegroups/g", "ahead") in await verdicts(hub, "owner")

        await eventually(is_shown)
        origin = {"authority": made["authority"], "origin": "/messagegroups/g"}
        never = {"authority": made["authority"], "origin": "/messagegroups/new"}
        repaired = await hub.send("POST", "/replication/repair", {"origins": [origin, never]})
        assert repaired.json["verdicts"] == {"applied": 1}
        assert [each["origin"] for each in repaired.json["unresolved"]] == ["/messagegroups/new"]
        assert (await hub.get("/messagegroups/g"))["description"] == "the owner's update"
        await post(hub, "owner/reset", {})
        await eventually(lambda: carries_owner(members))
        assert await verdicts(hub, "owner") == []


async def inject(node: Node, members: Members) -> None:
    """Write forgeries behind the node's back, with the digests that they have."""
    for entity in (
        forged(members.authority, "/messagegroups/g", epoch=1000),
        forged(members.authority, "/messagegroups/new", epoch=1000),
    ):
        await execute(
            node,
            """INSERT INTO entities (xid, collection, id, kind, authority, origin, epoch,
                attributes, createdat, modifiedat, digest, fingerprint, bucket)
            VALUES ($1, '/messagegroups', split_part($1, '/', 3), 'group', $2, $1, $3, $4, $5, $5,
                $6, $7, $8)
            ON CONFLICT (xid) DO UPDATE SET epoch = $3, attributes = $4, createdat = $5,
                modifiedat = $5, digest = $6, fingerprint = $7""",
            entity.xid,
            entity.authority,
            entity.epoch,
            '{"description": "forged"}',
            entity.createdat,
            entity.digest,
            entity.fingerprint,
            entity.bucket,
        )


async def test_a_link_is_removed_with_all_that_it_brought(members: Members) -> None:
    hub = members.hub
    await hub.put("/messagegroups/ours", {})
    await link(hub, members.owner, id="owner")
    deleted = forged_end(MALLORY, "/endpoints/e", epoch=1)
    copies = forged_message(MALLORY, "theirs", "m", epoch=1)
    async with hostile_source(MALLORY, deleted, *copies) as evil, running(hub):
        assert (await add(hub, evil)).status == 201
        await link_is(hub, "evil", "current")
        await link_is(hub, "owner", "current")
        assert {o[0] for o in await digest_rows(hub)} >= {MALLORY, members.authority}
        answer = await hub.send("DELETE", "/replication/links/evil?drop")
        assert answer.status == 202

        async def is_removed() -> bool:
            return (await hub.send("GET", "/replication/links/evil")).status == 404

        await eventually(is_removed)
    assert MALLORY not in {o[0] for o in await digest_rows(hub)}
    assert await members.wrong_at(hub) == {}
    assert (await hub.send("GET", "/messagegroups/ours")).status == 200
