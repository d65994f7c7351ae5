"""Rows that are numbered within a subscription: the number in a path, pages that end at one."""

from __future__ import annotations

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.flags import read_page
from catalog.model.errors import BadRequest, NotFound

LAST_NUMBER = 2**63 - 1


def number_in_path(request: web.Request) -> int:
    """The `number` that a path names.

    Raises:
        NotFound: there can be none.
    """
    number = _number(request.match_info["number"])
    if number is None:
        raise NotFound(request.path)
    return number


def read_numbered_page(request: web.Request, *, first: int) -> tuple[int, int]:
    """The number after which a page begins, and its most items.

    Args:
        first: the number after which the first page begins.

    Raises:
        BadRequest
    """
    after, limit = read_page(request)
    number = _number(after) if after else first
    if number is None:
        raise BadRequest(request.path, error_detail='"after" is not from a page of this order')
    return number, limit


def next_page(request: web.Request, limit: int, after: str) -> dict[str, str]:
    """The header that names the page after this one, which ends at `after`."""
    here = f"{request.app[CONTEXT].base_url(request)}{request.rel_url.raw_path}"
    return {"Link": f"<{here}?limit={limit}&after={after}>;rel=next"}


def _number(text: str) -> int | None:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        return None
    number = int(text)
    return number if number <= LAST_NUMBER else None
