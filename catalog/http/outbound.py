"""HTTP sessions for requests to other servers, guarded against private networks."""

from __future__ import annotations

import errno
import ipaddress
import socket
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from catalog.client.errors import AddressRefused
from catalog.config import Settings

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_CONNECT_SECONDS = 10.0
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# A cloud platform's own services are at this address although it is a public one.
_METADATA = frozenset({ipaddress.IPv4Address("168.63.129.16")})


class RedirectRefused(aiohttp.ClientError):
    """A response is a redirect, which sessions of a node do not follow."""


def open_session(settings: Settings, *, total_seconds: float = 300.0) -> aiohttp.ClientSession:
    """Open a client session for requests of this node to other servers.

    Each address is checked when a connection is opened, so a name that resolves differently
    the second time is no way around the check. The session follows no redirects, uses no proxy
    of the environment and keeps no cookies. The number of connections is not bounded: each
    caller has one request in flight, and none may wait for another's.

    Args:
        settings: say whether private addresses are allowed.
        total_seconds: the longest time of a request, body included, unless the request has a
            timeout of its own.
    """
    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_refuse_redirect)
    connector = aiohttp.TCPConnector(
        limit=0, socket_factory=None if settings.allows_private_addresses else _open_public_socket
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


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public Internet.

    An IPv6 address that contains an IPv4 address (mapped, NAT64, 6to4, Teredo) is public if
    both are.
    """
    parsed = ipaddress.ip_address(address)
    return all(_is_public(each) for each in (parsed, *_embedded(parsed)))


def why_refused(url: str, *, allows_private_addresses: bool) -> str | None:
    """The reason why requests must not be sent to a URL later, or `None`.

    Names are not resolved: addresses are checked when a connection is opened.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "it is not a URL"
    if parts.scheme not in ("http", "https") or not host:
        return "it needs to be an absolute http or https URL"
    if "@" in parts.netloc:
        return "it must not carry credentials"
    if parts.fragment:
        return "it must not have a fragment"
    if not allows_private_addresses and _names_private_host(host):
        return "its host is not a public address"
    return None


def _is_public(address: _Address) -> bool:
    return (
        address.is_global
        and not address.is_multicast
        and not (isinstance(address, ipaddress.IPv6Address) and address.is_site_local)
        and address not in _METADATA
        and (address in _NAT64 or not address.is_reserved)
    )


def _embedded(address: _Address) -> list[ipaddress.IPv4Address]:
    if not isinstance(address, ipaddress.IPv6Address):
        return []
    if address in _NAT64:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    return [each for each in found if each is not None]


def _names_private_host(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return not is_public(host)
    except ValueError:
        return False


def _open_public_socket(address: Any) -> socket.socket:
    family, kind, protocol, _, sockaddr = address
    if not is_public(sockaddr[0]):
        raise AddressRefused(errno.EACCES, f"{sockaddr[0]} is not a public address")
    return socket.socket(family=family, type=kind, proto=protocol)


async def _refuse_redirect(*_: object) -> None:
    raise RedirectRefused("redirects are not followed")
