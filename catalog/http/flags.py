"""The flags of a request, of which those that are turned off are ignored."""

from __future__ import annotations

from aiohttp import web

from catalog.model.capabilities import Capabilities
from catalog.model.errors import BadFlag


class Flags:
    """The flags of one request.

    Source: core/http.md, "Request Flags / Query Parameters" and "Adherence to HTTP Standards".
    """

    def __init__(self, request: web.Request, capabilities: Capabilities) -> None:
        self.path = request.path
        self.capabilities = capabilities
        self._query = request.query

    def values(self, flag: str) -> list[str]:
        """All values of a flag that may have several."""
        return self._query.getall(flag, []) if flag in self.capabilities.flags else []

    def value(self, flag: str) -> str | None:
        """The value of a flag that has one.

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
