"""Finds the address of the client that sent a request."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from aiohttp import web

from catalog.context import CONTEXT


def client_address(request: web.Request) -> str:
    """The address of the client, or of the last proxy before it that is not trusted.

    Proxies append to `X-Forwarded-For` whom they were called by, so its last address that is not
    a trusted proxy's is the last one that nobody could invent.
    """
    sender = request.remote or ""
    trusted = request.app[CONTEXT].settings.trusted_proxies
    if not trusted:
        return sender
    hops = ",".join(request.headers.getall("X-Forwarded-For", [])).split(",")
    while is_within(sender, trusted) and hops and (before := _normal(hops.pop())):
        sender = before
    return sender


@functools.lru_cache(maxsize=1024)
def is_within(address: str, networks: Sequence[str]) -> bool:
    """Whether an address belongs to one of the networks."""
    parsed = _parsed(address)
    return parsed is not None and any(parsed in ip_network(network) for network in networks)


def _normal(address: str) -> str:
    return str(_parsed(address) or "")


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(address.strip())
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


@functools.lru_cache(maxsize=1024)
def source_of(address: str) -> str:
    """The IPv4 address, or the network of 64 bits of an IPv6 address: what one client may have."""
    parsed = _parsed(address.partition("%")[0])
    if isinstance(parsed, IPv6Address):
        return str(IPv6Network((parsed, 64), strict=False))
    return address if parsed is None else str(parsed)
