"""HTTP sessions for requests to other servers, guarded against private networks."""

from __future__ import annotations

import functools
import socket
from typing import Any

import aiohttp
from aiohttp.abc import ResolveResult

from catalog.config import Settings
from catalog.http.descriptors import most_outbound_connections
from catalog.http.outboundaddress import why_address_refused
from catalog.model.connectionfailure import AddressRefused, names_hidden

_CONNECT_SECONDS = 10.0


class RedirectRefused(aiohttp.ClientError):
    """A response is a redirect, which sessions of a node do not follow."""


def open_session(
    settings: Settings, *, total_seconds: float = 300.0, idle_seconds: float = 15.0
) -> aiohttp.ClientSession:
    """Open a client session for requests of this node to other servers.

    Each address is checked when a connection is opened, so a name that resolves differently
    the second time is no way around the check. The session follows no redirects, uses no proxy
    of the environment and keeps no cookies. Its connections are bounded, and so is what a server
    that never answers can hold: requests beyond them wait.

    Args:
        settings: say which addresses are allowed.
        total_seconds: the longest time of a request, body included, unless the request has a
            timeout of its own.
        idle_seconds: how long a connection is kept for the next request to the same server.
    """
    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_refuse_redirect)
    connector = _Connector(
        limit=most_outbound_connections(settings),
        keepalive_timeout=idle_seconds,
        socket_factory=functools.partial(open_allowed_socket, settings),
        resolver=_Resolver(settings),
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(
            total=total_seconds, sock_connect=min(total_seconds, _CONNECT_SECONDS)
        ),
        trace_configs=[trace],
        headers={"User-Agent": "concord"},
    )


class _Resolver(aiohttp.ThreadedResolver):
    """A resolver that tells which names have an address only where all may be connected to."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._are_private_refused = not settings.allows_private_addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        with names_hidden(if_private_refused=self._are_private_refused):
            return await super().resolve(host, port, family)


class _Connector(aiohttp.TCPConnector):
    """A connector that keeps few connections open that are idle.

    aiohttp bounds those in use, and keeps all others for some seconds. It has no setting for
    this, so this class replaces a private method.
    """

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        idle = sum(map(len, self._conns.values()))
        should_close = should_close or idle >= self.limit // 2
        super()._release(key, protocol, should_close=should_close)


def open_allowed_socket(settings: Settings, address: Any) -> socket.socket:
    """A socket for one of the answers of getaddrinfo, not connected yet.

    Raises:
        AddressRefused: the node must not connect to that address.
    """
    family, kind, protocol, _, sockaddr = address
    if refusal := why_address_refused(sockaddr[0], settings):
        raise AddressRefused(f"{sockaddr[0]}: {refusal}")
    return socket.socket(family=family, type=kind, proto=protocol)


async def _refuse_redirect(*_: object) -> None:
    raise RedirectRefused("redirects are not followed")
