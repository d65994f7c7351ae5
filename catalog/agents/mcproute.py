"""The route `/mcp`: tools for agents by the Model Context Protocol, as streamable HTTP.

Each request has a server of its own, with the tools of the caller of that request. There are no
sessions, so that nothing of a caller is kept, and no agent can be given the tools of another one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from aiohttp import web

from catalog import DISTRIBUTION, install_command
from catalog.agents import lacks_library
from catalog.client import Client
from catalog.context import CONTEXT
from catalog.http.body import read_body, read_json
from catalog.http.inprocess import InProcessCalls
from catalog.http.route import Route
from catalog.model.errors import NotAvailable
from catalog.model.roles import Permission
from catalog.operations.operation import Content, Operation

_LARGEST_REQUEST = 1024 * 1024
_MESSAGE = {"application/json": {"type": "object"}}

POST_MCP = Operation(
    method="POST",
    path="/mcp",
    needs=Permission.READ,
    is_kept=False,
    content=Content(taken=_MESSAGE, answered=_MESSAGE),
    outcomes={202: "The message was a notification, which has no answer"},
    description="One message of JSON-RPC 2.0, as the streamable HTTP of the Model Context Protocol "
    "(modelcontextprotocol.io) defines. The tools see what the caller may see, and write nothing.",
)
# The headers of the connection, of which the library needs nothing: the tools have the rights of
# the caller, and the body is inflated.
_LEFT_OUT = frozenset({"authorization", "cookie", "content-encoding", "content-length"})


class _CallerClient(InProcessCalls, Client):
    """A client in process, with the rights of the caller of a request."""


async def post_mcp(request: web.Request) -> web.Response:
    """Give an agent tools to search, read, compare and validate the catalog.

    Raises:
        NotAvailable: the node is set not to, or lacks the library.
        RequestTooLarge, ParsingData, UnsupportedMediaType: the body is no JSON of bounded size and
            depth.
    """
    if not request[CONTEXT].settings.mcp:
        raise NotAvailable(request.path, detail="The setting CONCORD_MCP switches it on.")
    try:
        from mcp.server.transport_security import TransportSecuritySettings

        from catalog.agents.tools import server_of
    except ModuleNotFoundError as error:
        if not lacks_library(error):
            raise
        advice = f"The library of the protocol is missing: {install_command('mcp')}"
        raise NotAvailable(request.path, detail=advice) from error
    body = await read_body(request, most=_LARGEST_REQUEST)
    await read_json(request)
    _keep_log_plain()
    server = server_of(_CallerClient(request), version(DISTRIBUTION))
    server.streamable_http_app(
        json_response=True,
        stateless_http=True,
        max_request_body_size=_LARGEST_REQUEST,
        # The front door has checked the host and the origin by the settings of the node.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    exchange = _Exchange(request, body)
    async with server.session_manager.run():
        await server.session_manager.handle_request(exchange.scope, exchange.receive, exchange.send)
    return exchange.response


def _keep_log_plain() -> None:
    """Keep the library from taking over the log, and from logging each malformed message."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    logging.getLogger("mcp").setLevel(logging.CRITICAL)


class _Exchange:
    """A request and its answer in the form of ASGI (asgi.readthedocs.io, "HTTP")."""

    def __init__(self, request: web.Request, body: bytes) -> None:
        self.scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": request.scheme,
            "method": request.method,
            "path": request.path,
            "raw_path": request.rel_url.raw_path.encode(),
            "query_string": b"",
            "headers": [
                (name.lower().encode(), value.encode("latin-1", "replace"))
                for name, value in request.headers.items()
                if name.lower() not in _LEFT_OUT
            ],
        }
        self._body: bytes | None = body
        self._status = int(HTTPStatus.INTERNAL_SERVER_ERROR)
        self._headers: dict[str, str] = {}
        self._answer = b""

    @property
    def response(self) -> web.Response:
        """The answer, once the library has given the answer."""
        return web.Response(status=self._status, headers=self._headers, body=self._answer)

    async def receive(self) -> dict[str, Any]:
        if self._body is None:
            # No disconnect is told: a request that is broken off ends with its time limit.
            await asyncio.Event().wait()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self._answer += message.get("body", b"")


routes: Sequence[Route] = (Route(POST_MCP, post_mcp),)
