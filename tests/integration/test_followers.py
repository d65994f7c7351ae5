"""A source knows its followers: who follows, how far each is, and who has a change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from catalog.operations.authoritycards import Card
from catalog.operations.followers import FOLLOWER, FollowerName
from tests.integration.commandline import concord
from tests.integration.conftest import Node, assert_problem
from tests.integration.federation import databases, eventually, link, link_is, running, start_member

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]
GROUP, MESSAGE = "/messagegroups/shop", "/messagegroups/shop/messages/paid"
EU = {"authority_name": "Team Europe", "authority_region": "eu", "authority_contact": "#eu"}
US = {"authority_name": "Team America", "authority_region": "us"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, Node]]:
    """A source, and a catalog that follows its message groups."""
    async with (
        databases(postgres_url, template, 2) as (one, other),
        start_member(one, **EU) as source,
        start_member(other, **US) as follower,
    ):
        await source.put(MESSAGE, {"description": "Paid"})
        made = await link(follower, source, scope=["/messagegroups"])
        async with running(follower):
            await link_is(follower, made["id"], "current")
            yield source, follower


def authority(node: Node) -> str:
    return node.context.database.node.authority


async def followers(node: Node) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await node.get("/replication/followers"))["followers"]
    return found


async def arrival(node: Node, query: str) -> dict[str, str]:
    """The states of a change at the followers, by authority."""
    answer = await node.get(f"/replication/arrivals?{query}")
    return {each["authority"]: each["state"] for each in answer["followers"]}


async def test_a_follower_tells_its_card_and_its_position(pair: tuple[Node, Node]) -> None:
    source, follower = pair
    await eventually(lambda: has_arrived(source, follower, f"of={MESSAGE}"))
    [found] = await followers(source)
    assert found["authority"] == authority(follower)
    assert found["card"] == {"name": "Team America", "region": "us", "contact": "", "url": ""}
    assert found["selection"]["scope"] == ["/messagegroups"]
    assert (found["identity"], found["lag"]) == ("anonymous", 0)
    [own, other] = (await source.get("/-/authorities"))["authorities"]
    assert (own["isown"], own["card"]["contact"]) == (True, "#eu")
    assert (other["authority"], other["card"]["region"]) == (authority(follower), "us")
    handshake = await source.get("/replication")
    assert handshake["card"]["name"] == "Team Europe"
    listed = await concord(source, "followers")
    assert (listed.exit_code, "Team America" in listed.output) == (0, True), listed.output
    arrived = await concord(source, "followers", MESSAGE)
    assert (arrived.exit_code, "arrived" in arrived.output) == (0, True), arrived.output


async def has_arrived(source: Node, follower: Node, query: str) -> bool:
    return (await arrival(source, query)).get(authority(follower)) == "arrived"


async def test_each_change_arrives_at_whoever_selects_it(pair: tuple[Node, Node]) -> None:
    source, follower = pair
    changed = await source.send("PATCH", MESSAGE, {"description": "Paid in full"})
    position = changed.headers["Concord-Position"]
    await eventually(lambda: has_arrived(source, follower, f"position={position}"))
    assert await has_arrived(source, follower, f"of={MESSAGE}")
    await source.put("/endpoints/till", {"usage": ["consumer"]})
    assert await arrival(source, "of=/endpoints/till") == {authority(follower): "unselected"}
    for query, status in (
        ("", 400),
        (f"of={MESSAGE}&position={position}", 400),
        ("position=x", 400),
        ("of=messages", 400),
        ("of=/messagegroups/none", 404),
    ):
        answer = await source.send("GET", f"/replication/arrivals?{query}")
        assert (query, answer.status) == (query, status)
        assert_problem(answer)


async def test_a_change_is_awaited_by_a_follower_that_stays_away(pair: tuple[Node, Node]) -> None:
    source, _ = pair
    begin = (await source.send("GET", "/replication/digests?format=csv&from=0&to=0")).headers
    name = FollowerName(authority="https://away.example", card=Card(name="Away"))
    await report(source, begin["Concord-Cursor"], name.header())
    await source.put(f"{GROUP}/messages/late", {"description": "Late"})

    async def is_awaited() -> bool:
        states = await arrival(source, f"of={GROUP}/messages/late")
        return states.get("https://away.example") == "awaited"

    await eventually(is_awaited)
    await source.send("PATCH", MESSAGE, {"description": "Paid, at last"})
    answer = await source.get(f"/replication/arrivals?of={MESSAGE}")
    [away] = [each for each in answer["followers"] if "away" in each["authority"]]
    assert (away["state"], away["epoch"], "since" in away) == ("awaited", answer["epoch"] - 1, True)
    [found, *_] = await followers(source)
    assert (found["card"]["name"], found["lag"] > 0) == ("Away", True)
    assert (await arrival(source, f"of={MESSAGE}&epoch=1"))["https://away.example"] == "arrived"
    waiting = await concord(source, "followers", MESSAGE)
    assert (waiting.exit_code, "awaited" in waiting.output) == (1, True), waiting.output


async def report(source: Node, cursor: str, name: str) -> None:
    path = f"/replication/changes?after={cursor}"
    answer = await source.request("GET", path, headers={FOLLOWER: name})
    assert answer.status == 200, answer.body


async def test_what_names_nobody_and_hostile_cards_break_no_feed(pair: tuple[Node, Node]) -> None:
    source, _ = pair
    before = len(await followers(source))
    cursor = (await source.send("GET", "/replication/digests?format=csv&from=0&to=0")).headers
    own = FollowerName(authority=authority(source)).header()
    for name in ("", "{", "[]", '{"authority": "no uri"}', "x" * 8000, own):
        await report(source, cursor["Concord-Cursor"], name)
    hostile = (
        '{"authority": "https://evil.example", "later": 1, "card": {"name": "\\u202eA\\u0000\\nB'
        + "c" * 1000
        + '", "region": 5, "contact": ["x"], "url": "javascript:alert(1)"}}'
    )
    await report(source, cursor["Concord-Cursor"], hostile)

    async def is_there() -> bool:
        return len(await followers(source)) == before + 1

    await eventually(is_there)
    [evil] = [each for each in await followers(source) if "evil" in each["authority"]]
    assert evil["card"]["name"].startswith("A Bccc")
    assert len(evil["card"]["name"]) == 200
    assert (evil["card"]["region"], evil["card"]["contact"], evil["card"]["url"]) == ("", "", "")


async def test_a_selection_that_is_no_longer_asked_for_is_forgotten(
    pair: tuple[Node, Node],
) -> None:
    source, _ = pair
    cursor = await source.first_cursor()
    name = FollowerName(authority="https://narrowed.example").header()
    narrowed = "/messagegroups/narrowed"
    await report(source, cursor, name)
    await report(source, f"{cursor}&scope={narrowed}", name)
    assert await reported_scopes(source, 2) == [[], [narrowed]]
    async with source.database.acquire() as connection:
        await connection.execute(
            "UPDATE followers SET seenat = seenat - interval '2 hours' WHERE authority = $1",
            "https://narrowed.example",
        )
    await report(source, f"{cursor}&scope={narrowed}", name)
    assert await reported_scopes(source, 1) == [[narrowed]]


async def reported_scopes(source: Node, number: int) -> list[list[str]]:
    """The scopes of a follower's reports, once there are so many reports."""
    found: list[list[str]] = []

    async def are_there() -> bool:
        told = [each for each in await followers(source) if "narrowed" in each["authority"]]
        found[:] = sorted(each["selection"]["scope"] for each in told)
        return len(found) == number

    await eventually(are_there)
    return found
