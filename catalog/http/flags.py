"""Query parameters: the flags of a request, and the requested page."""

from __future__ import annotations

from aiohttp import hdrs, web

from catalog.context import CONTEXT
from catalog.model.capabilities import Capabilities
from catalog.model.errors import BadFlag, BadRequest


class Flags:
    """The flags of a request.

    Source: core/http.md, "Request Flags / Query Parameters" and "Adherence to HTTP Standards".
    """

    def __init__(self, request: web.Request, capabilities: Capabilities) -> None:
        self.path = request.path
        self.capabilities = capabilities
        self._query = request.query

    def values(self, flag: str) -> list[str]:
        """The values of a flag; empty if the capabilities do not enable the flag."""
        return self._query.getall(flag, []) if flag in self.capabilities.flags else []

    def value(self, flag: str) -> str | None:
        """The value of a flag that has a single value.

        Raises:
            BadFlag: the flag has several values.
        """
        values = self.values(flag)
        if len(values) > 1:
            raise BadFlag(self.path, flag=flag, detail="It can be given once only.")
        return values[0] if values else None

    def is_set(self, flag: str) -> bool:
        """Whether a flag without a value is given.

        Raises:
            BadFlag: the flag has a value.
        """
        values = self.values(flag)
        if any(values):
            raise BadFlag(self.path, flag=flag, detail="It takes no value.")
        return bool(values)


def read_page(request: web.Request) -> tuple[str, int]:
    """The id after which a page begins, and the most entities of the page.

    Raises:
        BadRequest: `limit` is not a number above 0.
    """
    text = request.query.get("limit")
    limit = None if text is None else number_above_zero(request.path, text)
    return request.query.get("after", ""), page_limit(request, limit)


def page_limit(request: web.Request, wanted: int | None) -> int:
    """The most items of a page: the number that the client wants, up to the node's page size."""
    most = request[CONTEXT].settings.page_size
    return most if wanted is None else min(wanted, most)


def next_page(request: web.Request, **places: object) -> dict[str, str]:
    """The header that leads to the next page: the URL of the request, from other places on."""
    url = request.rel_url.update_query({name: str(value) for name, value in places.items()})
    return {hdrs.LINK: f"<{request[CONTEXT].base_url(request)}{url}>;rel=next"}


def number_above_zero(subject: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 21 and int(text) > 0):
        raise BadRequest(subject, error_detail='"limit" needs to be an integer above 0')
    return int(text)
