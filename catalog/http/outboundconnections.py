"""Requests to other servers, at allowed addresses."""

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

from catalog.http.allowedaddresses import why_address_refused
from catalog.http.listener import most_outbound_connections
from catalog.load.limiter import Share
from catalog.model.connectionfailure import AddressRefused, names_hidden
from catalog.settings import Settings

AddressInfo: TypeAlias = tuple[
    socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int] | tuple[str, int, int, int]
]

_MOST_LOOKUPS = 32
_MOST_KNOWN = 4096
_MOST_ADDRESSES = 8
_ADDRESS_SECONDS = 5.0
_CONNECT_SECONDS = 10.0
_SECONDS = 10.0


class NameLookup:
    """Looks up host names in separate threads.

    A lookup cannot be cancelled, and lasts for many seconds if the name servers do not answer.
    Such lookups would occupy the threads of the event loop, which every user of names shares.
    Names without a previous lookup, and names that the last lookup did not find, may therefore
    occupy half of the lookups only. Callers that want the same name share a lookup.
    """

    def __init__(self) -> None:
        self._lookups = Share(_MOST_LOOKUPS)
        self._unknown = Share(_MOST_LOOKUPS // 2)
        self._running: dict[tuple[str, int], asyncio.Future[list[AddressInfo]]] = {}
        self._known: OrderedDict[tuple[str, int], None] = OrderedDict()

    async def addresses(self, host: str, port: int) -> list[AddressInfo]:
        """The addresses of a host for TCP; the caller bounds the time by cancelling.

        Raises:
            OSError: the name has no address.
        """
        key = host, port
        with contextlib.suppress(OSError, UnicodeError):
            # An address, in every notation, needs no lookup.
            return _addresses(host, port, flags=socket.AI_NUMERICHOST)
        found = self._running.get(key) or await self._begin(key)
        # A caller that is cancelled must not cancel the lookup of other callers.
        return await asyncio.shield(found)

    async def _begin(self, key: tuple[str, int]) -> asyncio.Future[list[AddressInfo]]:
        # The half comes first: a name that waits there takes no place of known names.
        shares = [self._lookups] if key in self._known else [self._unknown, self._lookups]
        with contextlib.ExitStack() as places:
            for share in shares:
                await share.take()
                places.callback(share.give_back)
            # Another caller may have begun the lookup while this caller waited.
            if key in self._running:
                return self._running[key]
            # A future, not a task of the caller: the lookup continues when the caller is cancelled.
            future = self._running[key] = asyncio.get_running_loop().create_future()
            held = places.pop_all()

        def end(_: object) -> None:
            del self._running[key]
            self._known.pop(key, None)
            if future.exception() is None:
                self._known[key] = None
                if len(self._known) > _MOST_KNOWN:
                    self._known.popitem(last=False)
            held.close()

        future.add_done_callback(end)
        # A daemon thread: the process does not wait for the lookup at the end.
        threading.Thread(target=_look_up, args=(key, future), daemon=True).start()
        return future


def _addresses(host: str, port: int, *, flags: int = 0) -> list[AddressInfo]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return cast("list[AddressInfo]", found)


def _look_up(key: tuple[str, int], future: asyncio.Future[list[AddressInfo]]) -> None:
    try:
        settle = functools.partial(future.set_result, _addresses(*key))
    # A label of more than 63 characters cannot be encoded.
    except (OSError, UnicodeError) as error:
        failure = socket.gaierror(socket.EAI_NONAME, f"{type(error).__name__}: {error}")
        settle = functools.partial(future.set_exception, failure)
    # The event loop may have been closed during the lookup.
    with contextlib.suppress(RuntimeError):
        future.get_loop().call_soon_threadsafe(settle)


async def connect_socket(host: str, port: int, settings: Settings) -> socket.socket:
    """Connect to the first allowed address of a host that answers.

    Every address is checked at the time of the connection, so a name that resolves differently
    later cannot bypass the check.

    Args:
        host: a name or an address.

    Raises:
        OSError: the name has no address, no address answers, or no address is allowed
            (`AddressRefused`).
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


class RedirectRefused(aiohttp.ClientError):
    """A response is a redirect, and sessions of a node do not follow redirects."""


def open_session(
    settings: Settings, *, total_seconds: float = 300.0, idle_seconds: float = 15.0
) -> aiohttp.ClientSession:
    """Open a client session for requests of the node to other servers.

    Every address is checked when a connection is opened, so a name that resolves differently the
    second time cannot bypass the check. The session follows no redirects, uses no proxy of the
    environment and keeps no cookies. The number of connections is bounded, which also bounds the
    resources that a server without answers can hold; further requests wait.

    Args:
        settings: the allowed addresses and the limits.
        total_seconds: the longest time of a request, body included, unless the request has a
            timeout of its own.
        idle_seconds: the time for which an idle connection is kept for the next request to the
            same server.
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
    """A resolver that hides which names have an address, where private addresses are refused."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._are_private_refused = not settings.allows_private_addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        with names_hidden(if_private_refused=self._are_private_refused):
            return await super().resolve(host, port, family)


class _Connector(aiohttp.TCPConnector):
    """A connector that bounds the number of idle connections.

    aiohttp bounds the connections in use, but keeps every idle connection for some seconds.
    aiohttp has no setting for a bound, so the class overrides a private method.
    """

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        idle = sum(map(len, self._conns.values()))
        should_close = should_close or idle >= self.limit // 2
        super()._release(key, protocol, should_close=should_close)


def open_allowed_socket(settings: Settings, address: Any) -> socket.socket:
    """An unconnected socket for an answer of getaddrinfo.

    Raises:
        AddressRefused: the node must not connect to the address.
    """
    family, kind, protocol, _, sockaddr = address
    if refusal := why_address_refused(sockaddr[0], settings):
        raise AddressRefused(f"{sockaddr[0]}: {refusal}")
    return socket.socket(family=family, type=kind, proto=protocol)


async def _refuse_redirect(*_: object) -> None:
    raise RedirectRefused("redirects are not followed")


async def probe_endpoint(
    host: str, port: int, settings: Settings, *, is_tls: bool
) -> datetime | None:
    """Connect to a server, and send at most a TLS handshake.

    Returns:
        the time at which the certificate of the server expires; `None` without TLS.

    Raises:
        OSError: the server cannot be reached, or only at an address that is not allowed, or the
            certificate is not valid (`ssl.SSLError`).
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
