"""A browser for tests: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright

from tests.brokers.npmpackage import Package

AXE = "4.14.1"
_ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
    # A page waits for the fonts of other hosts, as long as their names are looked up.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
# The rules of WCAG 2.2 at the levels A and AA, and what is good practice besides.
_AXE_RUN = """async () => (await axe.run(document)).violations.map(
    ({id, nodes}) => id + ': ' + nodes.map((node) => node.html.slice(0, 160)).join(' | '))"""


@contextlib.asynccontextmanager
async def run_chromium() -> AsyncIterator[Browser]:
    """A browser; the test is skipped where there is no Chromium."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is missing: install it with apt-get install chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=[*_ARGUMENTS])
        yield browser
        await browser.close()


@contextlib.asynccontextmanager
async def open_tab(
    browser: Browser, *, width: int = 1440, is_dark: bool = False
) -> AsyncIterator[tuple[Page, list[str]]]:
    """A tab, and the messages of its pages in the browser's console: what a policy refuses, too."""
    context: BrowserContext = await browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if is_dark else "light"
    )
    tab, told = await context.new_page(), list[str]()

    def note(message: ConsoleMessage) -> None:
        told.append(message.text)

    tab.on("console", note)
    tab.on("pageerror", lambda error: told.append(str(error)))
    yield tab, told
    await context.close()


async def violations_in(tab: Page) -> list[str]:
    """The rules for accessible pages that a page breaks, as axe-core finds them."""
    script = (Package("axe-core", AXE).modules() / "axe-core" / "axe.min.js").read_text()
    await tab.evaluate(script)
    found: list[str] = await tab.evaluate(_AXE_RUN)
    return found


async def overflow(tab: Page) -> int:
    """By how many pixels a page is wider than the window."""
    root = "document.documentElement"
    wider: int = await tab.evaluate(f"{root}.scrollWidth - {root}.clientWidth")
    return wider


async def picture(tab: Page, path: Path) -> None:
    """Take a picture of what the tab shows."""
    await tab.screenshot(path=path, animations="disabled", caret="hide")
