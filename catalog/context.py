"""What handlers and loops need: database, model, settings, and where clients find the node."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from catalog.config import Settings
from catalog.model.capabilities import Capabilities
from catalog.model.configuration import Configuration
from catalog.model.schema import Model
from catalog.store.database import Database


@dataclass(slots=True, kw_only=True)
class Context:
    """One node, as its handlers and loops see it.

    `public_base` is the URL that peers and subscribers reach this node at, without a
    trailing slash: the configured one, else the address that it is bound to. A handler takes
    `configuration` once: it is replaced as a whole when a client changes it.
    """

    database: Database
    configuration: Configuration
    settings: Settings
    public_base: str

    @property
    def model(self) -> Model:
        return self.configuration.model

    @property
    def capabilities(self) -> Capabilities:
        return self.configuration.capabilities

    def base_url(self, request: web.Request) -> str:
        """The registry's root as this client knows it, without a trailing slash."""
        if self.settings.public_url is not None:
            return self.settings.public_url
        return f"{request.scheme}://{request.host}"


CONTEXT: web.AppKey[Context] = web.AppKey("context", Context)
