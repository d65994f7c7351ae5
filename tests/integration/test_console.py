"""The console shows what the API lets its reader see, and lets nobody else in."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import pytest
import pytest_asyncio

from catalog.access.authentication import AUTHENTICATION
from catalog.access.owntokens import end_token
from catalog.console import routes as console_routes
from catalog.model.roles import ROLES, Role
from replication.routes import routes as replication_routes
from tests.integration.conftest import Answer, Node, start_node
from tests.integration.consolecatalog import OWN_PAGE, new_token, send_form
from tests.integration.federation import (
    databases,
    eventually,
    link,
    link_history_is,
    link_is,
    running,
    start_member,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
ROUTES = [*replication_routes, *console_routes]
PAGES = (
    *("/console", "/console/search?q=paid", "/console/e", "/console/changes"),
    *(
        "/console/federation",
        "/console/subscriptions",
        "/console/e/messagegroups",
        "/console/e/messagegroups/orders",
    ),
    "/console/e/messagegroups/orders/messages/paid?tab=versions",
    "/console/e/messagegroups/orders/messages/paid?tab=uses",
)
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
# The headers Accept that programs send by default; an empty one stands for none.
PROGRAMS = {
    "curl, xr": "*/*",
    "Go": "",
    "Java's HttpURLConnection": "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2",
    "axios": "application/json, text/plain, */*",
    "Python's requests": "*/*",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    unlimited = {"address_requests_per_second": 0}
    async with start_node(shared_database_url, routes=ROUTES, open=False, **unlimited) as running:
        token = f"Bearer {(await new_token(running, 'admin'))[1]}"
        for group in ("orders", "stock"):
            path = f"/messagegroups/{group}"
            await running.put(path, {"description": f"about {group}"}, Authorization=token)
            await running.put(f"{path}/messages/paid", Authorization=token)
        yield running


async def log_in(node: Node, token: str, **headers: str) -> Answer:
    form = urlencode({"token": token, "next": "/console/e"})
    sent = {**OWN_PAGE, **headers, "Content_Type": "application/x-www-form-urlencoded"}
    return await node.send("POST", "/console/login", body=form.encode(), **sent)


async def session(node: Node, token: str) -> dict[str, str]:
    """The header with the cookie of a new session."""
    answer = await log_in(node, token)
    assert (answer.status, answer.headers["Location"]) == (303, "/console/e")
    return {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}


async def page(node: Node, path: str, **headers: str) -> str:
    answer = await node.send("GET", path, **headers)
    assert answer.status == 200, (path, answer.body)
    return answer.body.decode()


async def test_a_browser_that_opens_the_registry_is_led_to_the_console(node: Node) -> None:
    answer = await node.send("GET", "/", Accept=BROWSER)
    assert (answer.status, answer.headers["Location"]) == (302, "/console")
    assert "Accept" in answer.headers.getall("Vary")


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_program_that_opens_the_registry_gets_json(node: Node, program: str) -> None:
    _, token = await new_token(node, "reader")
    accepted = {"Accept": PROGRAMS[program]} if PROGRAMS[program] else {}
    answer = await node.send("GET", "/", Authorization=f"Bearer {token}", **accepted)
    assert (answer.status, answer.json["registryid"]) == (200, "test")
    assert "Accept" in answer.headers.getall("Vary")


async def test_who_may_not_read_is_asked_for_a_token_and_comes_back(node: Node) -> None:
    answer = await node.send("GET", "/console/e/messagegroups?id=ord")
    assert answer.status == 302
    login = answer.headers["Location"]
    assert login == "/console/login?next=%2Fconsole%2Fe%2Fmessagegroups%3Fid%3Dord"
    assert 'value="/console/e/messagegroups?id=ord"' in await page(node, login)


@pytest.mark.parametrize("target", ["https://evil.example", "//evil.example", "/console\\@evil"])
async def test_the_log_in_leads_to_no_other_server(node: Node, target: str) -> None:
    shown = await page(node, f"/console/login?{urlencode({'next': target})}")
    assert 'name="next" value="/console"' in shown


async def test_a_token_begins_a_session_whose_cookie_does_not_tell_it(node: Node) -> None:
    _, token = await new_token(node, "reader")
    answer = await log_in(node, token)
    cookie = answer.headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= {*cookie.split("; ")}
    assert token not in cookie
    async with node.database.acquire() as connection:
        rows = await connection.fetch("SELECT s::text AS row, token FROM console_sessions s")
    secret = cookie.partition("=")[2].partition(";")[0]
    assert rows
    assert not any(token.encode() in row["token"] or secret in row["row"] for row in rows)
    shown = await page(node, "/console", Cookie=f"{cookie.partition(';')[0]}")
    assert token not in shown


async def test_behind_tls_the_cookie_is_of_this_host_and_of_tls_only(
    shared_database_url: str, node: Node
) -> None:
    _, token = await new_token(node, "reader")
    settings: dict[str, Any] = {"open": False, "public_url": "https://catalog.example"}
    async with start_node(shared_database_url, routes=ROUTES, **settings) as behind:
        cookie = (await log_in(behind, token)).headers["Set-Cookie"]
    assert cookie.startswith("__Host-concord=")
    assert "Secure" in cookie.split("; ")


async def test_without_tls_no_token_is_taken_from_another_machine(node: Node) -> None:
    _, token = await new_token(node, "reader")
    answer = await log_in(node, token, Host="192.0.2.1")
    assert answer.status == 403
    assert b"without TLS" in answer.body
    assert b'name="token"' not in answer.body


async def test_a_wrong_token_is_refused_in_the_form(node: Node) -> None:
    answer = await log_in(node, "concord_" + "x" * 43)
    assert answer.status == 401
    assert b"does not accept this token" in answer.body
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site", "Origin": "https://evil.example"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
        {"Sec_Fetch_Site": ""},
    ],
)
async def test_a_form_of_another_page_is_refused(node: Node, headers: dict[str, str]) -> None:
    _, token = await new_token(node, "reader")
    answer = await log_in(node, token, **headers)
    assert answer.status == 403
    assert "Set-Cookie" not in answer.headers


async def test_a_session_ends_with_its_token(node: Node) -> None:
    id, token = await new_token(node, "reader")
    cookie = await session(node, token)
    await page(node, "/console", **cookie)
    async with node.database.transaction() as connection:
        await end_token(connection, id)
    # Other processes, as this one, may know a token for two seconds.
    node.client.app[AUTHENTICATION].remembered.forget()
    answer = await node.send("GET", "/console", **cookie)
    assert (answer.status, answer.headers["Location"]) == (302, "/console/login?next=%2Fconsole")


async def test_a_session_ends_by_the_log_out(node: Node) -> None:
    _, token = await new_token(node, "reader")
    cookie = await session(node, token)
    answer = await node.send("POST", "/console/logout", **cookie, **OWN_PAGE)
    assert answer.status == 303
    assert (await node.send("GET", "/console", **cookie)).status == 302


@pytest.mark.parametrize("column", ["usedat", "createdat"])
async def test_a_session_ends_unused_and_after_a_day_of_work(node: Node, column: str) -> None:
    _, token = await new_token(node, "reader")
    cookie = await session(node, token)
    hours = {"usedat": 2, "createdat": 12}[column]
    async with node.database.acquire() as connection:
        statement = f"UPDATE console_sessions SET {column} = now() - interval '{hours} hours'"
        await connection.execute(statement)
    assert (await node.send("GET", "/console", **cookie)).status == 302


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_runs_and_loads_nothing_of_others(node: Node, path: str) -> None:
    _, token = await new_token(node, "admin")
    answer = await node.send("GET", path, Authorization=f"Bearer {token}")
    assert answer.status == 200, answer.body
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert "trusted-types 'none'" in policy
    assert answer.headers["Cache-Control"] == "no-store"
    text = answer.body.decode()
    assert re.findall(r'(?:src|href)="(?!/|\?|#|https?://127\.0\.0\.1)', text) == []
    assert re.findall(r" (?:style|on\w+)=", text) == []


async def test_a_reader_of_a_group_sees_that_group_alone(node: Node) -> None:
    _, token = await new_token(node, "reader", "/messagegroups/orders")
    bearer = {"Authorization": f"Bearer {token}"}
    for path in PAGES:
        shown = await page(node, path, **bearer)
        assert "stock" not in shown, path
    assert "orders" in await page(node, "/console/e/messagegroups", **bearer)
    assert "/messagegroups/orders" in await page(node, "/console/search?q=paid", **bearer)
    hidden = await node.send("GET", "/console/e/messagegroups/stock", **bearer)
    missing = await node.send("GET", "/console/e/messagegroups/stack", **bearer)
    assert (hidden.status, missing.status) == (404, 404)
    assert hidden.body.replace(b"stock", b"") == missing.body.replace(b"stack", b"")


async def test_the_start_page_lists_the_groups_of_who_writes_them(node: Node) -> None:
    _, token = await new_token(node, "writer", "/messagegroups/orders")
    start = await page(node, "/console", Authorization=f"Bearer {token}")
    assert "Your groups" in start
    assert 'href="/console/e/messagegroups/orders"' in start


@pytest.mark.parametrize("role", ROLES)
async def test_every_page_is_shown_to_every_role(node: Node, role: Role) -> None:
    _, token = await new_token(node, role)
    for path in PAGES:
        shown = await page(node, path, Authorization=f"Bearer {token}")
        assert "cannot be shown" not in shown, path
    # Who has subscriptions is told what is wrong with these; readers have none.
    start = await page(node, "/console", Authorization=f"Bearer {token}")
    assert ("Needs a look" in start) is (role != "reader")


async def test_a_reader_is_told_which_role_shows_the_rest(node: Node) -> None:
    _, token = await new_token(node, "reader")
    bearer = {"Authorization": f"Bearer {token}"}
    assert "the role replicator or admin" in await page(node, "/console/federation", **bearer)
    assert "the role admin" in await page(node, "/console/audit", **bearer)
    assert "told to the admins" in await page(node, "/console/changes", **bearer)


async def test_the_audit_is_filtered_by_path_person_and_outcome(node: Node) -> None:
    id, token = await new_token(node, "admin")
    bearer = {"Authorization": f"Bearer {token}"}
    await node.put("/messagegroups/filtered", **bearer)
    path = urlencode({"path": "/messagegroups/filtered", "identity": f"token:{id}"})
    shown = await page(node, f"/console/audit?{path}", **bearer)
    assert shown.count('class="change"') == 1
    shown = await page(node, f"/console/audit?{path}&outcome=refused", **bearer)
    assert "No entry fits" in shown


async def test_lists_go_on_where_the_node_ends_a_page(node: Node, shared_database_url: str) -> None:
    id, token = await new_token(node, "admin")
    bearer = {"Authorization": f"Bearer {token}"}
    rule = {"who": f"token={id}", "role": "reader", "paths": ["/messagegroups/shop"]}
    for _ in range(3):
        await node.send("POST", "/access/rules", rule, **bearer)
    async with start_node(shared_database_url, routes=ROUTES, open=False, page_size=2) as small:
        audit = await page(small, "/console/audit", **bearer)
        rules = await page(small, "/console/operation/access", **bearer)
    assert audit.count('class="change"') == 2
    assert "Earlier entries" in audit
    assert "More rules" in rules


async def test_two_versions_of_a_schema_are_compared_line_by_line(node: Node) -> None:
    _, token = await new_token(node, "admin")
    bearer = {"Authorization": f"Bearer {token}"}
    schema = "/schemagroups/orders/schemas/order"
    for version, type in (("1", "string"), ("2", "long")):
        field = {"name": "amount", "type": type, "doc": "in cents"}
        document = {"type": "record", "name": "Order", "fields": [field]}
        body = {"format": "Avro/1.12", "schema": document}
        await node.put(f"{schema}/versions/{version}$details", body, **bearer)
    shown = await page(node, f"/console/e{schema}?tab=versions&older=1&newer=2", **bearer)
    assert re.findall(r'<span class="(added|removed)">.*&#34;(string|long)&#34;', shown) == [
        ("removed", "string"),
        ("added", "long"),
    ]
    shown = await page(node, f"/console/e{schema}?tab=schema", **bearer)
    assert "<bdi>amount</bdi>" in shown
    assert "<bdi>in cents</bdi>" in shown


@pytest.mark.parametrize(
    ("document", "shown"),
    [
        ('{"maximum":18446744073709551616}', ">18446744073709551616<"),
        ('{"a":' * 500 + "1" + "}" * 500, "&#34;a&#34;"),
        ("\x00\x01", "or is no text"),
    ],
)
async def test_a_document_is_shown_as_it_is_where_it_cannot_be_set_out(
    node: Node, document: str, shown: str
) -> None:
    _, token = await new_token(node, "admin")
    bearer = {"Authorization": f"Bearer {token}"}
    schema = "/schemagroups/odd/schemas/odd"
    format = {"xRegistry_format": "Odd/1"}
    answer = await node.send("PUT", schema, body=document.encode(), **format, **bearer)
    assert answer.status in (200, 201), answer.body
    found = await page(node, f"/console/e{schema}?tab=schema", **bearer)
    assert shown in found


@pytest.mark.parametrize(
    "path",
    [
        "/console/e/messagegroups?id=a,b=%27*\\",
        "/console/e/messagegroups/orders/messages/paid?tab=versions&older=..%2F..&newer=%3F",
        "/console/e/messagegroups/orders?tab=none",
        "/console/search?q=%22%26|!*:()&type=//&after=99999999999999999999",
        "/console/search?q=" + "x" * 5000,
        "/console/changes?path=%25_&before=x&since=never&authority=x&who=%27",
        "/console/changes?path=/nowhere",
        "/console/audit?path=%25_&before=x&since=never&outcome=x",
    ],
)
async def test_odd_input_is_answered_with_a_page(node: Node, path: str) -> None:
    _, token = await new_token(node, "admin")
    shown = await page(node, path, Authorization=f"Bearer {token}")
    assert '<main id="main">' in shown


async def test_what_uses_a_definition_is_told_also_through_others(node: Node) -> None:
    _, token = await new_token(node, "admin")
    bearer = {"Authorization": f"Bearer {token}"}
    schema = "/schemagroups/used/schemas/s"
    body = {"format": "JsonSchema/draft-07", "schema": {"type": "object"}}
    await node.put(f"{schema}/versions/1$details", body, **bearer)
    await node.put("/messagegroups/using", **bearer)
    await node.put("/messagegroups/using/messages/m", {"dataschemaxid": schema}, **bearer)
    await node.put(
        "/endpoints/using",
        {"usage": ["consumer"], "messagegroups": ["/messagegroups/using"]},
        **bearer,
    )
    shown = await page(node, f"/console/e{schema}?tab=uses", **bearer)
    direct, through = shown.index("using/messages/m"), shown.index("/console/e/endpoints/using")
    assert direct < through
    assert "through <bdi>/messagegroups/using</bdi>" in shown[through:]


async def test_a_copy_tells_whose_it_is_how_fresh_it_is_and_where_it_is_edited(
    postgres_url: str, template: str
) -> None:
    async with (
        databases(postgres_url, template, 2) as (there, here),
        start_member(there) as source,
        start_node(here, routes=ROUTES) as follower,
        running(follower),
    ):
        await source.put("/messagegroups/copied", {"name": "Copied"})
        id = (await link(follower, source))["id"]
        await link_history_is(follower, id, "copied")
        await link_is(follower, id, "current")
        shown = await page(follower, "/console/e/messagegroups/copied")
        assert 'href="?tab=copies">copy, current</a>' in shown
        assert f'href="{source.url}/console/e/messagegroups/copied"' in shown
        assert "/console/edit/" not in shown
        form = {"epoch": "1", "was": "{}", "a.name": "Mine"}
        refused = await send_form(follower, "/console/edit/messagegroups/copied", form)
        assert (refused.status, b"edited at its owner" in refused.body) == (400, True)
        assert (await follower.get("/messagegroups/copied"))["name"] == "Copied"
        await follower.send("PATCH", f"/replication/links/{id}", {"paused": True})

        async def is_behind() -> bool:
            shown = await page(follower, "/console/e/messagegroups/copied")
            return re.search(r">copy, (under 1|\d+) s behind</a>", shown) is not None

        await eventually(is_behind)


async def test_where_everybody_may_read_the_log_in_is_an_offer(shared_database_url: str) -> None:
    settings: dict[str, Any] = {"open": False, "anonymous_role": "reader"}
    async with start_node(shared_database_url, routes=ROUTES, **settings) as public:
        shown = await page(public, "/console/e/messagegroups")
        assert "orders" in shown
        assert '<a href="/console/login">Log in</a>' in shown
        assert "Needs a look" not in await page(public, "/console")


async def test_a_file_of_the_console_is_kept_by_its_digest_only(node: Node) -> None:
    shown = await page(node, "/console/login")
    [address] = re.findall(r'href="(/console/static/\w+/console.css)"', shown)
    answer = await node.send("GET", address, Accept_Encoding="gzip")
    assert (answer.status, "immutable" in answer.headers["Cache-Control"]) == (200, True)
    older = await node.send("GET", "/console/static/0000/console.css")
    assert (older.status, older.headers["Cache-Control"]) == (200, "no-cache")
    assert (await node.send("GET", "/console/static/0000/page.py")).status == 404


@pytest.mark.parametrize(
    "path", ["/console/e/none/x", "/console/e/messagegroups/a/b", "/console/e/a//b"]
)
async def test_what_is_not_there_is_said_on_a_page(node: Node, path: str) -> None:
    _, token = await new_token(node, "reader")
    answer = await node.send("GET", f"/console/e/{path}", Authorization=f"Bearer {token}")
    assert answer.status in (400, 404)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
