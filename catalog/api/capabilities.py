"""What the registry can do, and what clients want it to do of that."""

from __future__ import annotations

from aiohttp import hdrs, web

from catalog.api.reconfigure import reconfigure
from catalog.context import CONTEXT
from catalog.http.body import read_object
from catalog.http.etag import strong_tag
from catalog.http.headers import interaction_headers
from catalog.http.preconditions import check_tag
from catalog.http.responses import json_response, to_json
from catalog.model.capabilities import describe


async def get_capabilities(request: web.Request) -> web.Response:
    return json_response(request.app[CONTEXT].capabilities.as_json())


async def put_capabilities(request: web.Request) -> web.Response:
    """All capabilities, or some of them whole (core/http.md, "PATCH and PUT /capabilities")."""
    check_tag(request, strong_tag(to_json(request.app[CONTEXT].capabilities.as_json())))
    given = await read_object(request)
    configuration, outcome = await reconfigure(
        request, capabilities=given, patch=request.method == hdrs.METH_PATCH
    )
    return json_response(
        configuration.capabilities.as_json(),
        headers=interaction_headers(outcome),
    )


async def get_offered(request: web.Request) -> web.Response:
    return json_response(describe(request.app[CONTEXT].offered))
