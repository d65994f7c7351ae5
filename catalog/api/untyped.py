"""Documents without a media type are sent without one: aiohttp would make one up."""

from __future__ import annotations

from aiohttp import hdrs, web

_IS_UNTYPED = web.ResponseKey("is_untyped", bool)


def note_untyped(response: web.StreamResponse) -> None:
    """Remember that a response has no `Content-Type`, as long as that is to be seen."""
    if hdrs.CONTENT_TYPE not in response.headers:
        response[_IS_UNTYPED] = True


async def leave_untyped(request: web.Request, response: web.StreamResponse) -> None:
    """Take away what aiohttp added; a browser must not take the content for a page either."""
    if response.get(_IS_UNTYPED) and response.headers.popall(hdrs.CONTENT_TYPE, None):
        response.headers["X-Content-Type-Options"] = "nosniff"
