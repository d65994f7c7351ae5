"""Links that push, between real nodes: they bring what pulls bring, to those that accept it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import orjson
import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from replication.feed.feedlines import write_end
from tests.integration.conftest import Answer, Node
from tests.integration.federation import (
    accept,
    authority_of,
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
    push,
    running,
    write_some,
)


@pytest.fixture
async def nodes(postgres_url: str, template: str) -> AsyncIterator[list[Node]]:
    """Three fresh nodes that do not know each other."""
    async with members(postgres_url, template, 3, pull_interval_seconds=0.3) as found:
        yield found


async def send_lines(target: Node, source: Node, body: bytes, query: str = "") -> Answer:
    """Push lines by hand in the name of `source`."""
    return await target.send(
        "POST",
        f"/replication/entities{query}",
        body=body,
        Concord_Authority=authority_of(source),
        Concord_Instance=str(source.database.node.instance),
    )


async def feed_of(source: Node) -> bytes:
    """The lines of everything that a node has, without its cursor."""
    answer = await source.send("GET", "/replication/snapshot")
    return b"".join(answer.body.splitlines(keepends=True)[:-1])


async def test_a_push_brings_what_is_there_and_then_every_change(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await write_some(source, "g")
    await source.put("/messagegroups/gone", {})
    assert (await source.send("DELETE", "/messagegroups/gone")).status == 204
    accepted = await accept(target, source)
    made = await push(source, target)
    async with running(source):
        await eventually(lambda: carries(target, source))
        await link_is(source, made["id"], "current")
        document = await target.send("GET", "/schemagroups/g/schemas/s")
        assert document.body == b'{"type": "object"}'
        await source.put("/messagegroups/g/messages/m0", {"description": "another"})
        await source.put("/messagegroups/h", {})
        assert (await source.send("DELETE", "/messagegroups/g/messages/m1")).status == 204
        assert (await source.send("DELETE", "/schemagroups/g")).status == 204
        await eventually(lambda: carries(target, source))
        await link_is(source, made["id"], "current")
        await link_is(target, accepted["id"], "current")
    assert (await target.get("/messagegroups/g/messages/m0"))["description"] == "another"
    assert (await target.send("GET", "/messagegroups/g/messages/m1")).status == 404
    for node, id in ((source, made["id"]), (target, accepted["id"])):
        shown = await node.get(f"/replication/links/{id}")
        assert (shown["conflicts"], shown.get("error")) == (0, None)
        assert [event["event"] for event in shown["history"]] == ["copied"]
        assert shown["applied"] >= len(await own_rows(source))
    [listed] = (await target.get("/replication/links"))["links"]
    assert (listed["direction"], listed["authority"]) == ("in", authority_of(source))


async def test_nothing_is_accepted_unless_the_operator_says_so(nodes: list[Node]) -> None:
    source, target, other = nodes
    await write_some(source, "g")
    await accept(target, other)
    refused = await send_lines(target, source, await feed_of(source))
    assert (refused.status, refused.error) == (403, "push_not_accepted")
    assert f"concord link accept {authority_of(source)}" in refused.json["detail"]
    body = {"target": target.url, "mode": "push", "id": "to"}
    unusable = await source.send("POST", "/replication/links", body)
    assert (unusable.status, unusable.error) == (400, "target_unusable")
    assert f"concord link accept {authority_of(source)}" in unusable.json["detail"]
    assert (await source.send("POST", "/replication/links?force", body)).status == 201
    async with running(source):
        await link_is(source, "to", "refused")
        assert await digest_rows(target) == {}
        await accept(target, source)
        await eventually(lambda: carries(target, source))


async def test_a_pusher_brings_no_authority_but_those_that_are_accepted(
    nodes: list[Node],
) -> None:
    source, target, other = nodes
    await write_some(source, "g")
    await write_some(other, "o")
    await accept(target, source, id="from")
    assert (await send_lines(target, source, b"", "?begin")).status == 200
    answer = await send_lines(target, source, await feed_of(other) + await feed_of(source))
    verdicts = {line.get("authority"): line.get("verdict") for line in _lines(answer)[:-1]}
    assert verdicts == {authority_of(other): "refused", authority_of(source): "applied"}
    assert await carries(target, source)


async def test_a_push_out_of_scope_is_refused_and_shown_at_the_source(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await source.put("/messagegroups/g", {})
    await source.put("/messagegroups/h", {})
    await accept(target, source, scope=["/messagegroups/g"])
    made = await push(source, target)
    async with running(source):
        await link_is(source, made["id"], "current")
    assert {origin for _, origin in await digest_rows(target)} == {"/messagegroups/g"}
    path = f"/replication/links/{made['id']}/conflicts"
    [conflict] = (await source.get(path))["conflicts"]
    assert (conflict["origin"], conflict["verdict"]) == ("/messagegroups/h", "refused")


async def test_a_link_pushes_only_what_is_in_its_scope(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await write_some(source, "g")
    await accept(target, source)
    await push(source, target, scope=["/messagegroups/g/messages/m1"])
    async with running(source):
        await eventually(lambda: _holds(target, 3))
        await source.put("/messagegroups/g/messages/m0", {"description": "not sent"})
        await source.put("/messagegroups/g/messages/m1", {"description": "sent"})
        await eventually(lambda: _describes(target, "/messagegroups/g/messages/m1", "sent"))
    assert {origin for _, origin in await digest_rows(target)} == {
        "/messagegroups/g",
        "/messagegroups/g/messages/m1",
        "/messagegroups/g/messages/m1/versions/1",
    }


async def _holds(node: Node, count: int) -> bool:
    return len(await digest_rows(node)) == count


async def _describes(node: Node, path: str, description: str) -> bool:
    answer = await node.send("GET", path)
    return answer.status == 200 and answer.json.get("description") == description


async def test_a_conflict_is_shown_on_both_sides_until_its_cause_is_gone(
    nodes: list[Node],
) -> None:
    source, target, _ = nodes
    await target.put("/messagegroups/g", {})
    await write_some(source, "g")
    accepted = await accept(target, source)
    made = await push(source, target)

    async def conflicts(number: int) -> bool:
        there = await target.get(f"/replication/links/{accepted['id']}")
        here = await source.get(f"/replication/links/{made['id']}")
        return there["conflicts"] == here["conflicts"] == number

    async with running(source):
        # The group, and two messages with their versions below it.
        await eventually(lambda: conflicts(5))
        await target.send("DELETE", "/messagegroups/g")
        await eventually(lambda: carries(target, source))
        await eventually(lambda: conflicts(0))


async def test_copies_that_come_twice_change_nothing(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await write_some(source, "g")
    await accept(target, source)
    feed = await feed_of(source)
    await send_lines(target, source, b"", "?begin")
    first = await send_lines(target, source, feed)
    before = await target.changes()
    second = await send_lines(target, source, feed)
    assert {line["verdict"] for line in _lines(first)[:-1]} == {"applied"}
    assert {line["verdict"] for line in _lines(second)[:-1]} == {"current"}
    assert await target.changes() == before


def _lines(answer: Answer) -> list[dict[str, Any]]:
    assert answer.status == 200, answer.body
    return [orjson.loads(line) for line in answer.body.splitlines()]


async def test_copies_that_would_leave_a_gap_are_refused(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await write_some(source, "g")
    await accept(target, source)
    feed = await feed_of(source)
    early = await send_lines(target, source, feed)
    assert (early.status, early.error) == (409, "push_out_of_step")
    assert (await send_lines(target, source, b"", "?begin")).status == 200
    ended = await send_lines(target, source, feed + write_end("one"))
    assert _lines(ended)[-1]["cursor"] == "one"
    for query in ("", "?after=two"):
        gap = await send_lines(target, source, feed, query)
        assert (gap.status, gap.error) == (409, "push_out_of_step")
    assert _lines(await send_lines(target, source, b""))[-1]["cursor"] == "one"
    later = await send_lines(target, source, write_end("two"), "?after=one")
    assert _lines(later)[-1]["cursor"] == "two"


SENSELESS: list[tuple[bytes, str, dict[str, str]]] = [
    (b"", "?after=", {}),
    (b"", "", {"Concord_Authority": "no"}),
    (b"", "", {"Concord_Instance": "no"}),
    (write_end("a") + write_end("b"), "?begin", {}),
    (write_end("a") + b"{}", "", {}),
    (write_end("a" * 300), "", {}),
]


async def test_senseless_pushes_are_refused(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await accept(target, source)
    identity = {
        "Concord_Authority": authority_of(source),
        "Concord_Instance": str(source.database.node.instance),
    }
    for body, query, headers in SENSELESS:
        answer = await target.send(
            "POST", f"/replication/entities{query}", body=body, **identity | headers
        )
        assert (answer.status, answer.error) == (400, "bad_request")


async def test_more_copies_than_a_request_may_have_are_refused(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await accept(target, source)
    await send_lines(target, source, b"", "?begin")
    answer = await send_lines(target, source, b"{}\n" * 1002)
    assert (answer.status, answer.error) == (413, "limit_exceeded")
    malformed = _lines(await send_lines(target, source, b"{}\n[1\n"))
    assert [line.get("verdict") for line in malformed] == ["invalid", "invalid", None]


class LossyTarget:
    """Passes requests on to a node, and cuts many connections after the node has answered."""

    def __init__(self, target: Node, session: ClientSession) -> None:
        self.target = target
        self.session = session
        self.random = Random(1)
        self.lost = 0

    async def pass_on(self, request: web.Request) -> web.Response:
        body = await request.read()
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.startswith("Concord-") or name == "Content-Type"
        }
        async with self.session.request(
            request.method, f"{self.target.url}{request.path_qs}", data=body, headers=headers
        ) as answer:
            answered = await answer.read()
            if request.method == "POST" and self.random.random() < 0.35:
                self.lost += 1
                assert request.transport is not None
                request.transport.abort()
            return web.Response(
                status=answer.status, body=answered, content_type=answer.content_type
            )


async def test_answers_that_are_lost_lose_and_double_nothing(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await write_some(source, "g0", messages=4)
    await accept(target, source)
    async with ClientSession() as session:
        lossy = LossyTarget(target, session)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", lossy.pass_on)
        async with TestServer(app) as server:
            url = str(server.make_url("")).rstrip("/")
            body = {"target": url, "mode": "push", "id": "to"}
            assert (await source.send("POST", "/replication/links?force", body)).status == 201
            async with running(source):
                for number in range(1, 6):
                    await write_some(source, f"g{number}")
                    await eventually(lambda: carries(target, source))
    assert lossy.lost >= 3
    created = [c.change.xid for c in await target.changes() if c.change.action == "created"]
    assert len(created) == len(set(created))


async def test_a_source_that_was_lost_at_any_point_goes_on_from_its_cursor(
    nodes: list[Node],
) -> None:
    source, target, _ = nodes
    await accept(target, source)
    made = await push(source, target)
    async with running(source):
        await link_history_is(source, made["id"], "copied")
    for number in range(4):
        await write_some(source, f"g{number}", messages=5)
        async with running(source):
            await eventually(lambda number=number: _has_group(target, f"g{number}"))
    async with running(source):
        await eventually(lambda: carries(target, source))
    created = [c.change.xid for c in await target.changes() if c.change.action == "created"]
    assert len(created) == len(set(created))
    history = (await source.get(f"/replication/links/{made['id']}"))["history"]
    assert [event["event"] for event in history] == ["copied"]


async def _has_group(node: Node, id: str) -> bool:
    return (await node.send("GET", f"/messagegroups/{id}")).status == 200


async def test_a_cursor_that_fell_out_of_the_log_begins_a_complete_copy(
    nodes: list[Node],
) -> None:
    source, target, _ = nodes
    await write_some(source, "g")
    await accept(target, source)
    made = await push(source, target)
    async with running(source):
        await link_is(source, made["id"], "current")
    await write_some(source, "h")
    await source.send("DELETE", "/messagegroups/g")
    await drop_log(source)
    async with running(source):
        await link_history_is(source, made["id"], "copied", "resynchronise", "copied")
        await eventually(lambda: carries(target, source))


async def test_a_target_that_comes_back_as_another_instance_is_filled_again(
    nodes: list[Node],
) -> None:
    source, target, _ = nodes
    await write_some(source, "g")
    await accept(target, source)
    made = await push(source, target)
    async with running(source):
        await link_is(source, made["id"], "current")
    await execute(target, "DELETE FROM entities WHERE kind <> 'registry'")
    await execute(target, "UPDATE links SET cursor = NULL, doubts = true")
    async with running(source):
        await eventually(lambda: carries(target, source))
        await link_history_is(source, made["id"], "copied", "resynchronise", "copied")


async def test_a_target_that_went_back_to_a_backup_gets_what_it_lost(nodes: list[Node]) -> None:
    """Its cursor went back with its entities, so the source goes on from there."""
    source, target, _ = nodes
    await write_some(source, "g")
    accepted = await accept(target, source)
    made = await push(source, target)
    async with running(source):
        await link_is(source, made["id"], "current")
    path = f"/replication/links/{accepted['id']}"
    backup = (await target.get(path)).get("cursor")
    await source.put("/messagegroups/later", {})
    async with running(source):
        await eventually(lambda: carries(target, source))
    await execute(target, "DELETE FROM entities WHERE xid = '/messagegroups/later'")
    await execute(target, "UPDATE links SET cursor = $1", backup)
    async with running(source):
        await eventually(lambda: carries(target, source))
    history = (await source.get(f"/replication/links/{made['id']}"))["history"]
    assert [event["event"] for event in history] == ["copied"]


async def test_a_complete_copy_that_broke_off_does_not_make_what_is_equal_seem_lost(
    nodes: list[Node],
) -> None:
    source, target, _ = nodes
    groups = {f"g{number}": {} for number in range(30)}
    assert (await source.send("POST", "/", {"messagegroups": groups})).status == 200
    accepted = await accept(target, source)
    assert (await send_lines(target, source, b"", "?begin")).status == 200
    body = await feed_of(source) + write_end("a")
    assert (await send_lines(target, source, body)).status == 200
    assert (await send_lines(target, source, b"", "?begin")).status == 200
    assert (await send_lines(target, source, b"", "?begin=differing")).status == 200
    assert (await send_lines(target, source, write_end("b"))).status == 200
    assert (await target.get(f"/replication/links/{accepted['id']}")).get("question") is None
    # A complete copy that an operator has asked for has to be one.
    reset = await target.send("POST", f"/replication/links/{accepted['id']}/reset", {})
    assert reset.status == 200, reset.body
    assert (await send_lines(target, source, b"", "?begin")).status == 200
    answer = await send_lines(target, source, b"", "?begin=differing")
    assert (answer.status, answer.error) == (409, "push_out_of_step")
    assert await _holds(target, 30)


@pytest.mark.parametrize("advice", ["allow", "reset"])
async def test_a_source_that_lost_much_is_stopped_until_an_operator_decides(
    nodes: list[Node], advice: str
) -> None:
    source, target, _ = nodes
    for number in range(60):
        await source.put(f"/messagegroups/g{number}", {})
    accepted = await accept(target, source)
    made = await push(source, target)
    path = f"/replication/links/{accepted['id']}"
    async with running(source, target):
        await link_is(source, made["id"], "current")
        await execute(source, "DELETE FROM entities WHERE kind = 'group' AND id ~ '^g[12]'")
        assert (await target.send("POST", f"{path}/reset", {"drop": False})).status == 200
        await link_is(source, made["id"], "refused")
        question = "no longer has 22 of the 60 entities"
        assert question in (await source.get("/replication/links"))["links"][0]["error"]
        shown = await target.get(path)
        asked = shown.get("question")
        assert (shown["state"], asked["deletions"], asked["of"]) == ("asking", 22, 60)
        assert question in shown["error"]
        assert await _holds(target, 60)
        if advice == "reset":
            answer = await target.send("POST", f"{path}/reset", {"drop": True})
        else:
            answer = await target.send("PATCH", path, {"allow": asked["digest"]})
        assert answer.status == 200, answer.body
        await link_is(source, made["id"], "current")
        assert await _holds(target, 38)
        assert (await target.get(path)).get("error") is None


async def test_a_pusher_that_brings_too_much_is_stopped(nodes: list[Node]) -> None:
    source, target, _ = nodes
    target.context.shared.settings = target.context.settings.model_copy(update={"link_copies": 20})
    for number in range(21):
        await source.put(f"/messagegroups/g{number}", {})
    accepted = await accept(target, source)
    made = await push(source, target)
    async with running(source):
        await link_is(source, made["id"], "refused")
        held = await digest_rows(target)
        await source.put("/messagegroups/more", {})
        await link_is(target, accepted["id"], "refused")
        shown = await target.get(f"/replication/links/{accepted['id']}")
        assert "more than 20 entities" in shown["error"]
        assert await digest_rows(target) == held
        target.context.shared.settings = target.context.settings.model_copy(
            update={"link_copies": 99}
        )
        await eventually(lambda: carries(target, source))


async def test_each_side_can_pause_and_goes_on_where_it_was(nodes: list[Node]) -> None:
    source, target, _ = nodes
    accepted = await accept(target, source)
    made = await push(source, target)
    async with running(source):
        await link_is(source, made["id"], "current")
        for node, id in ((target, accepted["id"]), (source, made["id"])):
            path = f"/replication/links/{id}"
            assert (await node.send("PATCH", path, {"paused": True})).status == 200
            await source.put("/messagegroups/g", {"description": id})
            if node is target:
                await link_is(source, made["id"], "waiting")
            assert not await _describes(target, "/messagegroups/g", id)
            assert (await node.send("PATCH", path, {"paused": False})).status == 200
            await eventually(lambda: carries(target, source))
    history = (await source.get(f"/replication/links/{made['id']}"))["history"]
    assert [event["event"] for event in history] == ["copied"]


async def test_both_ends_stay_current_while_the_pusher_confirms_that_nothing_is_left(
    nodes: list[Node],
) -> None:
    source, target, _ = nodes
    accepted = await accept(target, source)
    made = await push(source, target)
    at_source = f"/replication/links/{made['id']}"
    at_target = f"/replication/links/{accepted['id']}"
    async with running(source):
        await link_is(source, made["id"], "current")
        await link_is(target, accepted["id"], "current")
        await source.put("/messagegroups/g", {})
        await eventually(lambda: carries(target, source))
        before = (await target.get(at_target)).get("currentat")

        async def is_confirmed() -> bool:
            return bool((await target.get(at_target)).get("currentat") != before)

        for _ in range(4):
            await eventually(is_confirmed)
            before = (await target.get(at_target)).get("currentat")
            assert (await source.get(at_source))["state"] == "current"
            assert (await target.get(at_target))["state"] == "current"


async def test_a_pusher_that_fell_silent_is_shown_to_be_away(nodes: list[Node]) -> None:
    source, target, _ = nodes
    accepted = await accept(target, source)
    await push(source, target)
    async with running(source):
        await link_is(target, accepted["id"], "current")
    await execute(target, "UPDATE links SET currentat = currentat - interval '3 minutes'")
    shown = await target.get(f"/replication/links/{accepted['id']}")
    assert shown["state"] == "waiting"
    assert shown["lag"] >= 180
    async with running(source):
        await link_is(target, accepted["id"], "current")


async def test_a_copy_that_is_too_large_for_the_target_is_left_out_and_shown(
    nodes: list[Node],
) -> None:
    source, target, _ = nodes
    target.context.shared.settings = target.context.settings.model_copy(
        update={"max_body_bytes": 10_000}
    )
    for number in range(30):
        await source.put(f"/messagegroups/g{number}", {"description": "x" * 3000})
    answer = await source.request(
        "PUT",
        "/schemagroups/h/schemas/s",
        body=b'{"description": "%s"}' % (b"x" * 30_000),
        headers={"Content-Type": "application/json", "xRegistry-format": "JsonSchema/draft-07"},
    )
    assert answer.status == 201, answer.body
    await accept(target, source)
    made = await push(source, target)
    async with running(source):
        await link_is(source, made["id"], "current")
    [conflict] = (await source.get(f"/replication/links/{made['id']}/conflicts"))["conflicts"]
    assert conflict["origin"] == "/schemagroups/h/schemas/s/versions/1"
    assert "larger than" in conflict["detail"]
    assert len(await digest_rows(target)) == len(await own_rows(source)) - 1


async def test_what_was_pushed_can_be_dropped_with_its_acceptance(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await write_some(source, "g")
    accepted = await accept(target, source)
    made = await push(source, target)
    async with running(source, target):
        await eventually(lambda: carries(target, source))
        path = f"/replication/links/{accepted['id']}?drop"
        assert (await target.send("DELETE", path)).status == 202
        await eventually(lambda: _holds(target, 0))
        await source.put("/messagegroups/h", {})
        await link_is(source, made["id"], "refused")
    assert (await target.get("/replication/links"))["links"] == []


async def test_an_acceptance_that_is_reset_is_filled_again(nodes: list[Node]) -> None:
    """A relay may have forged what is here: the owner's own complete copy replaces it."""
    source, target, _ = nodes
    await write_some(source, "g")
    accepted = await accept(target, source)
    await push(source, target)
    async with running(source, target):
        await eventually(lambda: carries(target, source))
        await execute(target, "UPDATE entities SET epoch = epoch + 7 WHERE kind = 'version'")
        path = f"/replication/links/{accepted['id']}/reset"
        assert (await target.send("POST", path, {"drop": False})).status == 200
        await eventually(lambda: carries(target, source))


async def test_an_authority_comes_by_one_way_only(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await link(target, source, id="pulled")
    body = {"mode": "accept", "authority": authority_of(source)}
    refused = await target.send("POST", "/replication/links", body)
    assert (refused.status, refused.error) == (400, "source_unusable")
    await target.send("DELETE", "/replication/links/pulled")
    accepted = await accept(target, source)
    made = f"/replication/links/{accepted['id']}"
    for method, path, again in (
        ("POST", "/replication/links", body),
        ("PATCH", made, {"authority": "urn:other"}),
        ("PUT", made, {"mode": "accept", "authority": "urn:other"}),
        ("POST", "/replication/links", {"source": source.url, "mode": "pull"}),
        ("POST", "/replication/links", body | {"authority": authority_of(target)}),
    ):
        assert (await target.send(method, path, again)).status == 400


@pytest.mark.parametrize(
    ("member", "value", "error"),
    [
        ("authority", None, "required_attribute_missing"),
        ("source", "http://127.0.0.1:9", "invalid_attribute"),
        ("target", "http://127.0.0.1:9", "invalid_attribute"),
        ("trust", ["first"], "invalid_attribute"),
        ("token", "secret", "invalid_attribute"),
        ("labels", ["a"], "invalid_attribute"),
        ("dialect", "discovery", "invalid_attribute"),
    ],
)
async def test_a_link_that_accepts_pushes_leads_nowhere(
    nodes: list[Node], member: str, value: Any, error: str
) -> None:
    body = {"mode": "accept", "authority": "urn:other", member: value}
    refused = await nodes[0].send("POST", "/replication/links", body)
    assert (refused.status, refused.error) == (400, error), refused.body


async def test_a_link_that_brings_by_itself_does_not_become_one_that_accepts_pushes(
    nodes: list[Node],
) -> None:
    target, source, _ = nodes
    await link(target, source, id="pulled")
    body = {"mode": "accept", "authority": authority_of(source)}
    refused = await target.send("PUT", "/replication/links/pulled", body)
    assert (refused.status, refused.error) == (400, "invalid_attribute")


async def test_one_link_pushes_to_a_target_at_a_time(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await write_some(source, "g")
    await accept(target, source)
    await push(source, target, id="one")
    await push(source, target, id="two", scope=["/messagegroups/h"])
    async with running(source):
        await link_is(source, "one", "current")
        await link_is(source, "two", "refused")
    shown = await source.get("/replication/links/two")
    assert "Link one pushes to the same target" in shown["error"]
    assert await carries(target, source)


async def test_two_processes_of_a_target_take_pushes_at_once(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await write_some(source, "g", messages=20)
    await accept(target, source)
    await send_lines(target, source, b"", "?begin")
    feed = await feed_of(source) + write_end("end")
    answers = await asyncio.gather(*(send_lines(target, source, feed) for _ in range(4)))
    assert {answer.status for answer in answers} <= {200, 409}
    assert await carries(target, source)
    created = [c.change.xid for c in await target.changes() if c.change.action == "created"]
    assert len(created) == len(set(created))


async def test_a_target_that_restarts_within_a_complete_copy_drops_nothing(
    nodes: list[Node],
) -> None:
    source, target, _ = nodes
    for number in range(5):
        await source.put(f"/messagegroups/g{number}", {})
    accepted = await accept(target, source, id="from")
    await push(source, target, id="to")
    async with running(source):
        await link_is(source, "to", "current")
        await eventually(lambda: carries(target, source))
    # An operator's reset lets the copy overrule what is here.
    answer = await target.send("POST", f"/replication/links/{accepted['id']}/reset", {})
    assert answer.status == 200, answer.body
    begun = await send_lines(target, source, b"", "?begin&copies=5")
    assert begun.status == 200, begun.body
    held = await digest_rows(target)

    async with running(target):
        await target.put("/messagegroups/own", {})
        await asyncio.sleep(0.5)  # for a drop that must not come

    assert held.items() <= (await digest_rows(target)).items()
