"""Links in the console: a new one is tried first, and what is stuck goes on after one click."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

pytest.importorskip("playwright", reason="playwright is missing: pip install playwright")

from playwright.async_api import Browser

from catalog.console import routes as console_routes
from replication.routes import routes as replication_routes
from tests.integration.chromium import open_tab, overflow, run_chromium, violations_in
from tests.integration.conftest import Node, start_node
from tests.integration.consolecatalog import cookie_in, send_form
from tests.integration.federation import (
    databases,
    eventually,
    execute,
    link,
    link_is,
    running,
    start_member,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]
FEDERATION = "/console/federation"
GROUPS = 40


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with run_chromium() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nodes(
    postgres_url: str, template: str, browser: Browser
) -> AsyncIterator[tuple[Node, Node]]:
    """A catalog with groups, and a node with a console whose links run."""
    async with (
        databases(postgres_url, template, 2) as (there, here),
        start_member(there, pull_interval_seconds=0.2) as source,
        start_node(
            here,
            routes=[*replication_routes, *console_routes],
            address_requests_per_second=0,
            pull_interval_seconds=0.2,
            backoff_initial_seconds=0.05,
        ) as follower,
        running(follower),
    ):
        body = {"messagegroups": {f"g{number}": {} for number in range(GROUPS)}}
        assert (await source.send("POST", "/", body)).status == 200
        await source.changes()
        yield source, follower


async def test_what_a_new_link_would_do_is_two_clicks_away(
    nodes: tuple[Node, Node], browser: Browser
) -> None:
    source, follower = nodes
    async with open_tab(browser) as (tab, told):
        await tab.goto(f"{follower.url}/console")
        for name in ("Federation", "Add a link"):
            await tab.get_by_role("link", name=name).first.click()
        url = tab.get_by_label("URL of the other catalog")
        await url.fill("http://127.0.0.1:9")
        await tab.get_by_label("Token").fill("a-token")
        await tab.keyboard.press("Enter")
        await tab.get_by_role("alert").get_by_text("cannot be followed").wait_for()
        assert await tab.get_by_label("Token").input_value() == "a-token"
        await url.fill(source.url)
        await tab.keyboard.press("Enter")
        shown = tab.get_by_role("region", name="What a run would do now")
        assert f"{GROUPS} of {GROUPS}" in await shown.inner_text()
        assert (await follower.get("/replication/links"))["links"] == []
        await tab.get_by_role("button", name="Add the link").click()
        await tab.get_by_role("status").get_by_text("The link is made.").wait_for()
        id = tab.url.rpartition("/")[2]
        await link_is(follower, id, "current")
        assert [each for each in told if "400" not in each and "502" not in each] == []
    answer = await send_form(follower, f"{FEDERATION}/{id}/remove", {"drop": "yes"})
    assert (answer.status, answer.headers["Location"]) == (303, FEDERATION)

    async def is_gone() -> bool:
        return (await follower.send("GET", f"/replication/links/{id}")).status == 404

    await eventually(is_gone)
    assert (await follower.get("/"))["messagegroupscount"] == 0


async def test_what_is_stuck_goes_on_after_a_click_and_an_answer(
    nodes: tuple[Node, Node], browser: Browser
) -> None:
    source, follower = nodes
    id = (await link(follower, source))["id"]
    await link_is(follower, id, "current")
    async with open_tab(browser) as (tab, told):
        done = await send_form(follower, f"{FEDERATION}/{id}/pause", {"reason": "it moves"})
        assert done.status == 303
        await tab.goto(f"{follower.url}/console")
        await tab.get_by_role("link", name="Resume").click()
        await tab.get_by_text("Nothing would change").wait_for()
        await tab.get_by_role("button", name="Resume").click()
        await tab.get_by_role("status").get_by_text("The link runs again.").wait_for()
        await link_is(follower, id, "current")

        # The source loses most of what it had, as if it were restored from a backup.
        kept = f"g{GROUPS - 1}"
        await execute(source, "DELETE FROM entities WHERE kind = 'group' AND id <> $1", kept)
        done = await send_form(follower, f"{FEDERATION}/{id}/reset", {"full": "yes"})
        assert done.status == 303
        await link_is(follower, id, "asking")
        stale = await send_form(follower, f"{FEDERATION}/{id}/allow", {"digest": "other"})
        digest = (await follower.get(f"/replication/links/{id}"))["question"]["digest"]
        assert (stale.status, digest in stale.body.decode()) == (409, True)
        await tab.goto(f"{follower.url}/console")
        await tab.get_by_role("link", name="See and allow").click()
        assert await tab.get_by_text("/messagegroups/g0").count() == 1
        await tab.get_by_role("button", name=f"Delete {GROUPS - 1}").click()
        await tab.get_by_role("status").wait_for()

        async def is_lost() -> bool:
            return bool((await follower.get("/"))["messagegroupscount"] == 1)

        await eventually(is_lost)
        assert told == []


async def test_every_action_of_a_link_is_accessible_and_does_what_it_says(
    nodes: tuple[Node, Node], browser: Browser
) -> None:
    source, follower = nodes
    [found] = (await follower.get("/replication/links"))["links"]
    one = f"{FEDERATION}/{found['id']}"
    names = ("pause", "run", "reset", "allow", "pin", "move", "credential", "remove")
    for width, is_dark in ((1440, True), (360, False)):
        async with open_tab(browser, width=width, is_dark=is_dark) as (tab, told):
            for path in (one, "/console/new/link", *(f"{one}/{name}" for name in names)):
                response = await tab.goto(follower.url + path)
                assert response is not None
                assert (path, response.status) == (path, 200)
                assert (path, await violations_in(tab)) == (path, [])
                assert (path, width, await overflow(tab)) == (path, width, 0)
            assert told == []

    async def done(name: str, says: str, **fields: str) -> None:
        answer = await send_form(follower, f"{one}/{name}", fields)
        assert answer.status == 303, (name, answer.body.decode())
        shown = await follower.send("GET", answer.headers["Location"], **cookie_in(answer))
        assert says in shown.body.decode()

    await done("run", "runs now")
    await done("pin", "is pinned", authority=found["authority"])
    await done("move", "has the new URL", source=source.url.replace("127.0.0.1", "localhost"))
    await done("credential", "has the new token", token="only-for-the-source")
    shown = (await follower.send("GET", one)).body.decode()
    assert "only-for-the-source" not in shown
    for name, fields in (
        ("move", {"source": "http://127.0.0.1:9"}),
        ("pin", {"authority": "x"}),
        ("credential", {"token": "a b"}),
    ):
        answer = await send_form(follower, f"{one}/{name}", fields)
        assert (name, answer.status) in ((name, 400), (name, 502), (name, 403)), answer.body
        assert b'role="alert"' in answer.body
    await done("remove", "The link is removed.")
