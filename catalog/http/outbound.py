"""Requests to other servers, at addresses that are allowed."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import socket
import ssl
import threading
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

import aiohttp
from aiohttp.abc import ResolveResult

from catalog.config import Settings
from catalog.http.listener import most_outbound_connections
from catalog.http.outboundaddress import why_address_refused
from catalog.load.limiter import Share
from catalog.model.connectionfailure import AddressRefused, names_hidden

AddressInfo: TypeAlias = tuple[
    socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int] | tuple[str, int, int, int]
]

_MOST_LOOKUPS = 32
_MOST_KNOWN = 4096


class NameLookup:
    """Looks up names in threads of its own.

    A lookup cannot be cancelled, and lasts for many seconds if the servers of the name do not
    answer. Such lookups would take all threads of the event loop, which every user of names shares.
    Here, names that were not found last, or never looked up, may take half of the lookups. Callers
    that want the same name share a lookup.
    """

    def __init__(self) -> None:
        self._lookups = Share(_MOST_LOOKUPS)
        self._running: dict[tuple[str, int], asyncio.Future[list[AddressInfo]]] = {}
        self._known: OrderedDict[tuple[str, int], None] = OrderedDict()

    async def addresses(self, host: str, port: int) -> list[AddressInfo]:
        """The addresses of a host for TCP; the caller bounds the time by cancelling.

        Raises:
            OSError: the name has no address.
        """
        key = host, port
        with contextlib.suppress(OSError, UnicodeError):
            # An address needs no lookup, whatever way it is written.
            return _addresses(host, port, flags=socket.AI_NUMERICHOST)
        found = self._running.get(key) or await self._begin(key)
        return await asyncio.shield(found)

    async def _begin(self, key: tuple[str, int]) -> asyncio.Future[list[AddressInfo]]:
        is_unknown = key not in self._known
        await self._lookups.take(within_half=is_unknown)
        if key in self._running:
            self._lookups.give_back(within_half=is_unknown)
            return self._running[key]
        # The lookup goes on when the one who began it has been cancelled.
        future = self._running[key] = asyncio.get_running_loop().create_future()

        def end(_: object) -> None:
            del self._running[key]
            self._remember(key, has_address=future.exception() is None)
            self._lookups.give_back(within_half=is_unknown)

        future.add_done_callback(end)
        # A daemon: the process does not wait for it when it ends.
        threading.Thread(target=_look_up, args=(key, future), daemon=True).start()
        return future

    def _remember(self, key: tuple[str, int], *, has_address: bool) -> None:
        self._known.pop(key, None)
        if has_address:
            self._known[key] = None
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)


def _addresses(host: str, port: int, *, flags: int = 0) -> list[AddressInfo]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return cast("list[AddressInfo]", found)


def _look_up(key: tuple[str, int], future: asyncio.Future[list[AddressInfo]]) -> None:
    found: list[AddressInfo] = []
    failure: OSError | None = None
    try:
        found = _addresses(*key)
    # A part of more than 63 characters cannot be encoded.
    except (OSError, UnicodeError) as error:
        failure = socket.gaierror(socket.EAI_NONAME, f"{type(error).__name__}: {error}")
    # The loop may have been closed meanwhile.
    with contextlib.suppress(RuntimeError):
        future.get_loop().call_soon_threadsafe(_settle, future, found, failure)


def _settle(
    future: asyncio.Future[list[AddressInfo]],
    found: list[AddressInfo],
    failure: OSError | None,
) -> None:
    if failure is None:
        future.set_result(found)
    else:
        future.set_exception(failure)


_MOST_ADDRESSES = 8
_ADDRESS_SECONDS = 5.0


async def connect_socket(host: str, port: int, settings: Settings) -> socket.socket:
    """Connect to the first address of a host that answers, of those that are allowed.

    Each address is checked when it is connected to, so a name that resolves differently later is
    no way around the check.

    Args:
        host: a name or an address.
        port: the port.
        settings: say which addresses are allowed.

    Raises:
        OSError: the name has no address, or none answers, or none is allowed (`AddressRefused`).
    """
    loop = asyncio.get_running_loop()
    with names_hidden(if_private_refused=not settings.allows_private_addresses):
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure = OSError(errno.EHOSTUNREACH, f"{host} has no address")
    for family, kind, protocol, _, address in found[:_MOST_ADDRESSES]:
        if refusal := why_address_refused(str(address[0]), settings):
            failure = AddressRefused(f"{address[0]}: {refusal}")
            continue
        connecting = socket.socket(family, kind, protocol)
        try:
            connecting.setblocking(False)
            async with asyncio.timeout(_ADDRESS_SECONDS):
                await loop.sock_connect(connecting, address)
        except OSError as error:
            connecting.close()
            failure = error
        except BaseException:
            connecting.close()
            raise
        else:
            return connecting
    raise failure


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


_SECONDS = 10.0


async def probe_endpoint(
    host: str, port: int, settings: Settings, *, is_tls: bool
) -> datetime | None:
    """Connect to a server, and send it nothing but a TLS handshake; the end of its certificate.

    Raises:
        OSError: it cannot be reached, or only at an address that is not allowed, or its certificate
            is not valid (`ssl.SSLError`).
    """
    async with asyncio.timeout(_SECONDS):
        connected = await connect_socket(host, port, settings)
        if not is_tls:
            connected.close()
            return None
        _, writer = await asyncio.open_connection(
            sock=connected, ssl=ssl.create_default_context(), server_hostname=host
        )
        try:
            certificate = writer.get_extra_info("peercert") or {}
            end = ssl.cert_time_to_seconds(certificate["notAfter"])
            return datetime.fromtimestamp(end, UTC)
        finally:
            writer.transport.abort()
