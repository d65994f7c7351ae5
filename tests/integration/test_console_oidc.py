"""The log-in to the console at a real OpenID Connect provider, in a real browser."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio

pytest.importorskip("playwright", reason="playwright is missing: pip install playwright")

from playwright.async_api import Browser, BrowserContext, Page, expect
from pydantic import ValidationError

from catalog.console import routes as console_routes
from catalog.settings import Settings
from replication.routes import routes as replication_routes
from tests.brokers.oidcprovider import AUDIENCE, OidcProvider, run_providers
from tests.integration.chromium import open_tab, picture, run_chromium, violations_in
from tests.integration.conftest import Node, start_node

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]
_ROLES = "reader:sub=*,admin:groups=admins"
_PICTURES = os.environ.get("CONCORD_TEST_PICTURES")
_RETURN = "/console/login/return"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with run_chromium() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider(
    tmp_path_factory: pytest.TempPathFactory, browser: Browser
) -> AsyncIterator[OidcProvider]:
    directory: Path = tmp_path_factory.mktemp("oidc")
    async with run_providers(directory, 1) as [running]:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str, provider: OidcProvider) -> AsyncIterator[Node]:
    async with start_node(
        shared_database_url,
        routes=[*replication_routes, *console_routes],
        address_requests_per_second=0,
        oidc_issuers=provider.issuer,
        oidc_audiences=AUDIENCE,
        oidc_roles=_ROLES,
        oidc_leeway_seconds=0,
        oidc_login_client="console",
        oidc_login_secret="very secret: %",
        oidc_login_scope="openid offline_access catalog.read",
        oidc_login_parameters=f"resource={AUDIENCE},prompt=consent",
    ) as running:
        await provider.let_people_log_in(running.url + _RETURN)
        yield running


async def log_in(tab: Page, node: Node, name: str, path: str = "/console") -> None:
    """Open a page, and log in at the provider on the way."""
    await tab.goto(node.url + path)
    await tab.get_by_role("link", name="Log in with").click()
    await tab.locator("input[name=login]").fill(name)
    await tab.locator("input[name=password]").fill("any")
    await tab.locator("button[type=submit]").click()
    await tab.locator("button[type=submit]").click()
    await tab.wait_for_url(f"{node.url}{path}")


async def session_of(context: BrowserContext) -> str:
    """The cookie of the session of a browser."""
    found = {each["name"]: each for each in await context.cookies()}
    [name] = [name for name in found if name.startswith("concord-") and "login" not in name]
    cookie = found[name]
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
    return str(cookie["value"])


async def test_a_person_logs_in_at_the_provider_and_out_again(node: Node, browser: Browser) -> None:
    async with open_tab(browser) as (tab, _):
        await tab.goto(f"{node.url}/console/e")
        assert urlsplit(tab.url).path == "/console/login"
        assert await violations_in(tab) == []
        if _PICTURES:
            await picture(tab, Path(_PICTURES) / "console-login.png")
        await log_in(tab, node, "ada", "/console/e")
        await expect(tab.locator(".account")).to_contain_text("jwt ada")
        first = await session_of(tab.context)
        await log_in_again(tab, node)
        assert await session_of(tab.context) != first, "a log-in begins a session with a new id"
        stored = await tab.evaluate(
            "JSON.stringify([localStorage, sessionStorage, document.cookie])"
        )
        assert stored == '[{},{},""]'
        await tab.get_by_role("button", name="Log out").click()
        await tab.goto(f"{node.url}/console")
        assert urlsplit(tab.url).path == "/console/login"


async def log_in_again(tab: Page, node: Node) -> None:
    """Log in while the provider still knows the person."""
    await tab.goto(f"{node.url}/console/login")
    await tab.get_by_role("link", name="Log in with").click()
    await tab.locator("button[type=submit]").click()
    await tab.wait_for_url(f"{node.url}/console")


async def test_a_live_page_ends_with_the_log_out(node: Node, browser: Browser) -> None:
    async with open_tab(browser) as (tab, _):
        await log_in(tab, node, "ada", "/console/live")
        await expect(tab.get_by_role("status")).to_contain_text("Live")
        other = await tab.context.new_page()
        await other.goto(f"{node.url}/console")
        await other.get_by_role("button", name="Log out").click()
        await expect(tab.get_by_role("status")).to_contain_text("does not stream", timeout=15_000)


async def test_the_answer_for_another_browser_logs_nobody_in(node: Node, browser: Browser) -> None:
    """A page that sends a browser to a stranger's answer cannot log it in as the stranger."""
    async with open_tab(browser) as (tab, _):
        forged = f"{node.url}{_RETURN}?code=stolen&state=forged"
        response = await tab.goto(forged)
        assert response is not None
        assert response.status == 400
        await expect(tab.get_by_role("alert")).to_contain_text("has not begun the log-in")
        began = await node.client.get("/console/login/provider", allow_redirects=False)
        asked = parse_qs(urlsplit(began.headers["Location"]).query)
        assert asked["code_challenge_method"] == ["S256"]
        assert {"state", "nonce", "code_challenge"} <= asked.keys()
        cookie = began.headers["Set-Cookie"].partition(";")[0]
        for query in ("code=c&state=other", f"code=c&state={asked['state'][0]}&iss=http://other"):
            answer = await node.request("GET", f"{_RETURN}?{query}", headers={"Cookie": cookie})
            assert answer.status == 400
            assert b"concord-" in answer.headers["Set-Cookie"].encode()
        refused = f"error=access_denied&error_description=<b>no</b>&state={asked['state'][0]}"
        answer = await node.request("GET", f"{_RETURN}?{refused}", headers={"Cookie": cookie})
        assert b"access_denied: &lt;b&gt;no&lt;/b&gt;" in answer.body
        code = f"{_RETURN}?code=unknown&state={asked['state'][0]}"
        answer = await node.request("GET", code, headers={"Cookie": cookie})
        assert (answer.status, b"invalid_grant" in answer.body) == (400, True)


async def test_a_session_renews_its_token_once_for_all_requests_and_ends_with_the_provider(
    shared_database_url: str, provider: OidcProvider, browser: Browser
) -> None:
    """A public client, whose tokens last six seconds, and so are renewed by each page."""
    async with start_node(
        shared_database_url,
        routes=[*replication_routes, *console_routes],
        oidc_issuers=provider.issuer,
        oidc_audiences=f"{AUDIENCE}/short",
        oidc_roles=_ROLES,
        oidc_leeway_seconds=0,
        oidc_login_client="public",
        oidc_login_scope="openid offline_access catalog.read",
        oidc_login_parameters=f"resource={AUDIENCE}/short,prompt=consent",
    ) as brief:
        await provider.let_people_log_in(brief.url + _RETURN)
        async with open_tab(browser) as (tab, _):
            await log_in(tab, brief, "bob")
            await asyncio.sleep(6.5)  # the token has ended
            name = f"concord-{brief.client.port}"
            cookie = {"Cookie": f"{name}={await session_of(tab.context)}"}
            asked = [brief.request("GET", "/console", headers=cookie) for _ in range(4)]
            assert [answer.status for answer in await asyncio.gather(*asked)] == [200] * 4
            # The provider forgets the person, and its refresh tokens.
            await provider.let_people_log_in(brief.url + _RETURN)
            await tab.goto(f"{brief.url}/console")
            assert urlsplit(tab.url).path == "/console/login"


async def test_settings_that_cannot_log_anybody_in_are_refused() -> None:
    issuers = "https://one.example,https://two.example"
    known = {"oidc_audiences": "a", "oidc_login_client": "c"}
    for wrong in (
        {**known},
        {**known, "oidc_issuers": issuers},
        {**known, "oidc_issuers": "https://one.example", "oidc_login_parameters": "resource"},
    ):
        with pytest.raises(ValidationError):
            Settings.model_validate(wrong)
