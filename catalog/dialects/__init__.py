"""The published APIs besides the native one: other ways to read and write the same entities."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

routes: Iterable[web.AbstractRouteDef] = []
