"""Actions of the console ask once, say what they have done, and are refused to whom may not act."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

pytest.importorskip("playwright", reason="playwright is missing: pip install playwright")

from catalog.console import routes as console_routes
from catalog.model.roles import Role
from replication.routes import routes as replication_routes
from tests.integration.chromium import open_tab, run_chromium
from tests.integration.conftest import Node, start_node
from tests.integration.consolecatalog import OWN_PAGE, bearer, cookie_in, new_token, send_form

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]
# Nothing answers here.
DEAD = "http://127.0.0.1:9"
LINK = "/console/federation/dead"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    routes = [*replication_routes, *console_routes]
    unlimited = {"address_requests_per_second": 0}
    async with start_node(shared_database_url, routes=routes, open=False, **unlimited) as running:
        link = {"id": "dead", "source": DEAD, "mode": "pull"}
        answer = await running.send(
            "POST", "/replication/links?force", link, **await bearer(running, "admin")
        )
        assert answer.status == 201, answer.body
        yield running


async def state_of(node: Node) -> str:
    answer = await node.send("GET", "/replication/links/dead", **await bearer(node, "admin"))
    return str(answer.json["state"])


async def test_an_action_is_asked_done_and_told_once(node: Node) -> None:
    admin = await bearer(node, "admin")
    before = await state_of(node)
    asked = (await node.send("GET", f"{LINK}/pause", **admin)).body.decode()
    assert f"Pause the link with <bdi>{DEAD}</bdi>?" in asked
    assert await state_of(node) == before != "paused"
    done = await send_form(node, f"{LINK}/pause", {"reason": "moving"}, **admin)
    assert (done.status, done.headers["Location"], await state_of(node)) == (303, LINK, "paused")
    told = await node.send("GET", LINK, **admin, **cookie_in(done))
    assert b"The link is paused." in told.body
    assert b"paused: moving" in told.body or b"moving" in told.body
    # The browser forgets the notice, and the page of another URL never had it.
    assert told.headers["Set-Cookie"].partition(";")[0].endswith('=""')
    other = await node.send("GET", "/console/federation", **admin, **cookie_in(done))
    assert b"The link is paused." not in other.body
    done = await send_form(node, f"{LINK}/resume", {}, **admin)
    assert (done.status, await state_of(node)) == (303, before)


async def test_what_the_node_refuses_is_told_beside_what_was_typed(node: Node) -> None:
    admin, reason = await bearer(node, "admin"), "<b>why</b>" * 30
    answer = await send_form(node, f"{LINK}/pause", {"reason": reason}, **admin)
    assert answer.status == 400
    shown = answer.body.decode()
    assert f'value="{reason.replace("<", "&lt;").replace(">", "&gt;")}"' in shown
    assert 'aria-invalid="true"' in shown
    assert 'role="alert"' in shown


@pytest.mark.parametrize("role", ["reader", "writer", "replicator"])
async def test_who_may_not_act_is_told_the_role_and_is_refused_by_hand(
    node: Node, role: Role
) -> None:
    caller, before = await bearer(node, role), await state_of(node)
    shown = await node.send("GET", LINK, **caller)
    assert f'href="{LINK}/pause"' not in shown.body.decode()
    if role == "replicator":
        assert b"for the role admin" in shown.body
    for answer in (
        await node.send("GET", f"{LINK}/pause", **caller),
        await send_form(node, f"{LINK}/pause", {}, **caller),
    ):
        assert (answer.status, b"the role admin" in answer.body) == (403, True)
    assert await state_of(node) == before


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site", "Origin": "https://evil.example"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
        {"Sec_Fetch_Site": ""},
    ],
)
async def test_a_form_of_another_page_changes_nothing(node: Node, headers: dict[str, str]) -> None:
    before = await state_of(node)
    answer = await send_form(node, f"{LINK}/pause", {}, **await bearer(node, "admin"), **headers)
    assert (answer.status, await state_of(node)) == (403, before)


async def test_a_browser_that_states_no_site_states_the_origin(node: Node) -> None:
    form = {"Content_Type": "application/x-www-form-urlencoded", "Origin": node.url}
    for name in ("pause", "resume"):
        answer = await node.send(
            "POST", f"{LINK}/{name}", body=b"", **form, **await bearer(node, "admin")
        )
        assert answer.status == 303


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"reason=x", {"Content_Type": "text/plain"}, 415),
        (b"reason=x", {"Content_Type": "application/json"}, 415),
        (b"reason=" + b"x" * 300_000, {}, 413),
        (b"&".join([b"reason=x"] * 2000), {}, 413),
        (b"reason=%00&reason=%ff&" + b"%" * 99, {}, 400),
    ],
)
async def test_a_form_that_is_none_or_too_large_changes_nothing(
    node: Node, body: bytes, headers: dict[str, str], status: int
) -> None:
    before = await state_of(node)
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    sent = {**OWN_PAGE, **form, **await bearer(node, "admin"), **headers}
    answer = await node.send("POST", f"{LINK}/pause", body=body, **sent)
    assert (answer.status, await state_of(node)) == (status, before)


async def test_a_form_without_a_session_is_answered_with_the_log_in(node: Node) -> None:
    answer = await send_form(node, f"{LINK}/pause", {})
    assert (answer.status, b'href="/console/login"' in answer.body) == (401, True)
    asked = await node.send("GET", f"{LINK}/pause")
    assert (asked.status, asked.headers["Location"].startswith("/console/login")) == (302, True)


async def test_a_browser_logs_in_acts_and_logs_out(node: Node) -> None:
    _, token = await new_token(node, "admin")
    async with run_chromium() as browser, open_tab(browser) as (tab, told):
        await tab.goto(f"{node.url}{LINK}/pause")
        await tab.get_by_label("Token").fill(token)
        await tab.keyboard.press("Enter")
        await tab.get_by_label("Why").fill("by a browser")
        await tab.keyboard.press("Enter")
        await tab.get_by_role("status").get_by_text("The link is paused.").wait_for()
        await tab.get_by_role("button", name="Log out").click()
        await tab.get_by_label("Token").wait_for()
        assert told == []
    assert await state_of(node) == "paused"
    assert (
        await send_form(node, f"{LINK}/resume", {}, **await bearer(node, "admin"))
    ).status == 303
