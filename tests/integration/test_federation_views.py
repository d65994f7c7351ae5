"""A node knows its federation: cards and links of its peers, figures, conflicts, freshness."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio

from catalog.access.owntokens import make_token
from catalog.audit.audittrail import note_refused
from catalog.http.outboundconnections import open_session
from catalog.model.roles import Grant
from replication.federation import gather_once
from replication.routes import routes
from replication.store import linkstates
from replication.transfer.linkrun import LinkResources
from tests.integration.commandline import concord
from tests.integration.conftest import Node, start_node
from tests.integration.federation import (
    databases,
    eventually,
    link,
    link_is,
    quick_timing,
    running,
    start_member,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]
GROUP = "/messagegroups/shop"
MESSAGE = f"{GROUP}/messages/paid"
EU = {"authority_name": "Team Europe", "authority_region": "eu", "authority_contact": "#eu"}


@dataclass(frozen=True, kw_only=True)
class Shop:
    """Two sources, of which one follows back, and a node that follows both."""

    eu: Node
    us: Node
    hub: Node
    links: dict[str, str]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(postgres_url: str, template: str) -> AsyncIterator[Shop]:
    async with (
        databases(postgres_url, template, 3) as (one, two, three),
        start_member(one, **EU) as eu,
        start_member(two, authority_name="Team America") as us,
        start_member(three, authority_name="Hub", authority_url="https://hub.example") as hub,
    ):
        await eu.put(MESSAGE, {"description": "Paid"})
        await us.put(MESSAGE, {"description": "Paid, too"})
        await put_schema(eu, {"title": "small"})
        await put_schema(us, {"title": "large", "description": "x" * 70_000})
        links = {}
        async with running(hub, eu):
            links["eu"] = (await link(hub, eu))["id"]
            await link_is(hub, links["eu"], "current")
            links["us"] = (await link(hub, us))["id"]
            await link_is(hub, links["us"], "current")
            links["back"] = (await link(eu, hub))["id"]
            await link_is(eu, links["back"], "current")
            yield Shop(eu=eu, us=us, hub=hub, links=links)


async def put_schema(node: Node, document: dict[str, str]) -> None:
    body = {"format": "JsonSchema/draft-07", "schema": document}
    await node.put("/schemagroups/shop/schemas/paid$details", body)


def authority(node: Node) -> str:
    return node.context.database.node.authority


async def gather(node: Node, *, times: int = 1) -> int:
    refusals, count = dict[str, datetime](), 0
    async with open_session(node.context.settings) as session:
        for _ in range(times):
            resources = LinkResources.of(node.context, session, quick_timing())
            count = await gather_once(resources, refusals)
    return count


async def federation(node: Node) -> dict[str, dict[str, Any]]:
    found = (await node.get("/-/federation"))["catalogs"]
    return {each["authority"]: each for each in found}


async def test_peers_tell_their_cards_and_the_links_that_they_share(shop: Shop) -> None:
    assert await gather(shop.hub) == 2
    found = await federation(shop.hub)
    own, eu, us = (found[authority(node)] for node in (shop.hub, shop.eu, shop.us))
    assert own["isown"]
    assert {each["id"] for each in own["links"]} == {shop.links["eu"], shop.links["us"]}
    assert (eu["card"]["name"], eu["card"]["region"]) == ("Team Europe", "eu")
    [back] = eu["links"]
    assert (back["authority"], back["direction"]) == (authority(shop.hub), "in")
    assert {*back} <= {"authority", "direction", "mode", "state", "lag", "conflicts", "failures"}
    assert us["card"]["name"] == "Team America"
    assert (us["links"], "error" in us) == ([], False)


async def test_what_a_dead_peer_told_is_shown_with_its_age(shop: Shop) -> None:
    dead = {"source": "http://127.0.0.1:9", "mode": "pull", "authority": "https://dead.example"}
    made = await shop.hub.send("POST", "/replication/links?force", dead)
    assert made.status == 201, made.body
    await gather(shop.hub)
    found = await federation(shop.hub)
    assert "cannot be reached" in found["https://dead.example"]["error"]
    assert "readat" not in found["https://dead.example"]
    assert found[authority(shop.eu)]["links"]
    await shop.hub.send("DELETE", f"/replication/links/{made.json['id']}")


async def test_a_peer_shares_its_links_with_the_role_for_its_whole_catalog(
    postgres_url: str, template: str
) -> None:
    guarded: dict[str, Any] = {"open": False, "routes": routes, **EU}
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_node(one, **guarded) as source,
        start_member(two, authority_name="Reader") as follower,
    ):
        grants = (Grant("replicator", GROUP),)
        async with source.database.transaction() as connection:
            made_token, token = await make_token(
                connection, name="part", grants=grants, expiresat=None
            )
        made = await link(follower, source, token=token)
        async with running(follower):
            await link_is(follower, made["id"], "current")
            await gather(follower, times=3)
            await eventually(lambda: is_reported_by(source, f"token {made_token.id}"))
        found = (await federation(follower))[authority(source)]
        assert (found["card"]["name"], "links" in found, "error" in found) == (
            *("Team Europe", False, False),
        )
        await note_refused(source.context, all=True)
        async with source.database.acquire() as connection:
            statement = "SELECT sum(attempts) FROM audit WHERE path = '/replication/links'"
            # The source refuses, and notes, the first of three questions alone.
            assert await connection.fetchval(statement) == 1


async def is_reported_by(source: Node, identity: str) -> bool:
    async with source.database.acquire() as connection:
        found = await connection.fetch("SELECT identity FROM followers")
    return [each["identity"] for each in found] == [identity]


async def test_a_conflict_shows_both_sides(shop: Shop) -> None:
    path = f"/replication/links/{shop.links['us']}/conflicts"
    conflicts = (await shop.hub.get(path))["conflicts"]
    [found] = [each for each in conflicts if each["origin"] == f"{MESSAGE}/versions/1"]
    assert found["refused"]["authority"] == authority(shop.us)
    assert found["refused"]["attributes"]["description"] == "Paid, too"
    assert found["held"]["authority"] == authority(shop.eu)
    assert found["held"]["attributes"]["description"] == "Paid"
    path = "/schemagroups/shop/schemas/paid/versions/1"
    [schema] = [each for each in conflicts if each["origin"] == path]
    # A side of more than 64 KiB is kept without its document.
    assert (schema["refused"]["complete"], "document" in schema["refused"]) == (False, False)
    assert (schema["held"]["complete"], "small" in schema["held"]["document"]) == (True, True)
    [group] = [each for each in conflicts if each["origin"] == GROUP]
    assert group["verdict"] == "collided"
    shown = await concord(shop.hub, "link", "show", shop.links["us"], "--conflicts")
    assert shown.exit_code == 1, shown.output
    assert all(text in shown.output for text in ("Paid, too", f"{MESSAGE}/versions/1: collided"))
    none = await concord(shop.hub, "link", "show", shop.links["eu"], "--conflicts")
    assert (none.exit_code, none.output) == (0, "The link has no conflicts.\n")


async def test_whoever_sees_a_copy_sees_whose_it_is_and_how_fresh(shop: Shop) -> None:
    copy = await shop.hub.get(f"/-/freshness?of={MESSAGE}")
    assert (copy["state"], copy["lag"], copy["authority"]) == ("current", 0, authority(shop.eu))
    assert copy["card"]["contact"] == "#eu"
    assert copy["editurl"] == f"{shop.eu.url}/console/e{MESSAGE}"
    own = await shop.eu.get(f"/-/freshness?of={MESSAGE}")
    assert (own["state"], own["lag"], own["card"]["name"]) == ("own", 0, "Team Europe")
    for of, status in (("x", 400), ("/messagegroups/none", 404), (quote("/a b"), 400)):
        assert (await shop.hub.send("GET", f"/-/freshness?of={of}")).status == status
    await shop.hub.send("PATCH", f"/replication/links/{shop.links['eu']}", {"paused": True})
    behind = await shop.hub.get(f"/-/freshness?of={MESSAGE}")
    assert (behind["state"], behind["lag"] > 0) == ("behind", True)
    await shop.hub.send("PATCH", f"/replication/links/{shop.links['eu']}", {"paused": False})
    await link_is(shop.hub, shop.links["eu"], "current")


async def test_figures_are_noted_by_minute_and_hour(shop: Shop) -> None:
    path = f"/replication/links/{shop.links['eu']}/figures"
    await note_figures(shop.hub)
    await shift_figures(shop.hub, timedelta(minutes=2))
    await shop.eu.put(f"{GROUP}/messages/sold", {"description": "Sold"})
    await eventually(lambda: has(shop.hub, f"{GROUP}/messages/sold"))
    await note_figures(shop.hub)
    first, *_, last = (await shop.hub.get(path))["figures"]
    assert ("rate" in first, last["rate"] > 0, last["errors"], last["lag"]) == (False, True, 0, 0)
    await shift_figures(shop.hub, timedelta(days=1))
    await note_figures(shop.hub)
    assert len((await shop.hub.get(path))["figures"]) == 1
    by_hour = await shop.hub.get(f"{path}?step=hour")
    assert (by_hour["step"], len(by_hour["figures"]) > 1) == ("hour", True)
    command = ("link", "show", shop.links["eu"], "--json", "--figures")
    printed = await concord(shop.hub, *command, "hour", "--last", "1")
    assert json.loads(printed.stdout) == by_hour["figures"][-1:], printed.output
    assert (await shop.hub.send("GET", "/replication/links/none/figures")).status == 404


async def note_figures(node: Node) -> None:
    async with node.database.acquire() as connection:
        await linkstates.note_figures(connection)


async def has(node: Node, path: str) -> bool:
    return (await node.send("GET", path)).status == 200


async def shift_figures(node: Node, age: timedelta) -> None:
    """Let the figures be older than they are."""
    async with node.database.acquire() as connection:
        await connection.execute("UPDATE link_figures SET at = at - $1::interval", age)


async def test_a_purge_forgets_what_was_refused_at_its_path(shop: Shop) -> None:
    id = shop.links["us"]
    await shop.hub.send("PATCH", f"/replication/links/{id}", {"paused": True})
    purged = await shop.hub.send("DELETE", f"/-/revisions?of={GROUP}")
    assert purged.status == 200, purged.body
    conflicts = (await shop.hub.get(f"/replication/links/{id}/conflicts"))["conflicts"]
    below = [each for each in conflicts if each["origin"].startswith(GROUP)]
    assert below
    assert not any("refused" in each for each in below)
    assert any("refused" in each for each in conflicts)
