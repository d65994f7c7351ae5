"""Callers with roles in some groups are told about these only: subscriptions, events, the feed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from aiohttp import ClientPayloadError
from yarl import URL

from catalog.access.owntokens import make_token
from catalog.model.roles import Grant, Role
from catalog.monitoring.health import routes as monitoring_routes
from catalog.store.accessrules import AccessRule, add_paths, add_rule, read_paths, replace_paths
from catalog.store.accesstokens import remove_token
from catalog.subscriptions.delivery.dispatcher import run_deliveries
from catalog.subscriptions.requests import routes as subscription_routes
from replication.feed.feedrequests import pages_of
from replication.routes import routes
from tests.integration.conftest import Answer, Node, fresh_node
from tests.integration.test_subscriptions_life import AnsweringSink, definition, sink

__all__ = ["sink"]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
GROUPS = [{"prefix": {"subject": "/messagegroups/"}}]


@dataclass(frozen=True)
class Holder:
    """The holder of a token with a rule, which gives it a role in some groups."""

    node: Node
    id: str
    token: str

    async def send(self, method: str, path: str, json: Any = None, **headers: str) -> Answer:
        headers["Authorization"] = f"Bearer {self.token}"
        return await self.node.send(method, path, json, **headers)

    async def put(self, path: str, json: Any = None) -> Any:
        answer = await self.send("PUT", path, json or {})
        assert answer.status in (200, 201), answer.body
        return answer.json

    async def get(self, path: str) -> Any:
        answer = await self.send("GET", path)
        assert answer.status == 200, answer.body
        return answer.json

    async def subscribe(self, sink: str, **changes: Any) -> str:
        answer = await self.send("POST", "/subscriptions", definition(sink, **changes))
        assert answer.status == 201, answer.body
        return f"/subscriptions/{answer.json['id']}"

    async def may(self, *paths: str) -> None:
        async with self.node.database.transaction() as connection:
            await add_paths(connection, self.id, paths)

    async def may_not(self, *paths: str) -> None:
        async with self.node.database.transaction() as connection:
            kept = {*await read_paths(connection, self.id)} - {*paths}
            await replace_paths(connection, self.id, kept)


async def holder(node: Node, role: Role, *paths: str, expiresat: datetime | None = None) -> Holder:
    """Make a token: with a role at these paths, or without any in the whole catalog."""
    grants = () if paths else (Grant(role),)
    async with node.database.transaction() as connection:
        made, text = await make_token(connection, name="", grants=grants, expiresat=None)
        if paths:
            rule = AccessRule(
                id=made.id, who=f"token={made.id}", role=role, createdat=NOW, createdby=""
            )
            await add_rule(connection, rule, paths)
    return Holder(node, made.id, text)


node = fresh_node(routes=[*routes, *monitoring_routes], open=False, allow_private_addresses=True)


@pytest.fixture
async def admin(node: Node) -> AsyncIterator[Holder]:
    """The admin of a node that delivers."""
    task = asyncio.create_task(run_deliveries(node.context))
    yield await holder(node, "admin")
    task.cancel()
    await asyncio.wait([task])


async def until(look: Callable[[], Any]) -> Any:
    """The result of a look, once it is true."""
    async with asyncio.timeout(30):
        while True:
            found = look()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.02)  # between two looks


def subjects(sink: AnsweringSink) -> list[str]:
    return [headers["ce-subject"] for headers, _ in sink.events]


async def test_a_subscription_brings_what_its_creator_may_see_now(
    node: Node, admin: Holder, sink: AnsweringSink
) -> None:
    owner = await holder(node, "writer", "/messagegroups/mine")
    path = await owner.subscribe(sink.url, filters=GROUPS)
    for group in ("other", "mine"):
        await admin.put(f"/messagegroups/{group}")
    await until(lambda: subjects(sink) == ["/messagegroups/mine"])

    await owner.may("/messagegroups/other")
    await owner.may_not("/messagegroups/mine")
    for group in ("mine", "other"):
        await admin.put(f"/messagegroups/{group}", {"name": "second"})
    await until(lambda: subjects(sink) == ["/messagegroups/mine", "/messagegroups/other"])

    # What is delivered again is what it may see by now, too.
    assert (await owner.send("PATCH", path, {"cursor": "earliest"})).status == 200
    await until(lambda: len(sink.events) == 4)
    assert subjects(sink)[2:] == ["/messagegroups/other"] * 2


async def test_a_dry_run_tells_of_what_the_caller_may_see(node: Node, admin: Holder) -> None:
    owner = await holder(node, "writer", "/messagegroups/mine")
    for group in ("other", "mine"):
        await admin.put(f"/messagegroups/{group}")
        await admin.put(f"/messagegroups/{group}/messages/m")

    async def subjects_for(caller: Holder, **changes: Any) -> list[str]:
        wanted = definition("http://127.0.0.1:9/", **changes)
        answer = await caller.send("POST", "/subscriptions?dryrun", wanted)
        assert (answer.status, answer.json["events"]) == (200, len(answer.json["first"]))
        return [each["subject"] for each in answer.json["first"]]

    created = {"types": ["io.xregistry.group.created"]}
    # What is not older than any running transaction can be read only a moment later.
    async with asyncio.timeout(20):
        while "/messagegroups/mine" not in await subjects_for(admin, **created):
            await asyncio.sleep(0.02)  # between two looks at the log
    assert await subjects_for(admin, **created) == ["/messagegroups/mine", "/messagegroups/other"]
    assert await subjects_for(owner, **created) == ["/messagegroups/mine"]
    message = {"filters": [{"prefix": {"subject": "/messagegroups/mine/messages/"}}]}
    assert {*await subjects_for(owner, **message)} == {
        "/messagegroups/mine/messages/m",
        "/messagegroups/mine/messages/m/versions/1",
    }
    assert await owner.get("/subscriptions") == []
    for wrong in ({"filters": [{"x": 1}]}, {"protocol": "PIGEON"}, {"sink": "ftp://x"}):
        refused = await owner.send("POST", "/subscriptions?dryrun", definition(**wrong))
        assert refused.status == 400
    audit = {"types": ["concord.subscription.created"]}
    refused = await owner.send("POST", "/subscriptions?dryrun", definition(**audit))
    assert refused.status == 400


async def test_those_told_of_an_entity_are_found_by_their_filters_and_rights(
    node: Node, admin: Holder
) -> None:
    owner = await holder(node, "writer", "/messagegroups/mine")
    for group in ("other", "mine"):
        await admin.put(f"/messagegroups/{group}/messages/m")
    exact = {"filters": [{"exact": {"subject": "/messagegroups/mine/messages/m"}}]}
    versions = {"types": ["io.xregistry.version.deleted"], "filters": GROUPS}
    everywhere = await admin.subscribe("http://127.0.0.1:9/all")
    wanted = await owner.subscribe("http://127.0.0.1:9/mine", filters=GROUPS)
    single = await admin.subscribe("http://127.0.0.1:9/one", **exact)
    ended = await admin.subscribe("http://127.0.0.1:9/versions", **versions)
    await admin.subscribe("http://127.0.0.1:9/log", types=["concord.subscription.created"])

    async def told_of(caller: Holder, about: str) -> set[str]:
        found, following = set[str](), f"/subscriptions?about={about}&limit=1"
        while following:
            answer = await caller.send("GET", following)
            assert answer.status == 200, answer.body
            found |= {f"/subscriptions/{each['id']}" for each in answer.json}
            link = answer.headers.get("Link", "")
            following = URL(link[1:].partition(">")[0]).path_qs if "rel=next" in link else ""
        return found

    message, other = "/messagegroups/mine/messages/m", "/messagegroups/other/messages/m"
    assert await told_of(admin, message) == {everywhere, wanted, single, ended}
    # The creator of one may not see the other group.
    assert await told_of(admin, other) == {everywhere, ended}
    assert await told_of(admin, "/messagegroups/mine") == {everywhere, wanted}
    assert await told_of(admin, f"{message}/versions/1") == {everywhere, wanted, ended}
    assert await told_of(owner, message) == {wanted}
    for path, status in ((other, 404), ("/messagegroups/none", 404), ("nowhere", 400)):
        refused = await owner.send("GET", f"/subscriptions?about={path}")
        assert (path, refused.status) == (path, status)


async def test_the_end_of_a_token_suspends_what_its_holder_subscribed_to(
    node: Node, admin: Holder, sink: AnsweringSink
) -> None:
    whole = await holder(node, "writer")
    path = await whole.subscribe(sink.url, filters=GROUPS)
    assert (await admin.get(path))["status"]["createdby"] == {"kind": "token", "name": whole.id}
    async with node.database.transaction() as connection:
        await remove_token(connection, whole.id)
    status = (await admin.get(path))["status"]
    assert (status["state"], status["reason"]) == ("suspended", "its creator's token was revoked")
    refused = await admin.send("PATCH", path, {"paused": False})
    assert refused.status == 409
    assert "Replace it (PUT)" in refused.json["detail"]

    # Whoever replaces it takes it over, from where it was.
    await admin.put("/messagegroups/meanwhile")
    taken = await admin.put(path, definition(sink.url, filters=GROUPS))
    assert taken["status"]["state"] == "active"
    assert taken["status"]["createdby"]["name"] == admin.id
    await until(lambda: subjects(sink) == ["/messagegroups/meanwhile"])

    brief = await holder(node, "writer", "/messagegroups/a")
    short = await brief.subscribe(sink.url)
    async with node.database.transaction() as connection:
        statement = "UPDATE access_tokens SET expiresat = now() WHERE id = $1"
        await connection.execute(statement, brief.id)

    async def suspended() -> bool:
        status = (await admin.get(short))["status"]
        return bool(status.get("reason") == "its creator's token has expired")

    await until(suspended)


async def test_others_subscriptions_do_not_exist(node: Node, admin: Holder) -> None:
    one, other = [await holder(node, "writer", "/messagegroups/a") for _ in range(2)]
    path = await other.subscribe("http://127.0.0.1:9/")
    await admin.subscribe("http://127.0.0.1:9/")
    own = await one.subscribe("http://127.0.0.1:9/")
    assert [each["id"] for each in await one.get("/subscriptions")] == [own.rpartition("/")[2]]
    assert len(await admin.get("/subscriptions")) == 3
    for route in (each.operation for each in subscription_routes):
        if "{id}" not in route.path or route.path.endswith("/consent"):
            continue
        asked = route.path.replace("{number}", "1").replace("{key}", "k")
        body = {"PUT": definition(), "PATCH": {"cursor": "now"}}.get(route.method)
        hidden, missing = [
            await one.send(route.method, asked.replace("{id}", id), body)
            for id in (path.rpartition("/")[2], "missing")
        ]
        assert hidden.status == missing.status == 404, (route.method, route.path)
        named = hidden.body.replace(path.rpartition("/")[2].encode(), b"missing")
        assert named == missing.body
    assert (await other.get(path))["status"]["state"] == "active"


async def test_dead_letters_are_shown_and_delivered_while_they_may_be_seen(
    node: Node, admin: Holder, sink: AnsweringSink
) -> None:
    sink.status = 400
    owner = await holder(node, "writer", "/messagegroups/mine")
    path = await owner.subscribe(sink.url, filters=GROUPS)
    await admin.put("/messagegroups/mine", {"name": "secret"})
    [letter] = await until(lambda: owner.get(f"{path}/deadletters"))
    one = f"{path}/deadletters/{letter['number']}"
    [cause] = (await owner.get(f"{path}/deadlettercauses"))["causes"]
    assert (cause["reason"], cause["dead"]) == (letter["reason"], 1)

    await owner.may_not("/messagegroups/mine")
    assert await owner.get(f"{path}/deadletters") == []
    assert await owner.get(f"{path}/deadlettercauses") == {"causes": []}
    again = f"{path}/deadletters/redeliver", {"number": letter["number"]}
    for method, *asked in (("GET", one), ("DELETE", one), ("POST", *again)):
        assert (await owner.send(method, *asked)).status == 404
    sink.status = 204
    assert (await admin.send("POST", *again)).status == 202

    async def withheld() -> bool:
        shown = await admin.get(one)
        return shown["state"] == "dead" and "may not see" in shown["reason"]

    await until(withheld)
    await owner.may("/messagegroups/mine")
    assert (await owner.send("POST", *again)).status == 202
    await until(lambda: subjects(sink).count("/messagegroups/mine") == 2)


async def test_a_caller_is_told_of_its_own_subscriptions_only(
    node: Node, admin: Holder, sink: AnsweringSink
) -> None:
    owner = await holder(node, "writer", "/messagegroups/a")
    await owner.subscribe(sink.url, types=["concord.subscription.ended"])
    others = await admin.subscribe("http://127.0.0.1:9/")
    own = await owner.subscribe("http://127.0.0.1:9/")
    for path in (others, own):
        assert (await admin.send("DELETE", path)).status == 200
    await until(lambda: sink.events)
    assert subjects(sink) == [own]


async def test_a_poll_that_waits_is_answered_by_the_rights_of_now(
    node: Node, admin: Holder
) -> None:
    follower = await holder(node, "replicator", "/messagegroups/a", "/messagegroups/b")
    await admin.put("/messagegroups/before")
    await node.changes()
    cursor = await node.first_cursor()
    feed = f"/replication/changes?wait=30&after={cursor}"
    waiting = asyncio.create_task(follower.send("GET", feed))
    await until(lambda: pages_of(node.database.shared).waiting)
    await follower.may_not("/messagegroups/a")
    for group in ("a", "hidden", "b"):
        await admin.put(f"/messagegroups/{group}")
    answer = await waiting
    assert b"/messagegroups/b" in answer.body
    assert not any(name in answer.body for name in (b"/a", b"hidden", b"before"))
    assert (await follower.send("POST", "/replication/repair", {})).status == 403

    cursor = orjson.loads(answer.body.splitlines()[-1])["cursor"]
    feed = f"/replication/changes?wait=30&after={cursor}"
    waiting = asyncio.create_task(follower.send("GET", feed))
    await until(lambda: pages_of(node.database.shared).waiting)
    assert (await admin.send("DELETE", f"/access/tokens/{follower.id}")).status == 204
    await admin.put("/messagegroups/b", {"name": "second"})
    assert (await waiting).status == 401


@pytest.mark.parametrize("path", ["/export", "/replication/snapshot"])
@pytest.mark.parametrize("loss", ["token", "path"])
async def test_a_stream_ends_once_its_reader_may_no_longer_read_it(
    node: Node, admin: Holder, path: str, loss: str
) -> None:
    """The reader takes its time, and would read for a minute."""
    groups = {f"g{number:05}": {"description": "x" * 2_000} for number in range(4_000)}
    for first in range(0, len(groups), 400):
        part = dict([*groups.items()][first : first + 400])
        assert (await admin.send("POST", "/messagegroups", part)).status == 200
    reader = await holder(node, "replicator", "/messagegroups/g*", "/messagegroups/h")
    shown = {"Authorization": f"Bearer {reader.token}"}
    async with node.client.get(path, headers=shown) as answer:
        assert answer.status == 200
        await answer.content.readexactly(50_000)
        if loss == "token":
            assert (await admin.send("DELETE", f"/access/tokens/{reader.id}")).status == 204
        else:
            await reader.may_not("/messagegroups/h")
        async with asyncio.timeout(6):
            while node.database.pools.streams.used or node.database.pools.restricted.used:
                await answer.content.read(20_000)
                await asyncio.sleep(0.1)  # a slow reader
        with pytest.raises(ClientPayloadError):
            await answer.content.read()


async def test_metrics_tell_a_restricted_caller_that_the_database_answers(node: Node) -> None:
    restricted = await holder(node, "reader", "/messagegroups/a")
    told = await restricted.send("GET", "/metrics")
    assert told.status == 200
    assert b"concord_database_up 1.0" in told.body
    assert b"concord_link_" not in told.body
