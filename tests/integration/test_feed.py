"""The feed over HTTP: pages, long polls, snapshots, and cursors that are refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import Any

import orjson
import pytest
from aiohttp import ClientSession

from catalog.model.entity import Origin
from catalog.store import connections
from catalog.store.database import Connection
from replication.feed import feedpages
from replication.feed.feedrequests import pages_of
from tests.e2e.nodes import until
from tests.integration.conftest import Node, assert_problem
from tests.integration.federation import drop_log, lines, start_member, write_some


@pytest.fixture
async def member(database_url: str) -> AsyncIterator[Node]:
    async with start_member(database_url) as node:
        yield node


async def cursor_now(node: Node) -> str:
    """Behind everything that is logged, which other tests' transactions may hold back."""
    await node.changes()
    cursor: str = (await lines(node, "/replication/snapshot"))[-1]["cursor"]
    return cursor


async def changes(node: Node, after: str, **params: Any) -> list[dict[str, Any]]:
    query = "&".join(f"{name}={value}" for name, value in params.items())
    return await lines(node, f"/replication/changes?after={after}&{query}")


async def test_the_handshake_says_who_is_there(member: Node) -> None:
    said = await member.get("/replication")
    assert said["instance"] == str(member.database.node.instance)
    assert said["authority"] == member.database.node.authority
    assert said["digestversion"] == 1
    parts = ["changes", "snapshot", "digests", "repair", "entities"]
    assert said["offers"] == [*parts, "types", "labels", "signatures"]
    assert said["log"]["dropped"] <= said["log"]["now"]


async def test_a_snapshot_has_everything_parents_first_and_ends_with_its_cursor(
    member: Node,
) -> None:
    await write_some(member, "g")
    await write_some(member, "gone", messages=0)
    await member.send("DELETE", "/schemagroups/gone")
    *copies, end = await lines(member, "/replication/snapshot")
    assert set(end) == {"cursor"}
    live = [copy["xid"] for copy in copies if "deleted" not in copy]
    ended = {copy["xid"] for copy in copies if "deleted" in copy}
    assert "/" not in live
    assert all(x.rsplit("/", 2)[0] in ["", *live[:place]] for place, x in enumerate(live))
    assert ended == {
        "/schemagroups/gone",
        "/schemagroups/gone/schemas/s",
        "/schemagroups/gone/schemas/s/versions/1",
    }
    [version] = [c for c in copies if c["xid"] == "/schemagroups/g/schemas/s/versions/1"]
    assert version["document"] == "eyJ0eXBlIjogIm9iamVjdCJ9"
    assert await changes(member, end["cursor"]) == [end]


async def test_a_page_shows_what_changed_as_it_is_now_with_all_that_is_above_it(
    member: Node,
) -> None:
    await write_some(member, "g")
    after = await cursor_now(member)
    await member.put("/messagegroups/g/messages/m0", {"description": "one"})
    await member.put("/messagegroups/g/messages/m0", {"description": "two"})
    *copies, end = await changes(member, after, wait=10)
    assert [copy["xid"] for copy in copies] == [
        "/messagegroups/g",
        "/messagegroups/g/messages/m0",
        "/messagegroups/g/messages/m0/versions/1",
    ]
    assert copies[-1]["attributes"]["description"] == "two"
    assert await changes(member, end["cursor"]) == [end]


async def test_pages_of_one_change_bring_everything_in_the_end(member: Node) -> None:
    after = await cursor_now(member)
    await write_some(member, "g")
    await member.send("DELETE", "/messagegroups/g/messages/m0")
    await member.changes()  # all of it can be read
    seen: dict[str, bool] = {}
    for _ in range(100):
        *copies, end = await changes(member, after, limit=1)
        seen |= {copy["xid"]: "deleted" in copy for copy in copies}
        if end["cursor"] == after:
            break
        after = end["cursor"]
    snapshot = (await lines(member, "/replication/snapshot"))[:-1]
    assert seen == {copy["xid"]: "deleted" in copy for copy in snapshot}


async def test_a_reader_that_waits_is_answered_as_soon_as_there_is_something(
    member: Node,
) -> None:
    await member.put("/messagegroups/g")
    after = await cursor_now(member)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        waiting = group.create_task(changes(member, after, wait=30))
        await asyncio.sleep(0)  # it begins to wait
        await member.put("/messagegroups/h")
    assert [line.get("xid") for line in waiting.result()] == ["/messagegroups/h", None]


async def test_readers_that_wait_share_one_page_whatever_they_filter(
    member: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read_changed = feedpages._read_changed

    async def counted(connection: Connection, origins: Collection[Origin]) -> Any:
        reads.append(len(origins))
        return await read_changed(connection, origins)

    await member.put("/messagegroups/g")
    after = await cursor_now(member)
    monkeypatch.setattr(feedpages, "_read_changed", counted)
    scopes = ["/messagegroups/h", "/messagegroups/g/messages/m"] * 5
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        waiting = [group.create_task(changes(member, after, wait=15, scope=s)) for s in scopes]
        await until(lambda: pages_of(member.database.shared).waiting == 10)
        reads.clear()
        await member.put("/messagegroups/g/messages/m")
        await until(lambda: pages_of(member.database.shared).waiting == 5)
        await member.put("/messagegroups/h")
    found = [[line.get("xid") for line in each.result()[:-1]] for each in waiting]
    message = "/messagegroups/g/messages/m"
    expected = ["/messagegroups/g", message, f"{message}/versions/1"]
    assert found == [["/messagegroups/h"], expected] * 5
    assert len(reads) <= 4, "far fewer than readers"


async def test_a_reader_that_was_woken_costs_no_connection(
    member: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[Connection] = []
    monkeypatch.setattr(connections, "cut", lost.append)
    for number in range(3):
        async with asyncio.timeout(20):
            waiting = asyncio.create_task(changes(member, await cursor_now(member), wait=15))
            await until(lambda: pages_of(member.database.shared).waiting == 1)
            await member.put(f"/messagegroups/g{number}")
            await waiting
    assert not lost


async def test_a_client_waits_with_so_many_requests_and_is_told_the_limit(
    database_url: str,
) -> None:
    async with start_member(database_url, long_polls=20) as member:
        after = await cursor_now(member)
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            waiting = [group.create_task(changes(member, after, wait=15)) for _ in range(2)]
            await until(lambda: pages_of(member.database.shared).waiting == 2)
            answer = await member.send("GET", f"/replication/changes?after={after}&wait=15")
            assert (answer.status, answer.error) == (429, "too_many_at_once")
            assert answer.json["args"]["setting"] == "CONCORD_LONG_POLLS"
            assert answer.headers["Retry-After"] == "1"
            assert await changes(member, after) == [{"cursor": after}], "who does not wait may read"
            await member.put("/messagegroups/g")
        assert all(len(each.result()) == 2 for each in waiting)


async def test_a_reader_that_waits_in_vain_gets_its_cursor_back(member: Node) -> None:
    after = await cursor_now(member)
    assert await changes(member, after, wait=1) == [{"cursor": after}]


async def test_an_older_transaction_that_is_open_holds_changes_back_and_skips_none(
    member: Node,
) -> None:
    await member.put("/messagegroups/g")
    after = await cursor_now(member)
    async with member.database.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("SELECT pg_current_xact_id()")
        await member.put("/messagegroups/h")
        assert await changes(member, after) == [{"cursor": after}]
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            waiting = group.create_task(changes(member, after, wait=8))
            await transaction.rollback()
    assert [line.get("xid") for line in waiting.result()] == ["/messagegroups/h", None]


async def test_filters_keep_to_authorities_and_scopes(member: Node) -> None:
    own = member.database.node.authority
    after = await cursor_now(member)
    await write_some(member, "g")
    *copies, _ = await changes(member, after, authority="urn:nobody")
    assert copies == []
    *copies, _ = await changes(
        member, after, authority=own, wait=10, scope="/messagegroups/g/messages/m1"
    )
    assert [copy["xid"].rpartition("/")[2] for copy in copies] == ["g", "m1", "1"]
    *copies, _ = await lines(member, "/replication/snapshot?scope=/schemagroups")
    assert {copy["xid"].split("/")[1] for copy in copies} == {"schemagroups"}


async def test_single_origins_are_fetched_with_what_is_above_them(member: Node) -> None:
    await write_some(member, "g")
    own = member.database.node.authority
    wanted = [
        {"authority": own, "origin": "/messagegroups/g/messages/m0"},
        {"authority": own, "origin": "/messagegroups/nothing"},
        {"authority": "urn:else", "origin": "/messagegroups/g"},
    ]
    *copies, end = await lines(
        member, "/replication/fetch", method="POST", json={"origins": wanted}
    )
    assert [copy["xid"] for copy in copies] == ["/messagegroups/g", "/messagegroups/g/messages/m0"]
    assert await changes(member, end["cursor"]) == [end]


async def test_a_cursor_that_would_skip_something_is_gone(member: Node) -> None:
    for id in "abc":
        await member.put(f"/messagegroups/{id}")
    after = await cursor_now(member)
    await member.put("/messagegroups/d")
    await member.put("/messagegroups/e")
    instance, txid, seq, *_ = after.split(".")
    others = "00000000" if instance != "00000000" else "11111111"
    ahead = f"{instance}.{int(txid) + 10**9:019d}.{seq}"
    for gone in (f"{others}.{txid}.{seq}", ahead):
        answer = await member.send("GET", f"/replication/changes?after={gone}")
        assert (answer.status, answer.error) == (410, "log_lost")
        assert_problem(answer)
    await drop_log(member)
    answer = await member.send("GET", f"/replication/changes?after={after}")
    assert (answer.status, answer.error) == (410, "cursor_gone")


async def test_a_cursor_from_before_the_first_change_is_good(member: Node) -> None:
    after = await cursor_now(member)
    await member.put("/messagegroups/g")
    assert len(await changes(member, after, wait=10)) == 2


@pytest.mark.parametrize(
    "path",
    [
        "/replication/changes",
        "/replication/changes?after=",
        "/replication/changes?after=x",
        "/replication/changes?after=00000000.1",
        "/replication/changes?after=00000000.99999999999999999999.1",
        "/replication/snapshot?scope=messagegroups",
        "/replication/snapshot?scope=/a/../b",
        "/replication/snapshot?authority=",
        "/replication/snapshot?" + "&".join(["authority=x"] * 101),
        "/replication/digests?format=xml",
        "/replication/digests?format=csv&from=-1",
        "/replication/digests?format=csv&from=10&to=5",
        "/replication/digests?format=csv&to=70000",
        "/replication/digests?format=csv&verify=perhaps",
    ],
)
async def test_parameters_that_make_no_sense_are_refused(member: Node, path: str) -> None:
    answer = await member.send("GET", path)
    assert (answer.status, answer.error) == (400, "bad_request")
    assert_problem(answer)


async def test_a_reader_that_waits_is_answered_when_the_node_stops(database_url: str) -> None:
    async with ClientSession() as session:
        async with start_member(database_url) as member:
            after = await cursor_now(member)
            url = f"{member.url}/replication/changes?after={after}&wait=60"
            waiting = asyncio.create_task(_read(session, url))
            await until(lambda: pages_of(member.database.shared).waiting == 1)
        # The node gives open requests three seconds, and then ends them without an answer.
        assert orjson.loads(await waiting) == {"cursor": after}


async def _read(session: ClientSession, url: str) -> bytes:
    async with session.get(url) as answer:
        return await answer.read()
