"""The pages "Check" and "Live" in a real browser: by few clicks, by keyboard, narrow and dark."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio

pytest.importorskip("playwright", reason="playwright is missing: pip install playwright")

from playwright.async_api import Browser, Page, expect

from catalog.console import routes as console_routes
from replication.routes import routes as replication_routes
from tests.integration.chromium import open_tab, picture, run_chromium, violations_in
from tests.integration.conftest import Node, start_node

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]
_PICTURES = os.environ.get("CONCORD_TEST_PICTURES")
_SCHEMA = {
    "type": "object",
    "required": ["id", "total"],
    "properties": {
        "id": {"type": "string"},
        "total": {"type": "number", "minimum": 0},
        "items": {"type": "array", "items": {"type": "object", "required": ["sku"]}},
    },
}
_DEFINITION: dict[str, Any] = {
    "envelope": "CloudEvents/1.0",
    "envelopemetadata": {"type": {"value": "com.example.order.placed"}},
    "dataschemaformat": "JsonSchema/draft-07",
    "dataschema": _SCHEMA,
}
_EVENT = {
    "specversion": "1.0",
    "id": "4711",
    "type": "com.example.order.placed",
    "source": "https://shop.example/orders",
    "time": "2030-01-01T12:00:00Z",
    "datacontenttype": "application/json",
    "data": {"id": "A-1", "total": -2, "items": [{"sku": "x"}, {"count": 2}]},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with run_chromium() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str, browser: Browser) -> AsyncIterator[Node]:
    routes = [*replication_routes, *console_routes]
    limits = {"address_requests_per_second": 0}
    async with start_node(shared_database_url, routes=routes, **limits) as running:
        for group in ("shop", "shop.eu"):
            definition = dict(_DEFINITION)
            if group == "shop.eu":
                source = {"source": {"value": "https://eu.example"}}
                definition["envelopemetadata"] = definition["envelopemetadata"] | source
            await running.put(f"/messagegroups/{group}/messages/order.placed", definition)
        yield running


async def paste(tab: Page, text: str) -> None:
    """Paste a text into what has the focus, as a user does."""
    await tab.evaluate(
        """(text) => {
            const box = document.activeElement;
            box.value = text;
            box.dispatchEvent(new ClipboardEvent("paste", {bubbles: true}));
        }""",
        text,
    )


async def keep_picture(tab: Page, name: str) -> None:
    if _PICTURES:
        await picture(tab, Path(_PICTURES) / f"{name}.png")


async def test_a_pasted_message_finds_its_definition_and_its_faults_by_one_click(
    node: Node, browser: Browser
) -> None:
    """Question: does my payload match, and which definition is it? (1 click)"""
    async with open_tab(browser) as (tab, told):
        await tab.goto(f"{node.url}/console")
        await tab.get_by_role("link", name="Check", exact=True).click()
        await tab.get_by_label("Message").focus()
        await paste(tab, orjson.dumps(_EVENT, option=orjson.OPT_INDENT_2).decode())
        verdict = tab.get_by_role("status", name="Verdict")
        await expect(verdict).to_contain_text("2 violations")
        link = verdict.get_by_role("link").first
        assert await link.inner_text() == "/messagegroups/shop/messages/order.placed"
        wrong = tab.locator(".line.wrong code")
        assert [text.strip() for text in await wrong.all_inner_texts()] == ['"total": -2,', "{"]
        assert "/data/items/1" in await tab.locator(".note").nth(1).inner_text()
        others = tab.get_by_role("region", name="Other definitions")
        await expect(others).to_contain_text("it must be https://eu.example")
        await keep_picture(tab, "console-check")
        assert await violations_in(tab) == []
        assert told == []


async def test_a_message_that_conforms_is_told_so_and_one_line_is_broken_up(
    node: Node, browser: Browser
) -> None:
    async with open_tab(browser, width=360, is_dark=True) as (tab, told):
        await tab.goto(f"{node.url}/console/check")
        right = _EVENT | {"data": {"id": "A-1", "total": 2}}
        await tab.get_by_label("Message").fill(orjson.dumps(right).decode())
        await tab.keyboard.press("Control+Enter")
        await expect(tab.get_by_role("status", name="Verdict")).to_contain_text("conforms")
        assert await tab.locator(".line").count() > 5
        assert await violations_in(tab) == []
        wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert await tab.evaluate(wider) == 0
        await tab.get_by_label("Another message").fill(
            '{"specversion": "1.0", "type": "<b>no</b>"}'
        )
        await tab.get_by_role("button", name="Check").click()
        await expect(tab.get_by_role("alert")).to_contain_text('the type "<b>no</b>"')
        assert [text for text in told if "404" not in text] == []


async def test_events_show_up_live_and_a_pause_misses_none(node: Node, browser: Browser) -> None:
    async with open_tab(browser) as (tab, told):
        await tab.goto(f"{node.url}/console/live?path=/messagegroups/")
        rows = tab.locator("#live .change")
        await expect(tab.get_by_role("status")).to_contain_text("Live, 0 events")
        await node.put("/messagegroups/live.one", {"name": "<img src=x onerror=alert(1)>"})
        await expect(rows).to_have_count(1)
        first = tab.get_by_role("link", name="/messagegroups/live.one")
        await expect(first).to_have_attribute("href", "/console/e/messagegroups/live.one")
        await tab.get_by_role("button", name="Pause").click()
        await expect(tab.get_by_role("status")).to_contain_text("Paused")
        await node.put("/messagegroups/live.two")
        await node.put("/messagegroups/live.two", {"name": "changed"})
        await tab.get_by_role("button", name="Go on").click()
        await expect(rows).to_have_count(3)
        await keep_picture(tab, "console-live")
        assert await violations_in(tab) == []
        assert told == []


async def test_ten_tabs_of_one_browser_work(node: Node, browser: Browser) -> None:
    """HTTP/1.1 has six connections: a hidden page closes its stream, and opens it when shown."""
    context = await browser.new_context()
    tabs = [await context.new_page() for _ in range(10)]
    for tab in tabs:
        await tab.goto(f"{node.url}/console/live")
        # Pages of a browser without windows are never hidden by themselves.
        await tab.evaluate(
            """() => {
                Object.defineProperty(document, "hidden", {value: true, configurable: true});
                document.dispatchEvent(new Event("visibilitychange"));
            }"""
        )
    shown = tabs[0]
    await shown.evaluate(
        """() => {
            Object.defineProperty(document, "hidden", {value: false, configurable: true});
            document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    await expect(shown.get_by_role("status")).to_contain_text("Live")
    await node.put("/messagegroups/tabs")
    await expect(shown.get_by_role("link", name="/messagegroups/tabs")).to_be_visible()
    await context.close()


async def test_live_is_accessible_when_narrow_and_dark(node: Node, browser: Browser) -> None:
    async with open_tab(browser, width=360, is_dark=True) as (tab, told):
        for path in ("/console/live", "/console/check"):
            await tab.goto(node.url + path)
            assert (path, await violations_in(tab)) == (path, [])
            wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert (path, await tab.evaluate(wider)) == (path, 0)
            await keep_picture(tab, f"narrow{path.replace('/', '-')}")
        assert told == []
