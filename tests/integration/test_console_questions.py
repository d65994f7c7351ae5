"""Questions to the console, each with its clicks from the start page; typing and Enter are free."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
import pytest_asyncio

pytest.importorskip("playwright", reason="playwright is missing: pip install playwright")

from playwright.async_api import Browser, Page

from catalog.console import routes as console_routes
from catalog.documents.migration import migrate
from replication.routes import routes as replication_routes
from tests.integration.chromium import open_tab, overflow, run_chromium, violations_in
from tests.integration.conftest import Node, start_node
from tests.integration.consolecatalog import DATA, new_token
from tests.integration.federation import databases, eventually, link, link_is, running

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]
ROUTES = [*replication_routes, *console_routes]
MESSAGES = "/messagegroups/DE.Autobahn/messages"
WEBCAM = f"{MESSAGES}/DE.Autobahn.WebcamAppeared"
RESOLVED = "/messagegroups/DE.Autobahn.mqtt/messages/DE.Autobahn.WebcamResolved.mqtt"
SCHEMA = "/schemagroups/DE.Autobahn.jstruct/schemas/DE.Autobahn.Webcam"
SINK = "http://127.0.0.1:9/webcams"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A catalog with real definitions, one of which is deprecated, and a follower."""

    eu: Node
    hub: Node


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with run_chromium() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(postgres_url: str, template: str, browser: Browser) -> AsyncIterator[Pair]:
    common: dict[str, Any] = {"routes": ROUTES, "address_requests_per_second": 0}
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_node(one, **common, authority_name="Team Europe") as eu,
        start_node(two, **common, authority_name="Hub") as hub,
    ):
        await fill(eu)
        async with running(hub):
            await link_is(hub, (await link(hub, eu))["id"], "current")
            await eu.send("PATCH", WEBCAM, {"description": "A camera at a motorway appeared."})
            await eventually(lambda: has_arrived(eu))
            yield Pair(eu=eu, hub=hub)


async def fill(node: Node) -> None:
    document = orjson.loads((DATA / "eu/autobahn.xreg.json").read_bytes())
    groups = {type: document[type] for type in ("endpoints", "messagegroups", "schemagroups")}
    assert (await node.send("POST", "/", migrate(groups).document)).status == 200
    deprecated = {"deprecated": {"effective": "2026-01-01T00:00:00Z"}}
    for path in (WEBCAM, RESOLVED):
        assert (await node.send("PATCH", path, deprecated)).status == 200
    for sink, prefix in ((SINK, WEBCAM), ("http://127.0.0.1:9/others", "/endpoints")):
        wanted = {"sink": sink, "protocol": "HTTP", "filters": [{"prefix": {"subject": prefix}}]}
        assert (await node.send("POST", "/subscriptions", wanted)).status == 201


async def rows_of(tab: Page, region: str) -> list[str]:
    """The texts of the list in a region, each in one line."""
    found = tab.get_by_role("region", name=region).get_by_role("listitem")
    return [" ".join(each.split()) for each in await found.all_inner_texts()]


async def has_arrived(node: Node) -> bool:
    found = (await node.get(f"/replication/arrivals?of={WEBCAM}"))["followers"]
    return [each["state"] for each in found] == ["arrived"]


class Visitor:
    """Somebody at the start page, whose clicks are counted."""

    def __init__(self, tab: Page, node: Node) -> None:
        self.tab = tab
        self.node = node
        self.clicks = 0

    async def begin(self, words: str = "") -> None:
        await self.tab.goto(f"{self.node.url}/console")
        if words:
            await self.tab.get_by_role("searchbox").fill(words)
            await self.tab.keyboard.press("Enter")
            await self.tab.wait_for_url("**/console/search?**")

    async def click(self, name: str, url: str) -> None:
        """Click the first link with a name, and wait for the page with an address."""
        self.clicks += 1
        await self.tab.get_by_role("link", name=name, exact=True).first.click()
        await self.tab.wait_for_url(url)


async def test_a_developer_finds_an_event_by_a_word_without_a_click(
    pair: Pair, browser: Browser
) -> None:
    async with open_tab(browser) as (tab, told):
        visitor = Visitor(tab, pair.hub)
        await visitor.begin("camera motorway")
        hit = tab.get_by_role("region", name="Hits").get_by_role("listitem")
        assert await hit.count() == 1
        shown = await hit.inner_text()
        assert "DE.Autobahn.WebcamAppeared" in shown
        assert await hit.locator("mark").all_inner_texts() == ["camera", "motorway"]
        # Whose it is, is told by a name.
        assert "Team Europe" in await tab.get_by_label("Narrow the hits").inner_text()
        assert told == []


async def test_a_developer_finds_a_schema_by_a_field_without_a_click(
    pair: Pair, browser: Browser
) -> None:
    async with open_tab(browser) as (tab, told):
        await Visitor(tab, pair.eu).begin("stream_url")
        hits = await rows_of(tab, "Hits")
        fields = [each.rpartition(" field ")[2] for each in hits if "DE.Autobahn.Webcam" in each]
        assert fields
        assert all("stream_url" in each for each in fields)
        assert told == []


async def test_a_developer_sees_how_to_call_it_after_two_clicks(
    pair: Pair, browser: Browser
) -> None:
    async with open_tab(browser) as (tab, told):
        visitor = Visitor(tab, pair.eu)
        await visitor.begin("camera motorway")
        await visitor.click("DE.Autobahn.WebcamAppeared", f"**/console/e{WEBCAM}")
        await visitor.click("API", "**?tab=raw")
        ways = await tab.get_by_role("region", name="How to read it").inner_text()
        assert f"concord get {WEBCAM} --url {pair.eu.url}" in ways
        assert f"curl '{pair.eu.url}{WEBCAM}'" in ways
        assert "/registry/0.4/definitionGroups/DE.Autobahn/" in ways
        assert "/messagecatalog/DE.Autobahn/messagedefinitions/" in ways
        assert f"concord events --path {WEBCAM}" in ways
        assert (visitor.clicks, told) == (2, [])


async def test_an_architect_sees_who_uses_it_also_through_others_after_two_clicks(
    pair: Pair, browser: Browser
) -> None:
    async with open_tab(browser) as (tab, told):
        visitor = Visitor(tab, pair.eu)
        await visitor.begin("stream_url jstruct")
        await visitor.click("DE.Autobahn.Webcam", "**/schemas/DE.Autobahn.Webcam")
        await visitor.click("Used by", "**?tab=uses")
        users = await rows_of(tab, "Used by")
        assert any(f"{WEBCAM} in dataschemauri" in each for each in users)
        assert any(
            "/endpoints/DE.Autobahn.Kafka in messagegroups, through" in each for each in users
        )
        assert (visitor.clicks, told) == (2, [])
        # Those who are told of changes use it, too.
        await tab.goto(f"{pair.eu.url}/console/e{WEBCAM}?tab=uses")
        listeners = await tab.get_by_role("region", name="Told of its changes").inner_text()
        assert SINK in listeners
        assert "others" not in listeners
        for width in (360, 1440):
            await tab.set_viewport_size({"width": width, "height": 900})
            assert (width, await overflow(tab), await violations_in(tab)) == (width, 0, [])


async def test_an_architect_sees_what_is_deprecated_and_still_used_after_a_click(
    pair: Pair, browser: Browser
) -> None:
    async with open_tab(browser) as (tab, told):
        visitor = Visitor(tab, pair.eu)
        await visitor.begin()
        await visitor.click("Deprecated, and still used?", "**/console/search?deprecated=true")
        hits = await rows_of(tab, "Hits")
        assert len(hits) == 2
        assert any("WebcamAppeared" in each and "still used by 3" in each for each in hits)
        assert any("WebcamResolved.mqtt" in each and "still used by 1" in each for each in hits)
        assert (visitor.clicks, told) == (1, [])


async def test_an_operator_sees_where_a_change_has_arrived_after_a_click(
    pair: Pair, browser: Browser
) -> None:
    async with open_tab(browser) as (tab, told):
        visitor = Visitor(tab, pair.eu)
        await visitor.begin()
        latest = tab.get_by_role("region", name="Latest changes").get_by_role("listitem").first
        assert "WebcamAppeared" in await latest.inner_text()
        await latest.get_by_role("link", name="Show").click()
        followers = tab.get_by_role("region", name="Which followers have it 1 of 1")
        assert "Hub has it" in " ".join((await followers.inner_text()).split())
        assert told == []


@pytest.mark.parametrize("width", [1440, 1000, 360])
async def test_the_present_place_is_in_sight_at_every_width(
    pair: Pair, browser: Browser, width: int
) -> None:
    async with open_tab(browser, width=width) as (tab, told):
        for path, name in (("/console/operation", "Operation"), (f"/console/e{SCHEMA}", "Catalog")):
            await tab.goto(pair.eu.url + path)
            bar, here = tab.locator(".bar"), tab.get_by_label("Places").get_by_text(name)
            box, around = await here.bounding_box(), await bar.bounding_box()
            assert box is not None
            assert around is not None
            assert 0 <= box["x"] <= width - box["width"]
            # One row, or one for the places beside one for each of the others.
            assert around["height"] <= {1440: 60, 1000: 100, 360: 130}[width]
        assert told == []


async def test_a_reader_of_a_group_finds_it_at_the_start_and_is_told_live(
    shared_database_url: str, browser: Browser
) -> None:
    routes, limits = ROUTES, {"address_requests_per_second": 0}
    async with start_node(shared_database_url, routes=routes, open=False, **limits) as node:
        _, token = await new_token(node, "reader", "/messagegroups/mine.*")
        admin = {"Authorization": f"Bearer {(await new_token(node, 'admin'))[1]}"}
        for name in ("Mine.One", "other"):
            answer = await node.send("PUT", f"/messagegroups/{name}", {}, **admin)
            assert answer.status == 201, answer.body
        async with open_tab(browser) as (tab, told):
            await tab.set_extra_http_headers({"Authorization": f"Bearer {token}"})
            visitor = Visitor(tab, node)
            await visitor.begin()
            groups = tab.get_by_role("region", name="Your groups").get_by_role("listitem")
            assert [each.split() for each in await groups.all_inner_texts()] == [
                ["Mine.One", "reader", "/messagegroups/Mine.One"]
            ]
            # What the reader may not see is no place of the bar, and is not counted.
            places = await tab.get_by_label("Places").get_by_role("link").all_inner_texts()
            assert places == ["Catalog", "Changes", "Check", "Live", "Operation"]
            assert await tab.get_by_role("region", name="Needs a look").count() == 0
            await visitor.click("Mine.One", "**/messagegroups/Mine.One")
            await visitor.click("Watch it live", "**/console/live?path=**")
            assert await tab.get_by_label("Path").input_value() == "/messagegroups/Mine.One"
            assert told == []
