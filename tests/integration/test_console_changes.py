"""The pages of changes answer what changed, by whom, and whether it breaks its readers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from catalog.access.authentication import AUTHENTICATION
from catalog.access.owntokens import make_token
from catalog.console import routes as console_routes
from catalog.model.roles import Grant
from replication.routes import routes as replication_routes
from tests.integration.auditing import Caller
from tests.integration.chromium import open_tab, run_chromium, violations_in
from tests.integration.conftest import Node, start_node

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]

ORDERS = "/schemagroups/shop/schemas/Order"
NOTE = "/messagegroups/shop/messages/Paid"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with run_chromium() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str, browser: Browser) -> AsyncIterator[Node]:
    routes = [*replication_routes, *console_routes]
    limits = {"address_requests_per_second": 0, "anonymous_role": "reader"}
    async with start_node(shared_database_url, routes=routes, open=False, **limits) as running:
        await fill(await as_writer(running))
        yield running


async def as_writer(node: Node) -> Caller:
    async with node.database.transaction() as connection:
        grants = (Grant("admin"),)
        made, text = await make_token(connection, name="", grants=grants, expiresat=None)
    node.client.app[AUTHENTICATION].rules.forget()
    return Caller(node, made.id, text)


async def fill(writer: Caller) -> None:
    """Two versions of a schema, the second of which breaks its readers; a message, updated."""
    for version, names in (("1", ("id",)), ("2", ("id", "total"))):
        fields: list[dict[str, Any]] = [{"name": name, "type": "string"} for name in names]
        document = {"type": "record", "name": "Order", "fields": fields}
        body = {"format": "Avro/1.12.0", "schema": document}
        answer = await writer.send("PUT", f"{ORDERS}/versions/{version}$details", body)
        assert answer.status == 201, answer.body
    for text in ("It was <b>paid</b>.", "It was paid or <i>refunded</i>."):
        answer = await writer.send("PUT", NOTE, {"description": text, "labels": {"team": "shop"}})
        assert answer.status in (200, 201), answer.body


class Clicks:
    """Counts the clicks from the start page; typing and one Enter are free."""

    def __init__(self, tab: Page) -> None:
        self.tab = tab
        self.count = 0

    async def on(self, name: str, *, within: str = "main, header") -> None:
        self.count += 1
        await self.tab.locator(within).get_by_role("link", name=name, exact=True).first.click()


async def test_what_changed_last_week_and_by_whom_takes_one_click(
    node: Node, browser: Browser
) -> None:
    auditor = await as_writer(node)
    async with open_tab(browser) as (tab, told):
        await tab.set_extra_http_headers({"Authorization": f"Bearer {auditor.text}"})
        await tab.goto(f"{node.url}/console")
        clicks = Clicks(tab)
        await clicks.on("Last week")
        await tab.wait_for_url("**/console/changes?since=week")
        assert clicks.count == 1
        first = tab.locator(".changes > li").first
        shown = await first.inner_text()
        assert "Paid" in shown
        assert "description" in shown
        assert "token" in shown
        assert told == []


async def test_what_differs_between_two_versions_and_whether_it_breaks_takes_two_clicks(
    node: Node, browser: Browser
) -> None:
    async with open_tab(browser) as (tab, told):
        await tab.goto(f"{node.url}/console")
        await tab.keyboard.press("/")
        await tab.keyboard.type("total")
        await tab.keyboard.press("Enter")
        clicks = Clicks(tab)
        await clicks.on("Order")
        await clicks.on("Versions")
        await tab.get_by_role("heading", name="From 1 to 2").wait_for()
        assert clicks.count == 2
        verdicts = await tab.get_by_role("list", name="Whom it breaks").inner_text()
        assert "Older readers keep working" in verdicts
        assert "It breaks newer readers" in verdicts
        fields = await tab.get_by_role("region", name="Fields that differ").inner_text()
        assert "total" in fields
        assert told == []


async def test_a_change_shows_before_and_after_at_an_url_of_its_own(
    node: Node, browser: Browser
) -> None:
    async with open_tab(browser) as (tab, told):
        await tab.goto(f"{node.url}/console/e{NOTE}?tab=changes")
        await tab.get_by_role("link", name="Show what was updated").click()
        await tab.wait_for_url("**/console/changes/*.*")
        table = tab.get_by_role("region", name="Attributes that differ")
        assert "It was <b>paid</b>." in await table.locator(".old").first.inner_text()
        assert "It was paid or <i>refunded</i>." in await table.locator(".new").first.inner_text()
        await tab.get_by_text("Attributes as text").click()
        lines = await tab.get_by_role("region", name="Lines of the attributes").inner_text()
        assert '- "description": "It was <b>paid</b>."' in " ".join(lines.split())
        # Who made it is told to those who may know.
        assert "Who" not in await tab.locator(".facts").inner_text()
        assert await tab.locator("main b, main i").count() == 0
        await tab.reload()
        await tab.get_by_role("link", name="All changes of this entity").click()
        await tab.wait_for_url("**?tab=changes")
        assert await tab.locator(".changes > li").count() == 2
        assert told == []


@pytest.mark.parametrize(("width", "is_dark"), [(1440, False), (360, True)])
async def test_the_pages_are_accessible_and_fit(
    node: Node, browser: Browser, width: int, is_dark: bool
) -> None:
    [newest] = (await node.get("/-/changes?limit=1"))["changes"]
    async with open_tab(browser, width=width, is_dark=is_dark) as (tab, told):
        for path in (
            "/console/changes",
            "/console/changes?path=/nowhere",
            f"/console/changes/{newest['sequence']}",
            f"/console/e{NOTE}?tab=changes",
            f"/console/e{ORDERS}?tab=versions",
            "/console/audit",
        ):
            response = await tab.goto(node.url + path)
            assert response is not None
            assert (path, response.status) == (path, 200)
            assert (path, await violations_in(tab)) == (path, [])
            root = "document.documentElement"
            wider = await tab.evaluate(f"{root}.scrollWidth - {root}.clientWidth")
            assert (path, wider) == (path, 0)
        assert told == []
