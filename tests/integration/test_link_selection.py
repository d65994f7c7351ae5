"""Links that bring a part: changes of it fetch what is missing, and let go what is left out."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.conftest import Node
from tests.integration.federation import (
    Rows,
    carries,
    digest_rows,
    drop_log,
    eventually,
    link,
    link_history_is,
    link_is,
    members,
    own_rows,
    running,
    write_some,
)
from tests.integration.meteredsource import follow, metered

FETCH, SNAPSHOT = "/replication/fetch", "/replication/snapshot"


@pytest.fixture
async def nodes(postgres_url: str, template: str) -> AsyncIterator[list[Node]]:
    """Three fresh nodes that do not know each other; links pause a third of a second."""
    async with members(postgres_url, template, 3, pull_interval_seconds=0.3) as found:
        yield found


async def change(node: Node, id: str, **selection: object) -> None:
    answer = await node.send("PATCH", f"/replication/links/{id}", selection)
    assert answer.status == 200, answer.body


async def selected(source: Node, *beginnings: str) -> Rows:
    """What a node controls at or below paths that begin so."""
    return {o: row for o, row in (await own_rows(source)).items() if o[1].startswith(beginnings)}


async def holds(target: Node, rows: Rows) -> bool:
    """Whether a node holds these live replicas and no others."""
    own = target.database.node.authority
    held = {o: row for o, row in (await digest_rows(target)).items() if o[0] != own}
    return {o: row for o, row in held.items() if row[1] == "false"} == {
        o: row for o, row in rows.items() if row[1] == "false"
    }


async def fill(source: Node, messages: int = 40) -> None:
    await write_some(source, "a", messages=messages)
    await write_some(source, "b", messages=2)
    await source.put("/endpoints/e", {"usage": ["producer"], "protocol": "HTTP"})
    await source.put("/endpoints/e/messages/m", {})


async def test_types_bring_their_entities_by_every_mode(nodes: list[Node]) -> None:
    source, pulling, pushed = nodes
    await fill(source, messages=2)
    await link(pulling, source, id="from", mode="events", types=["endpoints"])
    authority = source.database.node.authority
    accepted = {"id": "from", "mode": "accept", "authority": authority}
    accepted |= {"types": ["messagegroups/messages"]}
    assert (await pushed.send("POST", "/replication/links", accepted)).status == 201
    pushing = {"mode": "push", "target": pushed.url, "id": "to"}
    pushing |= {"types": ["messagegroups", "endpoints"]}
    assert (await source.send("POST", "/replication/links", pushing)).status == 201
    async with running(*nodes), running(source, deliveries=True):
        await eventually(lambda: holds_selected(pulling, source, "/endpoints"))
        await eventually(lambda: holds_selected(pushed, source, "/messagegroups"))
        await source.put("/endpoints/e/messages/later", {})
        await source.put("/messagegroups/a/messages/later", {})
        await source.send("DELETE", "/endpoints/e/messages/m")
        await source.put("/schemagroups/c", {})
        await eventually(lambda: holds_selected(pulling, source, "/endpoints"))
        await eventually(lambda: holds_selected(pushed, source, "/messagegroups"))
        await link_is(pulling, "from", "current")
        # What the pusher sends and is not accepted is shown to it only.
        refused = (await source.get("/replication/links/to/conflicts"))["conflicts"]
        assert {conflict["verdict"] for conflict in refused} == {"refused"}
    assert (await pulling.get("/replication/links/from"))["conflicts"] == 0
    assert (await pulling.get("/replication/links/from"))["types"] == ["endpoints"]


async def holds_selected(target: Node, source: Node, *beginnings: str) -> bool:
    return await holds(target, await selected(source, *beginnings))


async def test_a_wider_selection_fetches_only_what_is_missing(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await fill(source)
    async with metered(source) as way, running(target):
        await follow(target, way, scope=["/messagegroups/a"])
        await link_is(target, "from", "current")
        everything = way.bytes
        way.forget()
        await change(target, "from", scope=["/messagegroups"])
        await link_history_is(target, "from", "compared", "copied")
        await link_is(target, "from", "current")
        assert await holds_selected(target, source, "/messagegroups")
        assert (way.requests[SNAPSHOT], way.requests[FETCH]) == (0, 1)
        assert way.bytes < everything / 2
        way.forget()
        # Also where more is missing than is here.
        await change(target, "from", scope=[])
        await link_history_is(target, "from", "compared", "compared", "copied")
        await eventually(lambda: holds_selected(target, source, "/"))
        assert (way.requests[SNAPSHOT], way.requests[FETCH]) == (0, 1)
        shown = await target.get("/replication/links/from")
        assert shown["conflicts"] == 0
        assert [event["event"] for event in shown["history"]] == ["compared", "compared", "copied"]


async def test_what_an_operator_selects_no_longer_leaves_without_a_question(
    nodes: list[Node],
) -> None:
    source, target, other = nodes
    await fill(source)
    await link(target, source, id="from")
    # Another link brings one of the groups, too.
    await link(target, source, id="beside", scope=["/messagegroups/b"])
    await write_some(target, "mine", messages=1)
    await link(other, target, id="behind", authorities=["*"])
    async with running(target, other):
        await eventually(lambda: holds_selected(target, source, "/"))
        for id in ("from", "beside"):
            await link_is(target, id, "current")
        mine = await own_rows(target)
        await change(target, "from", types=["schemagroups"])
        await eventually(
            lambda: holds_selected(target, source, "/schemagroups", "/messagegroups/b")
        )
        await link_is(target, "from", "current")
        # It comes back without a copy of what has stayed.
        await change(target, "from", types=[])
        await eventually(lambda: holds_selected(target, source, "/"))
        await link_is(target, "from", "current")
        authority, sent = source.database.node.authority, await own_rows(source)

        async def is_behind_no_more() -> bool:
            held = await digest_rows(other)
            return {o: row for o, row in held.items() if o[0] == authority} == sent

        # What is two links away follows as well.
        await eventually(is_behind_no_more)
    assert await own_rows(target) == mine
    events = (await target.get("/replication/links/from"))["history"]
    assert [e["event"] for e in events] == ["compared", "compared", "left", "copied"]
    assert events[2]["detail"] == f"{81 + 3} replicas no longer selected"


async def test_what_an_operator_narrows_by_label_leaves_without_a_question(
    nodes: list[Node],
) -> None:
    source, target, _ = nodes
    labelled = {f"g{number}": {"labels": {"public": "yes"}} for number in range(10)}
    others = {f"h{number}": {"messages": {"m": {}}} for number in range(20)}
    answer = await source.send("POST", "/", {"messagegroups": {**labelled, **others}})
    assert answer.status == 200, answer.body
    await link(target, source, id="from")
    async with running(target):
        await eventually(lambda: carries(target, source))
        await link_is(target, "from", "current")
        await change(target, "from", labels=["public=yes"])
        await eventually(lambda: holds_selected(target, source, "/messagegroups/g"))
        await link_is(target, "from", "current")
    events = (await target.get("/replication/links/from"))["history"]
    assert [event["event"] for event in events] == ["left", "compared", "copied"]
    assert events[0]["detail"] == "60 replicas without the labels"


async def test_a_lost_place_is_compared_within_the_selection(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await fill(source)
    async with metered(source) as way:
        await follow(target, way, types=["messagegroups"], prefix="x-")
        async with running(target):
            await link_is(target, "from", "current")
        await source.put("/messagegroups/b/messages/m0", {"description": "meanwhile"})
        await source.put("/schemagroups/b", {"description": "meanwhile"})
        await source.send("DELETE", "/messagegroups/a/messages/m1")
        await drop_log(source)
        way.forget()
        async with running(target):
            await link_history_is(target, "from", "compared", "resynchronise", "copied")
            await link_is(target, "from", "current")
        assert await holds_selected(target, source, "/messagegroups")
        assert (way.requests[SNAPSHOT], way.requests[FETCH]) == (0, 1)
        # An operator's reset doubts nothing outside the selection.
        await target.send("POST", "/replication/links/from/reset", {"full": True})
        async with running(target):
            await link_is(target, "from", "current")
        assert await holds_selected(target, source, "/messagegroups")
    assert (await target.get("/messagegroups/x-b/messages/m0"))["description"] == "meanwhile"
