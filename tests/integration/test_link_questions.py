"""Links follow what authorities delete, and ask once before they lose what a source lacks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from replication.sources import copypages
from tests.integration.conftest import Node
from tests.integration.federation import (
    accept,
    carries,
    databases,
    digest_rows,
    drop_log,
    eventually,
    execute,
    link,
    link_history_is,
    link_is,
    own_rows,
    push,
    running,
    start_member,
)
from tests.integration.meteredsource import MeteredSource, follow, metered

GROUPS, LIVE = 60, 61
LINK = "/replication/links/from"


@pytest.fixture
async def urls(postgres_url: str, template: str) -> AsyncIterator[list[str]]:
    async with databases(postgres_url, template, 4) as names:
        yield names


@pytest.fixture
async def nodes(urls: list[str]) -> AsyncIterator[tuple[Node, MeteredSource]]:
    """A target that has brought all groups of a source, and the way to that."""
    async with (
        start_member(urls[0], pull_interval_seconds=0.5) as source,
        start_member(urls[1], pull_interval_seconds=0.5) as target,
        metered(source) as way,
    ):
        await write_groups(source)
        await follow(target, way)
        async with running(target):
            await link_is(target, "from", "current")
        way.forget()
        yield target, way


async def write_groups(source: Node, groups: int = GROUPS) -> None:
    body = {"messagegroups": {f"g{number}": {} for number in range(groups)} | {"kept": {}}}
    answer = await source.send("POST", "/", body)
    assert answer.status == 200, answer.body


async def delete(source: Node, count: int, *, first: int = 0) -> None:
    for number in range(first, first + count):
        assert (await source.send("DELETE", f"/messagegroups/g{number}")).status == 204
    # The source shows changes in its feed only when no earlier transaction is open.
    await source.changes()


async def lose(source: Node, groups: str) -> None:
    """Let a source lose groups, as if it were restored from a backup."""
    await execute(source, "DELETE FROM entities WHERE kind = 'group' AND id ~ $1", groups)


async def become_another(source: Node, target: Node, id: str = "from") -> None:
    """Let the source of a link be another instance than the link has met."""
    await execute(target, "UPDATE links SET instance = gen_random_uuid() WHERE id = $1", id)


async def live(node: Node) -> int:
    return sum(row[1] == "false" for row in (await digest_rows(node)).values())


async def shown(target: Node, id: str = "from") -> Any:
    return await target.get(f"/replication/links/{id}")


async def asked(target: Node, id: str = "from") -> Any:
    """Wait for the question of a link."""
    await link_is(target, id, "asking")
    return (await shown(target, id)).get("question")


async def allow(target: Node, id: str = "from") -> None:
    digest = (await shown(target, id))["question"]["digest"]
    answer = await target.send("PATCH", f"/replication/links/{id}", {"allow": digest})
    assert answer.status == 200, answer.body


async def questions(target: Node, id: str = "from") -> int:
    """The number of questions that a link has asked."""
    return [event["event"] for event in (await shown(target, id))["history"]].count("asked")


async def test_what_an_authority_deletes_needs_no_permission(
    nodes: tuple[Node, MeteredSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, way = nodes
    monkeypatch.setattr(copypages, "_CHANGES", 8)
    body = {f"m{number}": {} for number in range(15)}
    answer = await way.node.send("POST", "/messagegroups/kept/messages", body)
    assert answer.status == 200
    async with running(target):
        await eventually(lambda: carries(target, way.node))
        await delete(way.node, GROUPS)
        assert (await way.node.send("DELETE", "/messagegroups/kept")).status == 204
        await eventually(lambda: carries(target, way.node))
    assert await live(target) == 0
    assert await questions(target) == 0


async def test_what_comes_and_goes_needs_no_permission(nodes: tuple[Node, MeteredSource]) -> None:
    target, way = nodes
    path = "/messagegroups/kept/messages/m"
    async with running(target):
        for _ in range(11):
            assert (await way.node.send("PUT", path, {})).status == 201
            await eventually(lambda: carries(target, way.node))
            assert (await way.node.send("DELETE", path)).status == 204
            await eventually(lambda: carries(target, way.node))
    assert await questions(target) == 0


@pytest.mark.parametrize("without", [frozenset(), frozenset({"/replication/digests"})])
async def test_what_an_intact_source_has_deleted_meanwhile_needs_no_permission(
    nodes: tuple[Node, MeteredSource], without: frozenset[str]
) -> None:
    target, way = nodes
    way.without = without
    await delete(way.node, 30)
    await drop_log(way.node)
    async with running(target):
        await eventually(lambda: carries(target, way.node))
        await link_history_is(target, "from", "resynchronise", "copied")
        await link_is(target, "from", "current")
    assert await questions(target) == 0
    events = (await shown(target))["history"]
    assert "30 deleted" in events[0]["detail"]


async def test_a_leaf_that_pushes_to_its_hub_and_relays_from_it_follows_a_clean_up(
    urls: list[str],
) -> None:
    async with start_member(urls[0]) as hub, start_member(urls[1]) as leaf:
        body = {f"m{number}": {} for number in range(400)}
        await hub.put("/messagegroups/g")
        answer = await hub.send("POST", "/messagegroups/g/messages", body)
        assert answer.status == 200
        await accept(hub, leaf)
        await push(leaf, hub)
        await link(leaf, hub, id="relay", authorities=["*"])
        async with running(hub, leaf):
            await eventually(lambda: carries(leaf, hub), 60)
            for number in range(11):
                path = f"/messagegroups/g/messages/m{number}"
                assert (await hub.send("DELETE", path)).status == 204
            await eventually(lambda: carries(leaf, hub), 60)
            await link_is(leaf, "relay", "current")
            assert await questions(leaf, "relay") == 0


async def test_a_wiped_source_takes_nothing_away_until_an_operator_allows_it(
    nodes: tuple[Node, MeteredSource],
) -> None:
    """Another catalog may have been installed in its place."""
    target, way = nodes
    await execute(way.node, "DELETE FROM entities WHERE kind <> 'registry'")
    await become_another(way.node, target)
    async with running(target):
        question = await asked(target)
        assert (question["deletions"], question["of"]) == (LIVE, LIVE)
        authority = way.node.database.node.authority
        assert question["first"][0] == {"authority": authority, "origin": "/messagegroups/g0"}
        assert len(question["first"]) == LIVE
        told = await shown(target)
        assert "61 of the 61 entities" in told["error"]
        assert f"`concord link allow from {question['digest']}`" in told["error"]
        assert told["behind"] == LIVE
        assert await live(target) == LIVE
        answer = await target.send("PATCH", LINK, {"allow": "another"})
        assert (answer.status, answer.error) == (409, "conflict")
        await allow(target)
        await link_is(target, "from", "current")
        assert await carries(target, way.node)
    told = await shown(target)
    assert (told.get("question"), told.get("error"), await questions(target)) == (None, None, 1)
    history = [event["event"] for event in told["history"]]
    assert history[:3] == ["dropped", "compared", "allowed"]
    assert told["history"][0]["detail"].startswith(f"{LIVE} replicas")


@pytest.mark.parametrize("without", [frozenset(), frozenset({"/replication/digests"})])
async def test_a_source_that_lost_most_is_followed_after_one_question(
    nodes: tuple[Node, MeteredSource], without: frozenset[str]
) -> None:
    """What it still has counts from earlier epochs on."""
    target, way = nodes
    await way.node.put("/messagegroups/g1", {"description": "later than the backup"})
    async with running(target):
        await eventually(lambda: carries(target, way.node))
    way.without = without
    await lose(way.node, "^g[2345]")
    digest = "UPDATE entities SET epoch = 1, digest = $1 WHERE id = 'g1'"
    await execute(way.node, digest, b"\0" * 32)
    await way.node.put("/messagegroups/g1", {"description": "since the restore"})
    await become_another(way.node, target)
    async with running(target):
        assert (await asked(target))["deletions"] == 44
        assert await live(target) == LIVE
        await allow(target)
        await link_is(target, "from", "current")
        assert await carries(target, way.node)
        assert await questions(target) == 1


async def test_another_loss_asks_again_and_the_same_one_never_twice(
    nodes: tuple[Node, MeteredSource],
) -> None:
    target, way = nodes
    await lose(way.node, "^g[12]")
    await become_another(way.node, target)
    async with running(target):
        first = await asked(target)
    await execute(way.node, "DELETE FROM entities WHERE kind = 'group' AND id ~ '^g[34]'")
    async with running(target):
        await allow(target)
        await eventually(lambda: asks_again(target, first))
        assert (await shown(target))["question"]["deletions"] == 22, "the others are allowed"
        await allow(target)
        await link_is(target, "from", "current")
        assert await carries(target, way.node)
        assert await questions(target) == 2
        await target.send("POST", "/replication/links/from/reset", {})
        await link_history_is(target, "from", "compared", "dropped")
        await link_is(target, "from", "current")
        assert await questions(target) == 2


async def asks_again(target: Node, first: Any) -> bool:
    question = (await shown(target)).get("question")
    return question is not None and question["digest"] != first["digest"]


async def test_a_restored_source_that_writes_on_asks_for_what_it_deletes(
    nodes: tuple[Node, MeteredSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the link has caught up, its deletions count with the epochs above those here, too."""
    target, way = nodes
    await become_another(way.node, target)
    await delete(way.node, 30)
    async with running(target):
        assert (await asked(target))["deletions"] == 30
        assert await live(target) == LIVE
        await allow(target)
        await link_is(target, "from", "current")
        assert await carries(target, way.node)
        # The link has caught up: it is the authority's decision again.
        await delete(way.node, 25, first=30)
        await eventually(lambda: carries(target, way.node))
        assert await questions(target) == 1


async def test_a_log_that_ends_before_the_cursor_is_of_a_source_that_lost_data(
    nodes: tuple[Node, MeteredSource],
) -> None:
    target, way = nodes
    later = "overlay(cursor placing '9' from 10 for 1)"
    await execute(target, f"UPDATE links SET cursor = {later}")
    await delete(way.node, 30)
    async with running(target):
        assert (await asked(target))["deletions"] == 30
        await allow(target)
        await link_is(target, "from", "current")
        assert await carries(target, way.node)


async def test_a_catalog_behind_a_relay_follows_what_was_allowed_there_without_a_question(
    urls: list[str],
) -> None:
    async with (
        start_member(urls[0]) as source,
        start_member(urls[1]) as relay,
        start_member(urls[2], pull_interval_seconds=0.2) as leaf,
    ):
        await write_groups(source)
        await link(relay, source, id="from")
        await link(leaf, relay, id="from", authorities=["*"])
        async with running(relay, leaf):
            await eventually(lambda: carries(leaf, source))
            for node in (relay, leaf):
                await link_is(node, "from", "current")
        await lose(source, "^g[2345]")
        await become_another(source, relay)
        async with running(relay, leaf):
            assert (await asked(relay))["deletions"] == 44
            await link_is(leaf, "from", "current")
            await allow(relay)
            await link_is(relay, "from", "current")
            assert await carries(relay, source)
            # What was allowed at the relay is followed behind it.
            await eventually(lambda: carries(leaf, source))
            await link_is(leaf, "from", "current")
        assert await questions(relay) == 1
        assert await questions(leaf) == 0


async def test_a_catalog_with_keys_of_an_authority_believes_no_relay_about_its_losses(
    urls: list[str],
) -> None:
    async with (
        start_member(urls[0]) as source,
        start_member(urls[1]) as relay,
        start_member(urls[2], pull_interval_seconds=0.1) as leaf,
    ):
        assert (await source.send("PUT", "/replication/signing", {"on": True})).status == 200
        await write_groups(source)
        await link(relay, source, id="from")
        await link(leaf, relay, id="from", authorities=["*"])
        async with running(relay, leaf):
            await eventually(lambda: carries(leaf, source))
        key = (await source.get("/replication/signing"))["key"]
        body = {"authority": source.database.node.authority, "key": key}
        trusted = await leaf.send("POST", "/replication/trust", body)
        assert trusted.status < 300, trusted.body
        await lose(source, "^g[2345]")
        await become_another(source, relay)
        async with running(relay):
            await asked(relay)
            await allow(relay)
            await link_is(relay, "from", "current")
        assert list((await relay.get("/replication"))["allowances"]) == [body["authority"]]
        async with running(leaf):
            await link_is(leaf, "from", "current")
            await relay.put("/messagegroups/later")
            await eventually(lambda: has(leaf, "/messagegroups/later"))
        assert await live(leaf) == LIVE + 1
        history = (await shown(leaf))["history"]
        assert "allowed" not in [event["event"] for event in history]


async def has(node: Node, path: str) -> bool:
    return (await node.send("GET", path)).status == 200


@pytest.mark.parametrize("is_another", [False, True])
async def test_a_pusher_that_lost_data_is_stopped_until_an_operator_allows_it(
    urls: list[str], is_another: bool
) -> None:
    async with start_member(urls[0]) as source, start_member(urls[1]) as target:
        await write_groups(source)
        accepted = (await accept(target, source))["id"]
        pushing = (await push(source, target))["id"]
        async with running(source, target):
            await link_is(source, pushing, "current")
            await eventually(lambda: carries(target, source))
        await lose(source, "^g[2345]")
        if is_another:
            await become_another(source, target, accepted)
        else:
            later = "regexp_replace(cursor, '[.]', '.9')"
            await execute(target, f"UPDATE links SET cursor = {later} WHERE id = '{accepted}'")
        async with running(source, target):
            question = await asked(target, accepted)
            assert (question["deletions"], question["of"]) == (44, LIVE)
            assert (await shown(target, accepted))["behind"] >= 44
            await link_is(source, pushing, "refused")
            assert "44 of the 61 entities" in (await shown(source, pushing))["error"]
            assert await live(target) == LIVE
            await allow(target, accepted)
            await link_is(source, pushing, "current")
            assert await carries(target, source)
            await link_is(target, accepted, "current")
        told = (await shown(target, accepted))["history"]
        assert [event["event"] for event in told[:3]] == ["dropped", "copied", "allowed"]
        assert told[0]["detail"].startswith("44 replicas")
        assert await questions(target, accepted) == 1


@pytest.mark.parametrize("full", [False, True])
async def test_a_wiped_source_takes_nothing_away_after_a_reset(
    nodes: tuple[Node, MeteredSource], full: bool
) -> None:
    target, way = nodes
    await execute(way.node, "DELETE FROM entities WHERE kind <> 'registry'")
    await target.send("POST", "/replication/links/from/reset", {"full": full})
    async with running(target):
        assert (await asked(target))["deletions"] == LIVE
        assert await live(target) == LIVE
        await allow(target)
        await link_is(target, "from", "current")
        assert await live(target) == 0


async def test_a_restart_keeps_the_question_and_the_answer(
    nodes: tuple[Node, MeteredSource],
) -> None:
    target, way = nodes
    await lose(way.node, "^g[2345]")
    await become_another(way.node, target)
    async with running(target):
        await asked(target)
    way.forget()
    async with running(target):
        another = {"id": "another", "source": "http://127.0.0.1:9", "mode": "pull"}
        await target.send("POST", "/replication/links?force", another)
        await link_is(target, "another", "waiting")
        assert (await shown(target))["state"] == "asking"
        assert not way.requests, "it asks its source for nothing"
    assert await live(target) == LIVE
    await allow(target)
    async with running(target):
        await link_is(target, "from", "current")
        assert await carries(target, way.node)


async def test_a_loss_is_over_once_the_link_has_caught_up_even_if_it_began_with_a_restart(
    nodes: tuple[Node, MeteredSource],
) -> None:
    target, way = nodes
    await lose(way.node, "^g[2345]")
    await become_another(way.node, target)
    async with running(target):
        await asked(target)
    async with running(target):
        await allow(target)
        await link_is(target, "from", "current")
        await write_groups(way.node)
        await eventually(lambda: carries(target, way.node))
        # The source cannot be read while it deletes, and its log ends.
        way.without = frozenset({"/replication/changes"})
        await way.node.put("/messagegroups/later")
        await link_is(target, "from", "refused")
        await delete(way.node, 30)
        await drop_log(way.node)
        way.without = frozenset()
        await link_history_is(target, "from", "resynchronise")
        await eventually(lambda: carries(target, way.node))
        assert await questions(target) == 1


async def test_a_small_loss_neither_asks_nor_deletes(nodes: tuple[Node, MeteredSource]) -> None:
    target, way = nodes
    await lose(way.node, "^g1")
    await become_another(way.node, target)
    async with running(target):
        await link_history_is(target, "from", "compared", "another instance")
        await link_is(target, "from", "current")
    assert await live(target) == LIVE
    assert await questions(target) == 0
    assert len(await own_rows(way.node)) == LIVE - 11


async def test_a_link_that_does_not_ask_is_not_allowed_anything(
    nodes: tuple[Node, MeteredSource],
) -> None:
    target, _ = nodes
    answer = await target.send("PATCH", LINK, {"allow": "x"})
    assert (answer.status, answer.error) == (400, "bad_request")
    answer = await target.send("PATCH", LINK, {"allow": ""})
    assert answer.status == 400
    answer = await target.send("PATCH", "/replication/links/nobody", {"allow": "x"})
    assert answer.status == 404
