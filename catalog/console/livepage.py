"""The page of live events: what happens in the catalog, as it happens."""

from __future__ import annotations

import asyncio
from urllib.parse import urlencode

import orjson
from aiohttp import web

from catalog.console.page import ConsolePage, bare_route, open_page, page_route, render
from catalog.console.sessions import has_session
from catalog.model.roles import Permission
from catalog.operations.events import LAST_EVENT_ID, READ_EVENTS

_STREAM = "/console/live/events"
_LONGEST = 1024
_CHECK_SECONDS = 5.0
# What the types of events of a catalog say, as the filter of the page offers it.
_ACTIONS = ("created", "updated", "deleted", "deprecation")


async def show_live(page: ConsolePage) -> web.Response:
    """Events as they happen, by path and action; a script shows them."""
    page.demand(Permission.READ)
    given = {name: page.request.query.get(name, "")[:_LONGEST] for name in ("path", "action")}
    filters = []
    if given["path"]:
        filters.append({"prefix": {"subject": given["path"]}})
    if given["action"] in _ACTIONS:
        filters.append({"suffix": {"type": f".{given['action']}"}})
    query = urlencode([("filter", orjson.dumps(each).decode()) for each in filters])
    return await render(
        page,
        "live.html",
        given=given,
        actions=_ACTIONS,
        stream=f"{_STREAM}?{query}",
        command=_command(given["path"]),
    )


async def stream_live(request: web.Request) -> web.StreamResponse:
    """The stream of events as the reader of the page, until the session ends."""
    page = await open_page(request)
    sent = (
        {LAST_EVENT_ID: request.headers[LAST_EVENT_ID]} if LAST_EVENT_ID in request.headers else {}
    )
    async with asyncio.timeout(None) as bound:
        watching = asyncio.create_task(_watch(page, bound)) if page.has_session else None
        try:
            return await page.node.stream(READ_EVENTS.path, request.query_string, sent)
        finally:
            if watching is not None:
                watching.cancel()


async def _watch(page: ConsolePage, bound: asyncio.Timeout) -> None:
    """Cut a stream off once its session has ended; the stream does not count as a use."""
    while True:
        await asyncio.sleep(_CHECK_SECONDS)
        if not await has_session(page.request):
            # The timeout cancels the handler even while it waits for a browser that does not read.
            bound.reschedule(0)
            return


def _command(path: str) -> str:
    """The command that follows the events of the page."""
    return f"concord events --path {path}" if path else "concord events"


live_routes = (
    page_route("/console/live", show_live),
    bare_route("GET", _STREAM, stream_live, is_bounded=False, has_head=False),
)
