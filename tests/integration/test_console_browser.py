"""The console in a real browser: every page, by keyboard, narrow and dark, and hostile texts."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
import pytest_asyncio

pytest.importorskip("playwright", reason="playwright is missing: pip install playwright")

from playwright.async_api import Browser

from catalog.console import routes as console_routes
from replication.routes import routes as replication_routes
from tests.integration import consolecatalog
from tests.integration.chromium import open_tab, overflow, picture, run_chromium, violations_in
from tests.integration.conftest import Node, start_node
from tests.integration.consolecatalog import ALERT, REPORT, SCHEMA

pytestmark = pytest.mark.asyncio(loop_scope="module")
PAGES = (
    "/console",
    "/console/search?q=alert",
    "/console/e",
    "/console/e/messagegroups?id=alert",
    "/console/e/messagegroups/NWS.Alerts",
    f"/console/e{ALERT}",
    f"/console/e{ALERT}?tab=raw",
    f"/console/e{ALERT}?tab=uses",
    f"/console/e{SCHEMA}?tab=schema",
    f"/console/e{SCHEMA}?tab=versions",
    "/console/changes",
    "/console/federation",
    "/console/federation/{link}",
    "/console/login",
)
# What would be noticed if a text became a part of the page.
MARKUP = (
    "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
    '<a href="javascript:alert(1)" hx-get="/console" hx-trigger="load">x</a></bdi></script>'
    "\u202e\u2066{{ 7 * 7777777 }}{% raw %} ]]> --> '\" "
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with run_chromium() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str, browser: Browser) -> AsyncIterator[Node]:
    routes = [*replication_routes, *console_routes]
    limits = {"address_requests_per_second": 0}
    async with start_node(shared_database_url, routes=routes, **limits) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def link(node: Node) -> str:
    """The id of a link of the node, which has been filled."""
    return await consolecatalog.fill(node)


@pytest.mark.parametrize(("width", "is_dark"), [(1440, False), (360, True)])
async def test_every_page_is_accessible_and_no_policy_refuses_a_part_of_it(
    node: Node, link: str, browser: Browser, width: int, is_dark: bool
) -> None:
    async with open_tab(browser, width=width, is_dark=is_dark) as (tab, told):
        for path in PAGES:
            response = await tab.goto(node.url + path.replace("{link}", link))
            assert response is not None
            assert (path, response.status) == (path, 200)
            assert (path, await violations_in(tab)) == (path, [])
            assert (path, await overflow(tab)) == (path, 0)
        assert told == []


async def test_a_definition_is_found_and_opened_by_keyboard(
    node: Node, link: str, browser: Browser
) -> None:
    async with open_tab(browser) as (tab, told):
        await tab.goto(f"{node.url}/console/changes")
        await tab.keyboard.press("/")
        await tab.keyboard.type("weather alert")
        await tab.keyboard.press("Enter")
        await tab.wait_for_url("**/console/search?q=weather+alert")
        # As one types on, behind the text: the hits change without a new page.
        await tab.wait_for_function("document.activeElement.id === 'q'")
        await tab.keyboard.type(" extreme mqtt")
        await tab.wait_for_url("**/console/search?q=weather+alert+extreme+mqtt")
        hit = tab.get_by_role("link", name="NWS.WeatherAlert.Extreme.mqtt")
        await hit.wait_for()
        assert await tab.locator("mark").all_inner_texts()
        for _ in range(10):
            await tab.keyboard.press("Tab")
            if await hit.evaluate("(element) => element === document.activeElement"):
                break
        await tab.keyboard.press("Enter")
        await tab.wait_for_url("**/messages/NWS.WeatherAlert.Extreme.mqtt")
        await tab.go_back()
        assert await tab.get_by_role("searchbox").input_value() == "weather alert extreme mqtt"
        assert told == []


async def test_what_is_stuck_is_told_first_with_a_command_that_helps(
    node: Node, link: str, browser: Browser
) -> None:
    async with open_tab(browser) as (tab, _):
        await tab.goto(f"{node.url}/console")
        look = tab.get_by_role("region", name="Needs a look")
        told = await look.inner_text()
        assert "The comparison of eu, us found differences" in told
        assert f"concord link resume {link}" in told
        await look.get_by_role("link", name="http://127.0.0.1:9", exact=True).click()
        await tab.wait_for_url(f"**/console/federation/{link}")


async def test_the_pages_of_the_readme_are_pictured(
    node: Node, link: str, browser: Browser, tmp_path: Path
) -> None:
    """CONCORD_TEST_PICTURES=docs/images writes them where the documents show them."""
    directory = Path(os.environ.get("CONCORD_TEST_PICTURES", tmp_path))
    for name, path in (("start", "/console"), ("message", f"/console/e{ALERT}")):
        async with open_tab(browser, width=1120) as (tab, _):
            await tab.goto(node.url + path)
            await tab.locator(".host").evaluate("(host) => { host.textContent = 'eu.example' }")
            await picture(tab, directory / f"console-{name}.png")
        assert (directory / f"console-{name}.png").stat().st_size < 200_000


async def newest_change(node: Node) -> str:
    """The page of the change that was made last."""
    found = await node.get("/-/changes?limit=1")
    return f"/console/changes/{found['changes'][0]['sequence']}"


async def test_hostile_texts_stay_texts(node: Node, link: str, browser: Browser) -> None:
    long, longer = "n" * 3000, "n" * 10_000
    message = {
        "name": MARKUP,
        "description": MARKUP + long,
        "documentation": "javascript:document.title='taken'",
        "labels": {"team": MARKUP, "long": long},
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {"type": {"type": "string", "value": MARKUP}},
        "dataschemaformat": "JsonSchema/draft-07",
        "dataschema": {
            "type": "object",
            "properties": {MARKUP: {"type": "string", "description": MARKUP}, long: {}},
        },
        "hostile": {"a": [MARKUP, {"b": MARKUP}], "c": longer, longer: 1},
    }
    await node.put("/messagegroups/hostile", {"name": long, "description": MARKUP})
    await node.put("/messagegroups/hostile/messages/hostile", message)
    sink = {"sink": f"http://127.0.0.1:9/{quote(MARKUP)}", "protocol": "HTTP"}
    subscription = (await node.send("POST", "/subscriptions", sink)).json["id"]
    report = {**REPORT, "name": MARKUP[:100], "catalogs": [MARKUP[:100], "us"]}
    answer = await node.send("POST", "/replication/reconciliations", report)
    assert answer.status == 204, answer.body
    paths = (
        "/console/search?q=hostile",
        "/console/search?q=%3Cscript%3Edocument.title=1%3C/script%3E",
        "/console/e/messagegroups?id=hostile",
        "/console/e/messagegroups/hostile",
        *(
            f"/console/e/messagegroups/hostile/messages/hostile?tab={tab}"
            for tab in ("about", "schema", "versions", "changes", "uses", "copies", "access", "raw")
        ),
        "/console/edit/messagegroups/hostile/messages/hostile",
        "/console/delete/messagegroups/hostile/messages/hostile",
        f"/console/new/subscription?{urlencode({'about': MARKUP})}",
        f"/console/new/entity?{urlencode({'in': '/messagegroups/hostile/messages'})}",
        f"/console/live?{urlencode({'path': MARKUP})}",
        f"/console/check?{urlencode({'type': MARKUP})}",
        f"/console/changes?{urlencode({'who': MARKUP, 'authority': MARKUP})}",
        await newest_change(node),
        "/console/search?deprecated=true",
        "/console/subscriptions",
        f"/console/subscriptions/{subscription}",
        "/console/comparisons",
        "/console/audit",
        "/console/operation",
    )
    foreign = "script:not([src]), img:not([alt]), [onerror], [hx-get], a[href^='javascript']"
    for width in (360, 1440):
        async with open_tab(browser, width=width) as (tab, told):
            for path in paths:
                response = await tab.goto(node.url + path)
                assert response is not None
                assert (path, response.status) == (path, 200)
                assert (path, await tab.locator(foreign).count()) == (path, 0)
                assert await tab.title() != "taken"
                assert "54444439" not in await tab.locator("main").inner_text()
                assert (path, width, await overflow(tab)) == (path, width, 0)
            assert told == []
            # The texts were there, as texts.
            await tab.goto(f"{node.url}/console/e/messagegroups/hostile/messages/hostile")
            assert (
                "<script>document.title" in await tab.get_by_role("heading", level=1).inner_text()
            )
