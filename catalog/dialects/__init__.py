"""The published APIs besides the native one: other ways to read and write the same entities."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from catalog.dialects.messagecatalog.routes import routes as messagecatalog

routes: Iterable[web.AbstractRouteDef] = [
    *messagecatalog,
]
