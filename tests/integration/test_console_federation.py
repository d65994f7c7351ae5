"""The pages of the federation in a real browser: who follows whom, one link, whose an entity is."""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

pytest.importorskip("playwright", reason="playwright is missing: pip install playwright")

from playwright.async_api import Browser, Page

from catalog.console import routes as console_routes
from catalog.operations.authoritycards import Card
from catalog.operations.followers import FOLLOWER, FollowerName
from replication.routes import routes as replication_routes
from tests.integration import wideworld
from tests.integration.chromium import open_tab, run_chromium, violations_in
from tests.integration.conftest import Node, start_node
from tests.integration.federation import databases, eventually, link, link_is, running

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]
ROUTES = [*replication_routes, *console_routes]
MESSAGE = "/messagegroups/shop/messages/order.paid"
EU: dict[str, Any] = {"authority_region": "eu-central", "authority_contact": "#catalog-eu"}


@dataclass(frozen=True, kw_only=True)
class Shop:
    """A source, and a node that follows it and a second source with an entity of the same path."""

    eu: Node
    hub: Node
    us_link: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with run_chromium() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(postgres_url: str, template: str, browser: Browser) -> AsyncIterator[Shop]:
    common: dict[str, Any] = {"routes": ROUTES, "address_requests_per_second": 0}
    async with (
        databases(postgres_url, template, 3) as (one, two, three),
        start_node(one, **common, authority_name="Team Europe", **EU) as eu,
        start_node(two, **common, authority_name="Team America") as us,
        start_node(three, **common, authority_name="Hub", authority_region="ap-south") as hub,
    ):
        await eu.put(MESSAGE, {"description": "An order was paid"})
        await us.put(MESSAGE, {"description": "Paid, too"})
        async with running(hub):
            first = (await link(hub, eu))["id"]
            await link_is(hub, first, "current")
            second = (await link(hub, us))["id"]
            await link_is(hub, second, "current")
            await wideworld.draw_figures(hub, second)
            await eventually(lambda: has_arrived(eu))
            yield Shop(eu=eu, hub=hub, us_link=second)


async def has_arrived(node: Node) -> bool:
    found = (await node.get(f"/replication/arrivals?of={MESSAGE}"))["followers"]
    return [each["state"] for each in found] == ["arrived"]


async def unfold(tab: Page) -> None:
    for each in await tab.query_selector_all("details"):
        await each.evaluate("(details) => { details.open = true; }")


@pytest.mark.parametrize(("width", "is_dark"), [(1440, False), (360, True)])
async def test_the_pages_are_accessible_and_fit(
    shop: Shop, browser: Browser, width: int, is_dark: bool
) -> None:
    own = shop.eu.context.database.node.authority
    async with open_tab(browser, width=width, is_dark=is_dark) as (tab, told):
        for url in (
            f"{shop.hub.url}/console/federation",
            f"{shop.hub.url}/console/federation/{shop.us_link}",
            f"{shop.hub.url}/console/federation/{shop.us_link}?month",
            f"{shop.hub.url}/console/authority?of={own}",
            f"{shop.eu.url}/console/e{MESSAGE}?tab=copies",
            f"{shop.hub.url}/console/e{MESSAGE}?tab=copies",
        ):
            response = await tab.goto(url)
            assert response is not None
            assert (url, response.status) == (url, 200)
            await unfold(tab)
            root = "document.documentElement"
            wider = await tab.evaluate(f"{root}.scrollWidth - {root}.clientWidth")
            assert (url, wider, await violations_in(tab)) == (url, 0, [])
        assert told == []


async def test_the_list_is_first_then_the_matrix_then_the_map(shop: Shop, browser: Browser) -> None:
    async with open_tab(browser) as (tab, _):
        await tab.goto(f"{shop.hub.url}/console/federation")
        headings = await tab.locator("h2").all_inner_texts()
        assert headings == [
            "Needs a look 1",
            "Who follows whom row follows column",
            "Regions",
        ]
        look = tab.get_by_role("region", name="Needs a look")
        assert "Team America could not apply 3 copies" in await look.inner_text()
        cells = tab.get_by_role("region", name="Matrix").get_by_role("row", name="Hub")
        assert "3 conflicts" in await cells.inner_text()
        await cells.get_by_role("link", name="3 conflicts").click()
        await tab.wait_for_url(f"**/console/federation/{shop.us_link}")
        await unfold(tab)
        assert "An order was paid" in await tab.locator("table.conflict").last.inner_text()
        head, body = (tab.locator(f"table.conflict {part}").last for part in ("thead", "tbody"))
        head_box, body_box = await head.bounding_box(), await body.bounding_box()
        assert head_box is not None
        assert body_box is not None
        assert (head_box["x"], head_box["width"]) == (body_box["x"], body_box["width"])
        plot = tab.get_by_role("img", name="Lag: at most")
        assert await plot.get_attribute("aria-label") == "Lag: at most 41 min, at the end none"


async def test_who_owns_it_and_whom_to_ask_in_one_click(shop: Shop, browser: Browser) -> None:
    async with open_tab(browser) as (tab, _):
        await tab.goto(f"{shop.hub.url}/console")
        await tab.get_by_role("searchbox").fill("paid")
        await tab.keyboard.press("Enter")
        await tab.get_by_role("link", name="order.paid").first.click()
        facts = tab.locator(".facts")
        assert "Team Europe" in await facts.inner_text()
        assert "#catalog-eu" in await facts.inner_text()
        edit = facts.get_by_role("link", name="at its owner")
        assert await edit.get_attribute("href") == f"{shop.eu.url}/console/e{MESSAGE}"


async def test_which_version_is_live_in_which_region_in_two_clicks(
    shop: Shop, browser: Browser
) -> None:
    async with open_tab(browser) as (tab, _):
        await tab.goto(f"{shop.eu.url}/console")
        await tab.get_by_role("searchbox").fill("paid")
        await tab.keyboard.press("Enter")
        await tab.get_by_role("link", name="order.paid").first.click()
        await tab.get_by_role("link", name="Copies").click()
        rows = await tab.locator("table.copies tbody tr").all_inner_texts()
        assert [row.split("\t")[:3] for row in rows] == [
            ["eu-central", "Team Europe #catalog-eu", " owns it"],
            ["ap-south", "Hub", " has it"],
        ]


async def test_whether_a_change_has_arrived_everywhere_in_one_click(
    shop: Shop, browser: Browser
) -> None:
    async with open_tab(browser) as (tab, _):
        await tab.goto(f"{shop.eu.url}/console")
        latest = tab.get_by_role("region", name="Latest changes")
        await latest.get_by_role("link", name="Show what was").first.click()
        arrivals = tab.get_by_role("region", name="Which followers have it 1 of 1")
        assert "Hub has it" in " ".join((await arrivals.inner_text()).split())


async def test_a_hostile_card_stays_text(shop: Shop, browser: Browser) -> None:
    markup = "<img src=x onerror=\"document.title='taken'\">{{ 7 * 7 }}</svg><script>"
    card = Card(name=markup, region=markup, contact="javascript:document.title='taken'")
    name = FollowerName(authority="https://evil.example/<b>", card=card).header()
    cursor = await shop.eu.first_cursor()
    path = f"/replication/changes?after={cursor}"
    assert (await shop.eu.request("GET", path, headers={FOLLOWER: name})).status == 200
    await eventually(lambda: is_shown(shop.eu, "evil.example"))
    async with open_tab(browser) as (tab, told):
        for path in (
            "/console/federation",
            f"/console/e{MESSAGE}?tab=copies",
            "/console/authority?of=https%3A%2F%2Fevil.example%2F%3Cb%3E",
        ):
            await tab.goto(shop.eu.url + path)
            assert "taken" not in await tab.title() or "<img" in await tab.title()
            assert markup[:20] in await tab.locator("main").inner_text()
            assert await tab.locator("main img, main script, a[href^='javascript']").count() == 0
        assert told == []


async def is_shown(node: Node, authority: str) -> bool:
    found = (await node.get("/replication/followers"))["followers"]
    return any(authority in each["authority"] for each in found)


async def test_sixty_authorities_are_shown_in_time(shared_database_url: str) -> None:
    async with start_node(
        shared_database_url, routes=ROUTES, address_requests_per_second=0
    ) as node:
        named = await wideworld.fill(node, 60, 200)
        took = []
        for _ in range(7):
            begun = time.perf_counter()
            answer = await node.send("GET", "/console/federation")
            took.append(time.perf_counter() - begun)
            assert answer.status == 200
        # The aim is 0.2 s; the machine of a test may be busy with others.
        assert statistics.median(took) < 1.0
        text = answer.body.decode()
        assert text.count('class="cell"') == 200
        shown = await node.send("GET", f"/console/authority?of={named[3]}")
        assert "Grid US-WEST" in shown.body.decode()
        missing = await node.send("GET", "/console/authority?of=https://nobody.example")
        assert (missing.status, missing.body.count(b"nobody")) == (404, 0)
