"""The page of a collection that a request asks for."""

from __future__ import annotations

from aiohttp import web

from catalog.context import CONTEXT
from catalog.model.errors import BadRequest


def read_page(request: web.Request) -> tuple[str, int]:
    """The id after which a page begins, and the most entities that it may have.

    Raises:
        BadRequest: `limit` is not a number above 0, or the id is none.
    """
    most = request.app[CONTEXT].settings.page_size
    text = request.query.get("limit")
    limit = most if text is None else number_above_zero(request.path, text)
    return read_after(request), min(limit, most)


def read_after(request: web.Request) -> str:
    after = request.query.get("after", "")
    if "\x00" in after:
        raise BadRequest(request.path, error_detail='"after" is not from a page of this order')
    return after


def number_above_zero(subject: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 21 and int(text) > 0):
        raise BadRequest(subject, error_detail='"limit" needs to be an integer above 0')
    return int(text)
