"""Documents without a media type are sent without one: aiohttp would make one up."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import hdrs, web

# No browser must take such a content for a page; nothing else is sent with this header.
_MARK = "X-Content-Type-Options"
UNTYPED: Mapping[str, str] = {_MARK: "nosniff"}


async def leave_untyped(request: web.Request, response: web.StreamResponse) -> None:
    """Take away the media type of what has the headers of `UNTYPED`."""
    if _MARK in response.headers:
        response.headers.popall(hdrs.CONTENT_TYPE, None)
