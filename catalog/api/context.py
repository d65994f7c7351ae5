"""What every handler needs: the database, the model, the settings, and where clients find us."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiohttp import web

from catalog.api.cache import AnswerCache
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
    answers: AnswerCache = field(init=False)

    def __post_init__(self) -> None:
        self.answers = AnswerCache(self.database.signal)

    def base_url(self, request: web.Request) -> str:
        """The registry's root as this client knows it, without a trailing slash."""
        if self.settings.public_url is not None:
            return self.settings.public_url
        return f"{request.scheme}://{request.host}"


CONTEXT: web.AppKey[Context] = web.AppKey("context", Context)
