"""Subscriptions in the console: which events a sink missed, sent again; and a new subscription."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from urllib.parse import urlencode

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

pytest.importorskip("playwright", reason="playwright is missing: pip install playwright")

from playwright.async_api import Browser, Page

from catalog.console import routes as console_routes
from catalog.model.roles import Role
from catalog.subscriptions.delivery.dispatcher import run_deliveries
from replication.routes import routes as replication_routes
from tests.integration.chromium import open_tab, overflow, run_chromium, violations_in
from tests.integration.conftest import Node, start_node
from tests.integration.consolecatalog import bearer, cookie_in, send_form
from tests.integration.federation import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]
SUBSCRIPTIONS = "/console/subscriptions"
CHANGED = "/messagegroups/orders"


class Sink:
    """A sink that answers as it is told, and remembers the subjects of the events that it took."""

    def __init__(self) -> None:
        self.status = 204
        self.subjects: list[str] = []
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        if self.status == 204:
            self.subjects.append(request.headers["ce-subject"])
        return web.Response(status=self.status)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with run_chromium() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sink() -> AsyncIterator[Sink]:
    made = Sink()
    app = web.Application()
    app.add_routes([web.post("/", made.take)])
    async with TestServer(app) as server:
        made.url = str(server.make_url("/"))
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str, browser: Browser) -> AsyncIterator[Node]:
    routes = [*replication_routes, *console_routes]
    settings = {"address_requests_per_second": 0, "allow_private_addresses": True}
    async with start_node(shared_database_url, routes=routes, **settings) as running:
        task = asyncio.create_task(run_deliveries(running.context))
        yield running
        task.cancel()
        await asyncio.wait([task])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def subscription(node: Node, sink: Sink) -> str:
    """The id of a subscription whose sink has missed two events, for two reasons."""
    wanted = {
        "sink": sink.url,
        "protocol": "HTTP",
        "filters": [{"exact": {"subject": CHANGED}}],
        "protocolsettings": {"signature": "hmac-sha256"},
    }
    id = (await node.send("POST", "/subscriptions", wanted)).json["id"]
    for number, status in enumerate((400, 422)):
        sink.status = status
        await node.put(CHANGED, {"name": str(status)})

        async def is_dead(number: int = number) -> bool:
            return len(await node.get(f"/subscriptions/{id}/deadletters")) == number + 1

        await eventually(is_dead)
    return str(id)


async def clicked(tab: Page, *names: str) -> int:
    """Click on links by their names, one after the other; returns the number of clicks."""
    for name in names:
        await tab.get_by_role("link", name=name, exact=True).first.click()
    return len(names)


async def test_every_page_of_subscriptions_is_accessible_narrow_and_wide(
    node: Node, subscription: str, browser: Browser
) -> None:
    one = f"{SUBSCRIPTIONS}/{subscription}"
    [letter, *_] = await node.get(f"/subscriptions/{subscription}/deadletters")
    paths = (
        *(SUBSCRIPTIONS, one, f"{one}/deadletters", f"{one}/deadletters/{letter['number']}"),
        *(f"{one}/{name}" for name in ("pause", "replay", "test", "rotate", "credential")),
        *(f"{one}/redeliver?cause=the+sink+answered+400", f"{one}/remove"),
        f"/console/new/subscription?about={CHANGED}",
    )
    for width, is_dark in ((1440, False), (360, True)):
        async with open_tab(browser, width=width, is_dark=is_dark) as (tab, told):
            for path in paths:
                response = await tab.goto(node.url + path)
                assert response is not None
                assert (path, response.status) == (path, 200)
                assert (path, await violations_in(tab)) == (path, [])
                assert (path, width, await overflow(tab)) == (path, width, 0)
            assert told == []


async def test_what_a_sink_missed_is_two_clicks_away_and_sent_again(
    node: Node, subscription: str, sink: Sink, browser: Browser
) -> None:
    async with open_tab(browser) as (tab, told):
        await tab.goto(f"{node.url}/console")
        assert await clicked(tab, sink.url, "show them for the sink answered 422") == 2
        await tab.get_by_role("link", name=CHANGED).wait_for()
        sink.status, sink.subjects = 204, []
        await tab.get_by_role("link", name="Deliver again", exact=True).click()
        assert "because the sink answered 422" in await tab.locator("h1").inner_text()
        await tab.get_by_role("button", name="Deliver again").click()
        await tab.get_by_role("status").get_by_text("1 event will be delivered again.").wait_for()

        async def is_taken() -> bool:
            return sink.subjects == [CHANGED]

        await eventually(is_taken)
        await tab.reload()
        assert await tab.get_by_role("status").count() == 0
        # All of the rest: one click on the start page, and the answer.
        await tab.goto(f"{node.url}/console")
        await tab.get_by_role("link", name="Deliver again").click()
        await tab.get_by_role("button", name="Deliver again").click()
        await tab.get_by_role("status").wait_for()

        async def are_taken() -> bool:
            return sink.subjects == [CHANGED] * 2

        await eventually(are_taken)
        assert told == []


async def test_whoever_looks_at_an_entity_is_told_of_its_changes_after_two_clicks(
    node: Node, subscription: str, sink: Sink, browser: Browser
) -> None:
    await node.put("/messagegroups/invoices", {"description": "about unicorns"})
    async with open_tab(browser) as (tab, told):
        await tab.goto(f"{node.url}/console")
        await tab.get_by_role("searchbox").fill("unicorns")
        await tab.keyboard.press("Enter")
        assert await clicked(tab, "invoices", "Tell me when it changes") == 2
        await tab.get_by_label("Send to").fill("ftp://nowhere")
        await tab.keyboard.press("Enter")
        await tab.get_by_role("alert").wait_for()
        assert await tab.get_by_label("About").input_value() == "/messagegroups/invoices"
        await tab.get_by_label("Send to").fill(sink.url)
        await tab.keyboard.press("Enter")
        shown = tab.get_by_role("region", name="What it would have sent")
        await shown.wait_for()
        assert await shown.get_by_role("link").all_inner_texts() == ["/messagegroups/invoices"]
        # What was typed since is shown first, and not made.
        await tab.get_by_label("About").fill("/messagegroups/none")
        await tab.get_by_role("button", name="Subscribe").click()
        await shown.get_by_text(": 0 events.").wait_for()
        await tab.get_by_label("About").fill("/messagegroups/invoices")
        await tab.get_by_role("button", name="Show again").click()
        await shown.get_by_role("link").wait_for()
        await tab.get_by_role("button", name="Subscribe").click()
        await tab.get_by_role("status").wait_for()
        id = tab.url.rpartition("/")[2]
        # The browser notes the refused form; no policy has refused a part of a page.
        assert [each for each in told if "400" not in each] == []
    made = await node.get(f"/subscriptions/{id}")
    subject = {"subject": "/messagegroups/invoices"}
    below = {"subject": "/messagegroups/invoices/"}
    assert made["filters"] == [{"any": [{"exact": subject}, {"prefix": below}]}]


async def test_a_subscription_is_paused_resumed_tried_replayed_and_removed(
    node: Node, subscription: str, sink: Sink
) -> None:
    one = f"{SUBSCRIPTIONS}/{subscription}"

    async def done(name: str, says: str, **fields: str) -> None:
        answer = await send_form(node, f"{one}/{name}", fields)
        assert answer.status == 303, answer.body.decode()
        shown = await node.send("GET", answer.headers["Location"], **cookie_in(answer))
        assert says in shown.body.decode()

    await done("pause", "is paused", reason="the sink moves")
    assert (await node.get(f"/subscriptions/{subscription}"))["status"]["reason"]
    await done("resume", "delivers")
    sink.status = 204
    await done("test", "accepted the example event")
    sink.status = 500
    await done("test", "did not accept the example event")
    sink.status = 204
    await done("replay", "goes on from earliest", cursor="earliest")
    refused = await send_form(node, f"{one}/replay", {"cursor": "yesterday"})
    assert (refused.status, b'value="yesterday"' in refused.body) == (400, True)
    secret = {"kind": "PLAIN", "identifier": "me", "secret": "of the sink"}
    await done("credential", "gets the new credential", **secret)
    found = await node.get(f"/subscriptions/{subscription}")
    assert found["sinkcredential"]["credentialtype"] == "PLAIN"
    shown = (await node.send("GET", one)).body
    assert b"of the sink" not in shown
    # The secret of a new key is in the answer alone.
    made = await send_form(node, f"{one}/rotate", {"now": "yes"})
    [key] = re.findall(r"whsec_[\w+/=]+", made.body.decode())[:1]
    assert key not in (await node.send("GET", one)).body.decode()
    made = await node.send("POST", "/subscriptions", {"sink": sink.url, "protocol": "HTTP"})
    answer = await send_form(node, f"{SUBSCRIPTIONS}/{made.json['id']}/remove", {})
    assert (answer.status, answer.headers["Location"]) == (303, SUBSCRIPTIONS)
    assert (await node.send("GET", f"/subscriptions/{made.json['id']}")).status == 404


@pytest.mark.parametrize("role", ["reader", "writer", "replicator", "admin"])
async def test_a_role_may_subscribe_or_is_told_which_may(
    shared_database_url: str, node: Node, subscription: str, role: Role
) -> None:
    routes = [*replication_routes, *console_routes]
    async with start_node(shared_database_url, routes=routes, open=False) as closed:
        caller, may = await bearer(closed, role), role != "reader"
        shown = (await closed.send("GET", f"/console/e{CHANGED}", **caller)).body.decode()
        assert ("/console/new/subscription" in shown) is may
        assert ("Tell me when it changes: for the role writer or" in shown) is not may
        form = {"sink": "http://127.0.0.1:9/", "about": CHANGED}
        answer = await send_form(closed, "/console/new/subscription", form, **caller)
        assert answer.status == (200 if may else 403)
        asked = await closed.send("GET", f"{SUBSCRIPTIONS}/{subscription}/pause", **caller)
        assert asked.status == (200 if may else 403)
        assert (await send_form(closed, "/console/new/subscription", form)).status == 401


async def test_texts_of_sinks_stay_texts(node: Node, sink: Sink, subscription: str) -> None:
    markup = "<script>x</script>{{ 7*7 }}{}{0}"
    for name in ("redeliver", "discard", "redeliver?number=1%3Cb%3E&x="):
        query = urlencode({"cause": markup})
        path = f"{SUBSCRIPTIONS}/{subscription}/{name}{'&' if '?' in name else '?'}{query}"
        shown = (await node.send("GET", path)).body.decode()
        assert "<script>x" not in shown
        assert "<b>" not in shown
