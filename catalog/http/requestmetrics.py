"""Counts requests by route, method and status, with the seconds that each took."""

from __future__ import annotations

import asyncio

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from catalog.context import CONTEXT
from catalog.http.problems import PROBLEM

_METHODS = hdrs.METH_ALL - {"*"}
_BROKEN_OFF = "broken off"


@web.middleware
async def measuring_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Measure a request until its answer was sent, or was made where it is sent afterwards."""
    loop = asyncio.get_running_loop()
    metrics = request.app[CONTEXT].metrics
    began, status = loop.time(), _BROKEN_OFF
    try:
        response = await handler(request)
        status = str(response.status)
        if PROBLEM in response:
            metrics.problems.labels(response[PROBLEM]).inc()
        return response
    finally:
        metrics.observe_request(route_of(request), method_of(request), status, loop.time() - began)


def method_of(request: web.Request) -> str:
    """The method, if it is one of HTTP's: clients may invent others."""
    return request.method if request.method in _METHODS else "other"


def route_of(request: web.Request) -> str:
    """The route as the routing table has it: paths are as many as clients invent."""
    resource = request.match_info.route.resource
    return "none" if resource is None else resource.canonical
