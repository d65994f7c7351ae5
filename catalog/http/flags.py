"""Query parameters: the flags of a request, and the page that it asks for."""

from __future__ import annotations

from aiohttp import web

from catalog.context import CONTEXT
from catalog.model.capabilities import Capabilities
from catalog.model.errors import BadFlag, BadRequest


class Flags:
    """The flags of one request.

    Source: core/http.md, "Request Flags / Query Parameters" and "Adherence to HTTP Standards".
    """

    def __init__(self, request: web.Request, capabilities: Capabilities) -> None:
        self.path = request.path
        self.capabilities = capabilities
        self._query = request.query

    def values(self, flag: str) -> list[str]:
        """All values of a flag; none if the flag is off."""
        return self._query.getall(flag, []) if flag in self.capabilities.flags else []

    def value(self, flag: str) -> str | None:
        """The value of a flag that has one value.

        Raises:
            BadFlag: there are several.
        """
        values = self.values(flag)
        if len(values) > 1:
            raise BadFlag(self.path, flag=flag, detail="It can be given once only.")
        return values[0] if values else None

    def is_set(self, flag: str) -> bool:
        """Whether a flag without a value is given.

        Raises:
            BadFlag: it has a value.
        """
        values = self.values(flag)
        if any(values):
            raise BadFlag(self.path, flag=flag, detail="It takes no value.")
        return bool(values)


def read_page(request: web.Request) -> tuple[str, int]:
    """The id after which a page begins, and its most entities.

    Raises:
        BadRequest: `limit` is not a number above 0.
    """
    text = request.query.get("limit")
    limit = None if text is None else number_above_zero(request.path, text)
    return request.query.get("after", ""), page_limit(request, limit)


def page_limit(request: web.Request, wanted: int | None) -> int:
    """The most items of a page: as many as the client wants, as far as the node lets it."""
    most = request[CONTEXT].settings.page_size
    return most if wanted is None else min(wanted, most)


def number_above_zero(subject: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 21 and int(text) > 0):
        raise BadRequest(subject, error_detail='"limit" needs to be an integer above 0')
    return int(text)
