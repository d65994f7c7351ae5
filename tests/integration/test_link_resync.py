"""Links that lost their place in the feed compare digests, and fetch only what differs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from replication.applying.apply import Batch, apply_batch
from replication.deciding.copychecks import Copy
from replication.deciding.provenance import Policy
from tests.hostile.hostilesource import forged
from tests.integration.conftest import Node
from tests.integration.federation import (
    carries,
    digest_rows,
    drop_log,
    eventually,
    execute,
    link,
    link_history_is,
    link_is,
    members,
    own_rows,
    running,
    start_member,
)
from tests.integration.meteredsource import MeteredSource, follow, metered

FETCH, SNAPSHOT = "/replication/fetch", "/replication/snapshot"
DIGESTS, CHANGES = "/replication/digests", "/replication/changes"
MESSAGES = 60


@pytest.fixture
async def nodes(postgres_url: str, template: str) -> AsyncIterator[list[Node]]:
    """Three fresh nodes that do not know each other."""
    async with members(postgres_url, template, 3) as found:
        yield found


async def fill(node: Node, group: str) -> None:
    """A group with messages, each with one version."""
    await node.put(f"/messagegroups/{group}")
    body = {f"m{number}": {"description": "as it was"} for number in range(MESSAGES)}
    answer = await node.send("POST", f"/messagegroups/{group}/messages", body)
    assert answer.status == 200, answer.body


async def write_meanwhile(source: Node, group: str = "g") -> None:
    """A change, a creation, a deletion, and what comes and goes unseen."""
    path = f"/messagegroups/{group}/messages"
    await source.put(f"{path}/m0", {"description": "changed"})
    await source.put(f"{path}/new")
    for id in ("m1", "short-lived"):
        await source.put(f"{path}/{id}")
        assert (await source.send("DELETE", f"{path}/{id}")).status == 204


async def bring(node: Node, authority: str, *copies: Copy) -> None:
    """Let a node take copies from an authority, whatever it says elsewhere."""
    policy = Policy(own=node.database.node.authority, sender=authority)
    await apply_batch(node.context, Batch(copies=copies, policy=policy))


async def copied(target: Node, source: MeteredSource) -> int:
    """Follow a source until all of it is here; return the bytes that it took."""
    await follow(target, source)
    async with running(target):
        await link_is(target, "from", "current")
    assert source.requests[SNAPSHOT] == 1
    taken = source.bytes
    source.forget()
    return taken


async def test_an_expired_cursor_costs_as_much_as_has_changed(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await fill(source, "g")
    async with metered(source) as way:
        everything = await copied(target, way)
        await write_meanwhile(source)
        await drop_log(source)
        async with running(target):
            await link_history_is(target, "from", "compared", "resynchronise", "copied")
            await link_is(target, "from", "current")
        assert await carries(target, source)
        assert (way.requests[FETCH], way.requests[SNAPSHOT]) == (1, 0)
        assert way.bytes < everything / 2
    [compared, *_] = (await target.get("/replication/links/from"))["history"]
    assert compared["detail"].startswith("8 of 125 origins differ")


async def test_equal_catalogs_exchange_fingerprints_only(nodes: list[Node]) -> None:
    source, target, third = nodes
    await fill(source, "g")
    async with metered(source) as way:
        await copied(target, way)
        await execute(target, "UPDATE links SET instance = $1", third.database.node.instance)
        async with running(target):
            history = "compared", "another instance", "copied"
            await link_history_is(target, "from", *history)
        assert way.requests[DIGESTS] == 1
        assert (way.requests[FETCH], way.requests[SNAPSHOT]) == (0, 0)


async def test_a_source_whose_log_ends_before_the_cursor_is_compared(nodes: list[Node]) -> None:
    """It was restored from a backup, and has written since."""
    source, target, _ = nodes
    await fill(source, "g")
    async with metered(source) as way:
        await copied(target, way)
        await source.put("/messagegroups/g/messages/since", {})
        later = "overlay(cursor placing '9' from 10 for 1)"
        await execute(target, f"UPDATE links SET cursor = {later}")
        async with running(target):
            await link_history_is(target, "from", "compared", "lost data", "copied")
        assert await carries(target, source)
        assert way.requests[SNAPSHOT] == 0


async def test_a_reset_replaces_and_drops_what_differs_whatever_the_epochs(
    nodes: list[Node],
) -> None:
    source, target, _ = nodes
    await fill(source, "g")
    authority = source.database.node.authority
    async with metered(source) as way:
        await copied(target, way)
        changed = "/messagegroups/g/messages/m5/versions/1"
        invented = "/messagegroups/invented"
        await bring(target, authority, forged(authority, changed, epoch=70))
        await bring(target, authority, forged(authority, invented, epoch=70))
        await target.send("POST", "/replication/links/from/reset", {})
        async with running(target):
            await link_history_is(target, "from", "dropped", "compared", "copied")
            await link_is(target, "from", "current")
        assert await carries(target, source)
        assert (way.requests[FETCH], way.requests[SNAPSHOT]) == (1, 0)


async def test_a_reset_in_full_copies_everything(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await fill(source, "g")
    async with metered(source) as way:
        await copied(target, way)
        await target.send("POST", "/replication/links/from/reset", {"full": True})
        async with running(target):
            await link_history_is(target, "from", "copied", "copied")
        assert (way.requests[DIGESTS], way.requests[SNAPSHOT]) == (0, 1)
        await target.send("POST", "/replication/links/from/reset", {})
        async with running(target):
            await link_history_is(target, "from", "compared", "copied", "copied")
        assert way.requests[SNAPSHOT] == 1


async def test_where_most_differs_everything_is_copied(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await source.put("/messagegroups/g")
    async with metered(source) as way:
        await copied(target, way)
        await fill(source, "h")
        await drop_log(source)
        async with running(target):
            await link_history_is(target, "from", "copied", "resynchronise", "copied")
        assert (way.requests[FETCH], way.requests[SNAPSHOT]) == (0, 1)


async def test_a_source_without_digests_is_copied(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await fill(source, "g")
    async with metered(source) as way:
        await copied(target, way)
        way.without = frozenset({DIGESTS})
        await write_meanwhile(source)
        await drop_log(source)
        async with running(target):
            await link_history_is(target, "from", "copied", "resynchronise", "copied")
        assert await carries(target, source)


async def test_a_link_compares_only_what_is_in_its_scope(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await fill(source, "g")
    await fill(source, "h")
    async with metered(source) as way:
        await follow(target, way, scope=["/messagegroups/g"])
        async with running(target):
            await link_is(target, "from", "current")
        way.forget()
        await write_meanwhile(source, "g")
        await write_meanwhile(source, "h")
        await drop_log(source)
        async with running(target):
            await link_history_is(target, "from", "compared", "resynchronise", "copied")
    held = {o: row for o, row in (await own_rows(source)).items() if "/h" not in o[1]}
    assert await digest_rows(target) == held
    [compared, *_] = (await target.get("/replication/links/from"))["history"]
    assert compared["detail"].startswith("8 of 125 origins differ")


async def test_a_relay_is_compared_in_what_it_may_bring(nodes: list[Node]) -> None:
    """Neither what the target has of its own nor what it follows itself counts as different."""
    producer, hub, edge = nodes
    await fill(producer, "p")
    await fill(hub, "h")
    await fill(edge, "e")
    await link(hub, producer, id="up")
    async with metered(hub) as way, running(hub):
        await eventually(lambda: carries(hub, producer))
        await follow(edge, way, authorities=["*"])
        async with running(edge):
            await link_is(edge, "from", "current")
        way.forget()
        await write_meanwhile(producer, "p")
        await write_meanwhile(hub, "h")
        await eventually(lambda: carries(hub, producer))
        await drop_log(hub)
        async with running(edge):
            await link_history_is(edge, "from", "compared", "resynchronise", "copied")
            await eventually(lambda: carries(edge, producer, hub))
        assert way.requests[SNAPSHOT] == 0
    [compared, *_] = (await edge.get("/replication/links/from"))["history"]
    assert compared["detail"].startswith("16 of 250 origins differ")


async def test_a_relay_of_nothing_but_what_is_followed_itself_goes_on(nodes: list[Node]) -> None:
    producer, hub, edge = nodes
    await producer.put("/messagegroups/p")
    await link(hub, producer, id="up")
    await link(edge, producer, id="direct")
    async with metered(hub) as way, running(hub, edge):
        await eventually(lambda: carries(hub, producer))
        await follow(edge, way, authorities=[producer.database.node.authority])
        await link_is(edge, "from", "current")
        await edge.send("POST", "/replication/links/from/reset", {})
        await link_history_is(edge, "from", "copied", "copied")
        await link_is(edge, "from", "current")
    assert await carries(edge, producer)


async def test_what_changes_during_a_comparison_is_not_skipped(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await fill(source, "g")
    async with metered(source) as way:
        await copied(target, way)
        await write_meanwhile(source)
        await drop_log(source)
        numbers = iter(range(20, 30))

        async def write_more() -> None:
            number = next(numbers, None)
            if number is not None:
                await source.put(f"/messagegroups/g/messages/m{number}", {"description": "late"})

        way.meanwhile = write_more
        async with running(target):
            await eventually(lambda: carries(target, source))
            await link_is(target, "from", "current")
        assert way.requests[SNAPSHOT] == 0


async def test_a_list_that_breaks_off_deletes_nothing(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await fill(source, "g")
    authority = source.database.node.authority
    async with metered(source) as way:
        await copied(target, way)
        await bring(target, authority, forged(authority, "/messagegroups/invented", epoch=1))
        held = await digest_rows(target)
        way.cuts_lists = True
        await target.send("POST", "/replication/links/from/reset", {})
        async with running(target):
            await link_is(target, "from", "waiting")
            assert (
                "did not answer as a whole"
                in ((await target.get("/replication/links/from"))["error"])
            )
            assert await digest_rows(target) == held
            way.cuts_lists = False
            await link_history_is(target, "from", "dropped", "compared", "copied")
        assert await carries(target, source)


@pytest.mark.parametrize(
    "query",
    [
        "bits=17",
        "bits=8&ranges=",
        "bits=8&ranges=5-4",
        "bits=8&ranges=0-65537",
        "bits=8&ranges=4-6,5-7",
        "format=csv&ranges=0-9&verify=true",
        "bits=8&ranges=" + ",".join(f"{n}-{n}" for n in range(251)),
        "bits=8&scope=nothing",
    ],
)
async def test_digests_of_ranges_that_make_no_sense_are_refused(
    shared_member: Node, query: str
) -> None:
    answer = await shared_member.send("GET", f"{DIGESTS}?{query}")
    assert (answer.status, answer.error) == (400, "bad_request")


@pytest.fixture
async def shared_member(database_url: str) -> AsyncIterator[Node]:
    async with start_member(database_url) as member:
        yield member


async def test_merged_digests_agree_with_single_ones(nodes: list[Node]) -> None:
    node = nodes[0]
    await asyncio.gather(fill(node, "g"), fill(node, "h"))
    by_bits = {}
    for bits in (0, 8, 16):
        found = await node.get(f"{DIGESTS}?bits={bits}")
        assert found["bits"] == bits
        by_bits[bits] = found["buckets"]
    single = (await node.get(DIGESTS))["buckets"]
    assert by_bits[16] == single
    [[number, count, fingerprint]] = by_bits[0]
    xor = 0
    for _, _, each in single:
        xor ^= each
    assert (number, count, fingerprint) == (0, 2 * (1 + 2 * MESSAGES), xor)
    assert sum(count for _, count, _ in by_bits[8]) == count
    other = await node.get(f"{DIGESTS}?bits=0&authority=urn:nobody")
    assert other["buckets"] == []
    named = await node.get(f"{DIGESTS}?format=authorities")
    assert named["authorities"] == [node.database.node.authority]
