"""Entities are created, changed and deleted by forms of the model, and nothing typed is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

pytest.importorskip("playwright", reason="playwright is missing: pip install playwright")

from playwright.async_api import Browser

from catalog.console import routes as console_routes
from catalog.model.roles import Role
from replication.routes import routes as replication_routes
from tests.integration.chromium import open_tab, overflow, run_chromium, violations_in
from tests.integration.conftest import Node, start_node
from tests.integration.consolecatalog import new_token, send_form

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]
ROUTES = [*replication_routes, *console_routes]
GROUP = "/messagegroups/orders"
MESSAGE = f"{GROUP}/messages/paid"
SCHEMA = "/schemagroups/orders/schemas/paid"
DOCUMENT = '{\n  "type": "object",\n  "maximum": 18446744073709551616\n}\n'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with run_chromium() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str, browser: Browser) -> AsyncIterator[Node]:
    limits = {"address_requests_per_second": 0}
    async with start_node(shared_database_url, routes=ROUTES, **limits) as running:
        yield running


async def test_an_entity_is_created_changed_and_deleted_by_forms(
    node: Node, browser: Browser
) -> None:
    async with open_tab(browser) as (tab, told):
        await tab.goto(f"{node.url}/console/e/endpoints")
        await tab.get_by_role("link", name="New", exact=True).click()
        await tab.get_by_label("Id", exact=False).first.fill("no id")
        await tab.get_by_label("description").fill("Where orders are told")
        await tab.get_by_label("producer").check()
        await tab.get_by_role("button", name="Create").click()
        await tab.get_by_role("alert").wait_for()
        assert await tab.get_by_label("producer").is_checked()
        await tab.get_by_label("Id", exact=False).first.fill("orders")
        await tab.get_by_role("button", name="Create").click()
        await tab.wait_for_url("**/console/e/endpoints/orders")
        made = await node.get("/endpoints/orders")
        assert (made["usage"], made["description"]) == (["producer"], "Where orders are told")
        await tab.get_by_role("link", name="Edit", exact=True).click()
        await tab.get_by_label("name", exact=True).fill("Orders")
        await tab.get_by_label("producer").uncheck()
        await tab.get_by_label("consumer").check()
        await tab.get_by_label("Further attributes").fill('{"labels": {"team": "shop"}}')
        await tab.get_by_role("button", name="Save").click()
        await tab.get_by_role("status").wait_for()
        found = await node.get("/endpoints/orders")
        assert found["epoch"] == made["epoch"] + 1
        assert (found["name"], found["usage"], found["labels"]) == (
            *("Orders", ["consumer"]),
            {"team": "shop"},
        )
        await tab.get_by_role("link", name="Delete", exact=True).click()
        assert "0 messages" in await tab.locator("main").inner_text()
        await tab.get_by_role("button", name="Delete").click()
        await tab.get_by_role("status").get_by_text("/endpoints/orders is deleted.").wait_for()
        assert (await node.send("GET", "/endpoints/orders")).status == 404
        assert [each for each in told if "400" not in each] == []


async def test_a_lost_race_shows_both_sides_and_keeps_what_was_typed(
    node: Node, browser: Browser
) -> None:
    await node.put(GROUP)
    await node.put(MESSAGE, {"name": "Paid", "description": "old", "labels": {"a": "1"}})
    async with open_tab(browser) as (tab, _):
        await tab.goto(f"{node.url}/console/edit{MESSAGE}")
        await tab.get_by_label("name", exact=True).fill("Mine")
        await tab.get_by_label("datacontenttype").fill("text/plain")
        theirs = {"name": "Theirs", "description": "new", "labels": {"b": "2"}}
        assert (await node.send("PATCH", MESSAGE, theirs)).status == 200
        await tab.get_by_role("button", name="Save").click()
        await tab.get_by_role("alert").get_by_text("Somebody else has changed it").wait_for()
        both = tab.get_by_role("region", name="What both have changed")
        assert (await both.locator("tbody").inner_text()).split() == ["name", "Theirs", "Mine"]
        assert await tab.get_by_label("name", exact=True).input_value() == "Mine"
        assert await tab.get_by_label("datacontenttype").input_value() == "text/plain"
        assert await tab.get_by_label("description").input_value() == "new"
        assert await violations_in(tab) == []
        await tab.get_by_role("button", name="Save").click()
        await tab.get_by_role("status").wait_for()
    found = await node.get(MESSAGE)
    changed = {"name": "Mine", "description": "new", "labels": {"b": "2"}}
    assert {name: found[name] for name in changed} == changed
    assert found["datacontenttype"] == "text/plain"


async def test_a_document_is_changed_only_where_it_was_typed(node: Node, browser: Browser) -> None:
    await node.put("/schemagroups/orders")
    format = {"xRegistry_format": "Odd/1", "Content_Type": "application/json"}
    answer = await node.send("PUT", SCHEMA, body=DOCUMENT.encode(), **format)
    assert answer.status == 201, answer.body
    async with open_tab(browser) as (tab, _):
        await tab.goto(f"{node.url}/console/edit{SCHEMA}")
        await tab.get_by_label("name", exact=True).fill("A schema")
        await tab.get_by_role("button", name="Save").click()
        await tab.get_by_role("status").wait_for()
        assert (await node.send("GET", SCHEMA)).body.decode() == DOCUMENT
        await tab.goto(f"{node.url}/console/edit{SCHEMA}")
        await tab.get_by_label("Document", exact=True).fill('{"type": "array"}')
        await tab.get_by_role("button", name="Save").click()
        await tab.get_by_role("status").wait_for()
    assert (await node.send("GET", SCHEMA)).body == b'{"type": "array"}'
    found = await node.get(f"{SCHEMA}$details")
    assert (found["name"], found["format"]) == ("A schema", "Odd/1")


async def test_a_new_version_begins_as_the_one_before(node: Node, browser: Browser) -> None:
    schema = "/schemagroups/orders/schemas/refunded"
    await node.put("/schemagroups/orders")
    format = {"xRegistry_format": "Odd/1", "Content_Type": "application/json"}
    answer = await node.send("PUT", schema, body=DOCUMENT.encode(), **format)
    assert answer.status == 201, answer.body
    async with open_tab(browser) as (tab, _):
        await tab.goto(f"{node.url}/console/e{schema}?tab=versions")
        await tab.get_by_role("link", name="New version").click()
        document = tab.get_by_label("Document", exact=True)
        assert await document.input_value() == DOCUMENT
        await document.fill("{}")
        await tab.get_by_label("Id", exact=False).first.fill("1")
        await tab.get_by_role("button", name="Create").click()
        await tab.get_by_text("Choose another id.").wait_for()
        assert await document.input_value() == "{}"
        await tab.get_by_label("Id", exact=False).first.fill("2")
        await tab.get_by_role("button", name="Create").click()
        await tab.get_by_role("status").wait_for()
        await tab.goto(f"{node.url}/console/new/entity?in={schema}/versions")
        await tab.get_by_label("Id", exact=False).first.fill("3")
        await tab.get_by_role("button", name="Create").click()
        await tab.get_by_role("status").wait_for()
    found = [(await node.send("GET", f"{schema}/versions/{n}")).body for n in "123"]
    assert found == [DOCUMENT.encode(), b"{}", b"{}"]
    assert (await node.get(f"{schema}/versions/3$details"))["format"] == "Odd/1"


async def test_the_forms_are_accessible_narrow_and_wide(node: Node, browser: Browser) -> None:
    await node.put(GROUP)
    await node.put(MESSAGE)
    await node.put(f"{GROUP}/messages/{'n' * 128}", {"description": "<script>x</script>" * 200})
    paths = (
        *("/console/new/entity?in=/endpoints", f"/console/new/entity?in={GROUP}/messages"),
        *("/console/new/entity?in=/schemagroups/orders/schemas", f"/console/edit{GROUP}"),
        *(f"/console/edit{MESSAGE}", f"/console/edit{MESSAGE}/versions/1"),
        *(f"/console/edit{GROUP}/messages/{'n' * 128}", f"/console/delete{MESSAGE}"),
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


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"epoch": "1", "rest": "{", "a.name": "typed"}, 400),
        ({"epoch": "1", "rest": "[]", "a.name": "typed"}, 400),
        ({"epoch": "1", "rest": '{"epochx": 1, "xid": "/"}', "a.name": "typed"}, 400),
        ({"epoch": "x", "a.name": "typed"}, 400),
        ({"a.name": "typed"}, 400),
    ],
)
async def test_a_form_that_cannot_be_saved_is_shown_again(
    node: Node, form: dict[str, str], status: int
) -> None:
    await node.put(GROUP, {"name": "before"})
    answer = await send_form(node, f"/console/edit{GROUP}", form)
    assert (answer.status, b"typed" in answer.body) == (status, True)
    assert (await node.get(GROUP))["name"] == "before"


@pytest.mark.parametrize("role", ["reader", "writer", "replicator", "admin"])
async def test_a_role_may_edit_in_its_group_or_is_told_which_may(
    shared_database_url: str, node: Node, role: Role
) -> None:
    settings: dict[str, Any] = {"open": False, "address_requests_per_second": 0}
    await node.put(GROUP, {"name": "before"})
    await node.put("/messagegroups/others")
    async with start_node(shared_database_url, routes=ROUTES, **settings) as closed:
        _, token = await new_token(closed, role, GROUP)
        _, reader = await new_token(closed, "reader")
        caller, may = {"Authorization": f"Bearer {token}"}, role in ("writer", "admin")
        shown = (await closed.send("GET", f"/console/e{GROUP}", **caller)).body.decode()
        assert (f'href="/console/edit{GROUP}"' in shown) is may
        assert ("Edit, Delete: for the role writer or admin." in shown) is not may
        epoch = str((await node.get(GROUP))["epoch"])
        form = {"epoch": epoch, "a.name": "after", "was": '{"name": "before"}'}
        answer = await send_form(closed, f"/console/edit{GROUP}", form, **caller)
        assert answer.status == (303 if may else 403)
        assert ((await node.get(GROUP))["name"] == "after") is may
        hidden = await send_form(closed, "/console/delete/messagegroups/others", form, **caller)
        assert hidden.status in (403, 404)
        other = {"Authorization": f"Bearer {reader}"}
        assert (await send_form(closed, f"/console/delete{GROUP}", form, **other)).status == 403
        site = {"Sec_Fetch_Site": "cross-site"}
        foreign = await send_form(closed, f"/console/edit{GROUP}", form, **caller, **site)
        assert foreign.status == 403
    assert (await node.send("GET", "/messagegroups/others")).status == 200
