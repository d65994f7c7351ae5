"""The pages of comparisons answer what differs in one click, and show both sides in two."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

pytest.importorskip("playwright", reason="playwright is missing: pip install playwright")

from playwright.async_api import Browser, Page

from catalog.console import routes as console_routes
from replication.routes import routes as replication_routes
from tests.integration.chromium import open_tab, run_chromium, violations_in
from tests.integration.conftest import Node, start_node
from tests.integration.federation import databases, link, link_is, running, start_member

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]
RUN = "7a3c2e1e-2d0c-4d5f-8a3e-0c9f2f3b1a11"
REPORTS = "/replication/reconciliations"
PAGE = f"/console/comparisons/{RUN}"
# The numbers of the findings below.
STALE, MISSING, DEAD, HOSTILE, _, COLLIDED = range(6)
MARKUP = "<img src=x onerror=\"document.title='taken'\">\u202e"


@dataclass
class Clicks:
    """Clicks on links and buttons of a tab, counted."""

    tab: Page
    number: int = 0

    async def on(self, name: str, *, role: Any = "link") -> None:
        await self.tab.get_by_role(role, name=name, exact=True).first.click()
        self.number += 1


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with run_chromium() as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(postgres_url: str, template: str, browser: Browser) -> AsyncIterator[Node]:
    """A follower that was told of a comparison with its source, and with a catalog that is away."""
    routes = [*replication_routes, *console_routes]
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_member(one) as source,
        start_node(two, routes=routes) as follower,
    ):
        for group in ("orders", "stock"):
            await source.put(f"/messagegroups/{group}", {"description": "before"})
        async with running(follower):
            id = (await link(follower, source))["id"]
            await link_is(follower, id, "current")
        await source.put("/messagegroups/orders", {"description": "after"})
        await source.put("/messagegroups/new", {"description": "new"})
        dead = {"source": "http://127.0.0.1:9", "authority": "urn:dead", "mode": "pull"}
        answer = await follower.send("POST", "/replication/links?force", dead)
        assert answer.status == 201, answer.body
        await tell(follower, source.database.node.authority, source.url)
        yield follower


async def tell(node: Node, authority: str, url: str) -> None:
    def finding(name: str, at: str, group: str, reference: str) -> dict[str, Any]:
        return {
            "finding": name,
            "catalog": at,
            "authority": authority,
            "origin": f"/messagegroups/{group}",
            "reference": reference,
            "referenceepoch": 2,
        }

    report = {
        **{"run": RUN, "outcome": "different", "name": "us", "catalogs": ["us", "eu", "away"]},
        **{"startedat": "2026-01-01T00:00:00Z", "endedat": "2026-01-01T00:02:00Z"},
        "findings": {"stale": 1, "missing": 1},
    }
    assert (await node.send("POST", REPORTS, report)).status == 204
    own = node.database.node.authority
    told = {
        "compared": [
            {"name": "us", "authority": own, "findings": {"stale": 1, "missing": 1}},
            {"name": "eu", "authority": authority, "url": url, "findings": {}},
            {"name": "away", "authority": "urn:dead", "findings": {"stale": 1}},
        ],
        "first": 0,
        "findings": [
            {**finding("stale", "us", "orders", "eu"), "epoch": 1},
            finding("missing", "us", "new", "eu"),
            {**finding("stale", "away", "orders", "eu"), "epoch": 1},
            {**finding("ahead", "us", "stock", "eu"), "detail": MARKUP, "xid": MARKUP},
            {**finding("diverged", "us", "stock", "eu"), "epoch": 2},
            {**finding("collided", "us", "stock", "eu"), "rivalauthority": own},
        ],
    }
    assert (await node.send("POST", f"{REPORTS}/{RUN}/findings", told)).status == 200


async def test_what_differs_between_regions_is_one_click_away(node: Node, browser: Browser) -> None:
    async with open_tab(browser) as (tab, told):
        await tab.goto(f"{node.url}/console")
        clicks = Clicks(tab)
        await clicks.on("Comparisons")
        matrix = tab.get_by_role("region", name="Differences by class and catalog")
        assert "us here eu away" in " ".join((await matrix.inner_text()).split())
        cells = matrix.get_by_role("row", name="missing").get_by_role("cell")
        assert await cells.all_inner_texts() == ["1", "0", "0"]
        assert "should have brought the entity" in await matrix.inner_text()
        assert clicks.number == 1
        # Each number leads to its findings.
        await matrix.get_by_role("row", name="stale").get_by_role("link", name="1").last.click()
        found = tab.get_by_role("region", name="Findings")
        assert await found.get_by_role("listitem").count() == 1
        assert "at away" in await found.inner_text()
        assert told == []


async def test_the_difference_of_one_entity_is_two_clicks_away_with_both_sides(
    node: Node, browser: Browser
) -> None:
    async with open_tab(browser) as (tab, told):
        await tab.goto(f"{node.url}/console")
        clicks = Clicks(tab)
        await clicks.on("Comparisons")
        await clicks.on("/messagegroups/orders")
        # The page is there before the other catalog has answered.
        differs = tab.get_by_role("region", name="Attributes that differ")
        await differs.wait_for()
        text = await differs.inner_text()
        assert '"before"' in text
        assert '"after"' in text
        assert clicks.number == 2
        assert told == []


async def test_an_entity_is_fetched_again_after_a_look_at_both_sides(
    node: Node, browser: Browser
) -> None:
    async with open_tab(browser) as (tab, told):
        await tab.goto(f"{node.url}{PAGE}/{MISSING}")
        await tab.get_by_role("link", name="Fetch it again").click()
        await tab.wait_for_url(f"**/{MISSING}/repair")
        assert "nothing" in await tab.get_by_role("region", name="the wrong copy").inner_text()
        assert (await node.send("GET", "/messagegroups/new")).status == 404
        await tab.get_by_role("button", name="Fetch it again").click()
        await tab.wait_for_url(f"**/{MISSING}")
        assert "It was fetched again" in await tab.locator(".told").inner_text()
        await tab.get_by_text("Both agree by now.").wait_for()
        assert (await node.send("GET", "/messagegroups/new")).status == 200
        assert told == []


async def test_all_of_a_class_is_fetched_again_after_a_look_at_the_list(
    node: Node, browser: Browser
) -> None:
    shown = (await node.send("GET", f"{PAGE}/repair")).body.decode()
    assert "Fetch 3 entities again?" in shown
    # What a person has to decide, and what is wrong at another catalog, is not among them.
    assert f"{PAGE}/{HOSTILE}" not in shown
    assert f"{PAGE}/{DEAD}" not in shown
    async with open_tab(browser) as (tab, told):
        await tab.goto(f"{node.url}{PAGE}")
        assert await tab.get_by_role("link", name="Fetch what differs here again").count() == 1
        await tab.goto(f"{node.url}{PAGE}/repair?finding=diverged")
        await tab.get_by_role("button", name="Fetch them again").click()
        await tab.wait_for_url(f"**{PAGE}")
        assert "They were fetched again: 1 current." in await tab.locator(".told").inner_text()
        assert told == []


async def test_a_catalog_that_is_away_delays_no_page_and_is_named(
    node: Node, browser: Browser
) -> None:
    shown = (await node.send("GET", f"{PAGE}/{DEAD}")).body.decode()
    assert "not known: <bdi>it was not asked</bdi>" in shown
    async with open_tab(browser) as (tab, told):
        await tab.goto(f"{node.url}{PAGE}/{DEAD}")
        side = tab.get_by_role("region", name="the wrong copy")
        await side.get_by_text("127.0.0.1:9").wait_for()
        # This node cannot repair the copy of another catalog: a job can.
        settle = await tab.get_by_role("region", name="What settles it").inner_text()
        assert "concord reconcile --catalog us=URL --catalog eu=http" in settle
        assert await tab.get_by_role("link", name="Fetch it again").count() == 0
        assert told == []


async def test_a_collision_names_who_has_the_path_and_what_makes_room(node: Node) -> None:
    listed = (await node.send("GET", f"{PAGE}?finding=collided")).body.decode()
    assert "an entity of" in listed
    shown = (await node.send("GET", f"{PAGE}/{COLLIDED}")).body.decode()
    [found] = [
        each
        for each in (await node.get("/replication/links"))["links"]
        if each["source"] != "http://127.0.0.1:9"
    ]
    assert f"concord link set {found['id']} --prefix NAME-" in shown
    assert f"/console/federation/{found['id']}#conflicts" in shown


@pytest.mark.parametrize(("width", "is_dark"), [(1440, False), (360, True)])
async def test_every_page_is_accessible_and_its_texts_stay_texts(
    node: Node, browser: Browser, width: int, is_dark: bool
) -> None:
    root = "document.documentElement"
    paths = ("/console/comparisons", f"{PAGE}?finding=stale&path=%3Cb%3E", f"{PAGE}?after=x")
    findings = [f"{PAGE}/{number}?ask=now" for number in (STALE, MISSING, DEAD, HOSTILE, COLLIDED)]
    async with open_tab(browser, width=width, is_dark=is_dark) as (tab, told):
        for path in (*paths, *findings, f"{PAGE}/{STALE}/repair", f"{PAGE}/repair"):
            response = await tab.goto(node.url + path)
            assert response is not None
            assert (path, response.status) == (path, 200)
            assert (path, await violations_in(tab)) == (path, [])
            assert await tab.evaluate(f"{root}.scrollWidth - {root}.clientWidth") == 0
            assert await tab.title() != "taken"
        assert told == []


@pytest.mark.parametrize("path", [f"{PAGE}/99", f"{PAGE}/x", "/console/comparisons/none"])
async def test_what_was_not_told_is_not_there(node: Node, path: str) -> None:
    answer = await node.send("GET", path)
    assert (answer.status, b"There is nothing here" in answer.body) == (404, True)
    assert b'aria-label="Places"' in answer.body, "a reader goes on from here by the bar"
