"""Where else registries are (core/spec.md, "xRegistry Discovery")."""

from __future__ import annotations

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.responses import json_response


async def get_registries(request: web.Request) -> web.Response:
    """This registry, and the others that its operator names."""
    context = request.app[CONTEXT]
    urls = [context.base_url(request), *context.settings.registries]
    return json_response({"registries": list(dict.fromkeys(urls))})
