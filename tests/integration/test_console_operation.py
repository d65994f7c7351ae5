"""Access to a group is two clicks away, is asked for and granted; operators see how a node is."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

pytest.importorskip("playwright", reason="playwright is missing: pip install playwright")

from playwright.async_api import Browser, Page

from catalog.access.authentication import AUTHENTICATION
from catalog.console import routes as console_routes
from catalog.model.roles import ROLES, Role
from catalog.monitoring.health import routes as monitoring_routes
from replication.routes import routes as replication_routes
from tests.integration.chromium import open_tab, run_chromium, violations_in
from tests.integration.conftest import Node, start_node
from tests.integration.consolecatalog import new_token

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]
GROUP = "/messagegroups/Orders"
PAGES = (
    *("/console/operation?checks=now", "/console/operation/settings"),
    *("/console/operation/access", "/console/operation/authority"),
    f"/console/e{GROUP}?tab=access",
    f"/console/access/request?path={GROUP}",
)
MARKUP = "<img src=x onerror=\"document.title='taken'\">\u202e"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with run_chromium() as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str, browser: Browser) -> AsyncIterator[Node]:
    routes = [*monitoring_routes, *replication_routes, *console_routes]
    settings: dict[str, Any] = {"open": False, "address_requests_per_second": 0}
    async with start_node(shared_database_url, routes=routes, **settings) as running:
        admin = await bearer(running, "admin")
        await running.put(GROUP, {"description": "about orders"}, **admin)
        await running.put(f"{GROUP}/messages/Paid", {}, **admin)
        yield running


async def bearer(node: Node, role: Role, path: str = "/") -> dict[str, str]:
    """The header with the token of a new caller."""
    node.client.app[AUTHENTICATION].rules.forget()
    return {"Authorization": f"Bearer {(await new_token(node, role, path))[1]}"}


@contextlib.asynccontextmanager
async def tab_of(
    browser: Browser, who: dict[str, str], **look: Any
) -> AsyncIterator[tuple[Page, list[str]]]:
    async with open_tab(browser, **look) as (tab, told):
        await tab.set_extra_http_headers(who)
        yield tab, told


async def find(tab: Page, node: Node, words: str) -> None:
    """Type words at the start page, and press Enter: what a click does not count for."""
    await tab.goto(f"{node.url}/console")
    await tab.get_by_role("searchbox").fill(words)
    await tab.keyboard.press("Enter")
    await tab.wait_for_url("**/console/search?**")


async def test_whether_one_may_have_access_is_two_clicks_away_and_access_is_asked_and_granted(
    node: Node, browser: Browser
) -> None:
    reader = await bearer(node, "reader")
    owner = await bearer(node, "admin", GROUP.lower())
    async with tab_of(browser, reader) as (tab, told):
        await find(tab, node, "paid")
        await tab.get_by_role("link", name="Paid", exact=True).first.click()
        await tab.get_by_role("link", name="Access", exact=True).click()
        you = tab.get_by_role("region", name="You")
        await you.wait_for()
        assert "You may read /messagegroups/Orders" in await you.inner_text()
        await tab.get_by_role("link", name="Ask for access").click()
        assert await tab.get_by_label("Group").input_value() == GROUP
        await tab.get_by_label("Role").select_option("writer")
        # Nobody decides without a reason, and what was typed stays.
        await tab.get_by_role("button", name="Ask").click()
        assert await tab.get_by_label("Role").input_value() == "writer"
        await tab.get_by_label("Why").fill(f"We own the shop. {MARKUP}")
        await tab.get_by_role("button", name="Ask").click()
        assert "waits for those who decide" in await tab.locator(".told").inner_text()
        # The refusal of the form without a reason is told by the browser, too.
        assert [each for each in told if "400" not in each] == []
    async with tab_of(browser, owner) as (tab, told):
        await tab.goto(f"{node.url}/console")
        look = await tab.get_by_role("region", name="Needs a look").inner_text()
        assert f"asks for the role writer in {GROUP}" in look
        assert "We own the shop." in look
        await tab.get_by_role("link", name="See and grant").click()
        await tab.get_by_label("Note").fill("Welcome.")
        await tab.get_by_role("button", name="Grant").click()
        assert "Granted: rule" in await tab.locator(".told").inner_text()
        assert told == []
    async with tab_of(browser, reader) as (tab, told):
        await tab.goto(f"{node.url}/console")
        look = await tab.get_by_role("region", name="Needs a look").inner_text()
        assert f"Your request for the role writer in {GROUP} was granted" in look
        assert "Welcome." in look
        await tab.goto(f"{node.url}/console/e{GROUP}?tab=access")
        assert "You may read and write" in await tab.locator("main").inner_text()
        assert told == []


async def test_who_may_read_and_write_a_group_is_two_clicks_away(
    node: Node, browser: Browser
) -> None:
    owner = await bearer(node, "admin", GROUP.lower())
    async with tab_of(browser, owner) as (tab, told):
        await find(tab, node, "orders")
        await tab.get_by_role("link", name="Orders", exact=True).first.click()
        await tab.get_by_role("link", name="Access", exact=True).click()
        holders = tab.get_by_role("region", name="Holders of roles")
        await holders.wait_for()
        rows = await holders.get_by_role("row").all_inner_texts()
        assert any("admin" in row and GROUP.lower() in row and "rule" in row for row in rows)
        assert any("the whole catalog" in row for row in rows)
        assert told == []


async def test_a_reader_sees_numbers_and_no_names(node: Node) -> None:
    reader = await bearer(node, "reader")
    shown = (await node.send("GET", f"/console/e{GROUP}?tab=access", **reader)).body.decode()
    assert "Names are shown to the admins of the group." in shown
    assert "token=" not in shown


async def test_an_admin_removes_a_token_after_a_question(node: Node, browser: Browser) -> None:
    id, text = await new_token(node, "reader")
    async with tab_of(browser, await bearer(node, "admin")) as (tab, told):
        await tab.goto(f"{node.url}/console/operation/access")
        await tab.get_by_role("link", name=f"Remove the token {id}").click()
        assert (await node.send("GET", "/", Authorization=f"Bearer {text}")).status == 200
        await tab.get_by_role("button", name="Remove it").click()
        assert "The token is removed." in await tab.locator(".told").inner_text()
        assert (await node.send("GET", "/", Authorization=f"Bearer {text}")).status == 401
        assert told == []


async def test_the_checks_of_the_node_come_after_its_page(node: Node, browser: Browser) -> None:
    async with tab_of(browser, await bearer(node, "admin")) as (tab, told):
        await tab.goto(f"{node.url}/console")
        await tab.get_by_role("link", name="Operation", exact=True).click()
        assert "The node is ready" in await tab.locator("main").inner_text()
        await tab.get_by_role("region", name="Checks").get_by_text("backup", exact=True).wait_for()
        holds = await tab.get_by_role("region", name="What the catalog holds").inner_text()
        assert "messagegroups/messages" in holds
        await tab.get_by_role("link", name="Settings", exact=True).click()
        given = await tab.get_by_role("region", name="Given").inner_text()
        assert "CONCORD_OPEN" in given
        assert told == []


@pytest.mark.parametrize(("width", "is_dark"), [(1440, False), (360, True)])
async def test_every_page_is_accessible(
    node: Node, browser: Browser, width: int, is_dark: bool
) -> None:
    admin, reader = await bearer(node, "admin"), await bearer(node, "reader")
    wanted = {"role": "admin", "path": GROUP, "reason": MARKUP + "n" * 400}
    asked = (await node.send("POST", "/access/requests", wanted, **reader)).json["id"]
    root = "document.documentElement"
    requests = [f"/console/access/requests/{asked}{each}" for each in ("", "/grant", "/decline")]
    async with tab_of(browser, admin, width=width, is_dark=is_dark) as (tab, told):
        for path in (*PAGES, *requests):
            response = await tab.goto(node.url + path)
            assert response is not None
            assert (path, response.status) == (path, 200)
            assert (path, await violations_in(tab)) == (path, [])
            wider = await tab.evaluate(f"{root}.scrollWidth - {root}.clientWidth")
            assert (path, wider) == (path, 0)
            assert await tab.title() != "taken"
        assert told == []


@pytest.mark.parametrize("role", ROLES)
async def test_every_page_is_shown_to_every_role_or_names_the_role(node: Node, role: Role) -> None:
    who = await bearer(node, role)
    for path in PAGES:
        answer = await node.send("GET", path, **who)
        assert (path, answer.status) == (path, 200)
        needs_admin = path.startswith("/console/operation") and role != "admin"
        assert (path, b"to the role" in answer.body) == (path, needs_admin)
    other = await bearer(node, role, "/messagegroups/elsewhere")
    assert (await node.send("GET", f"/console/e{GROUP}?tab=access", **other)).status == 404
