"""What handlers and loops need: database, model, settings, and where clients find the node."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from catalog.config import Settings
from catalog.model.schema import Model
from catalog.store.database import Database


@dataclass(slots=True, kw_only=True)
class Context:
    """One node, as its handlers and loops see it.

    `public_base` is the URL that peers and subscribers reach this node at, without a
    trailing slash: the configured one, else the address that it is bound to.
    """

    database: Database
    model: Model
    settings: Settings
    public_base: str

    def base_url(self, request: web.Request) -> str:
        """The registry's root as this client knows it, without a trailing slash."""
        if self.settings.public_url is not None:
            return self.settings.public_url
        return f"{request.scheme}://{request.host}"


CONTEXT: web.AppKey[Context] = web.AppKey("context", Context)
