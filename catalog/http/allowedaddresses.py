"""The addresses to which a node may send requests: addresses of sinks, sources and includes."""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from catalog.settings import Settings

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# IPv6 networks of addresses that end in an IPv4 address; the last is for IPv4-compatible addresses.
_ENDS_IN_IPV4 = (_NAT64, ipaddress.IPv6Network("64:ff9b:1::/48"), ipaddress.IPv6Network("::/96"))
_LOOPBACK = 1
_AUTHORITY = re.compile(r"([^:/?#]*://)([^/?#]*)(.*)", re.DOTALL)
# Link-local addresses, and further addresses at which cloud platforms give secrets to machines.
_PLATFORM: tuple[_Network, ...] = tuple(
    ipaddress.ip_network(network)
    for network in (
        *("169.254.0.0/16", "fe80::/10"),
        "100.100.100.200/32",  # Alibaba Cloud
        "168.63.129.16/32",  # Azure
        "192.0.0.192/32",  # Oracle Cloud
        "fd00:c1::a9fe:a9fe/128",
        "fd00:ec2::/32",  # Amazon
        "fd20:ce::254/128",  # Google
        "fd00:42::42/128",  # Scaleway
    )
)

NOT_PUBLIC = "its host is not a public address"
OF_PLATFORM = "its host is at an address that CONCORD_ALLOWED_ADDRESSES would have to name"


def why_address_refused(address: str, settings: Settings) -> str:
    """The reason why a node does not connect to an IP address, or "".

    Every IPv4 address within an IPv6 address (mapped, NAT64, 6to4, Teredo) has to be allowed as
    well.

    Raises:
        ValueError: the address is no IP address.
    """
    forms = _forms(address)
    allowed = _networks(settings.allowed_addresses)
    unnamed = [form for form in forms if not _is_within(form, allowed)]
    # Before the private addresses: a node with access to private networks must not give away the
    # secrets of the platform.
    if any(_is_within(form, _PLATFORM) for form in unnamed):
        return OF_PLATFORM
    if settings.allows_private_addresses or all(_is_public(form) for form in unnamed):
        return ""
    return NOT_PUBLIC


def split_hosts(url: str) -> list[str]:
    """The URLs of the hosts in a URL that names several hosts, separated by commas."""
    parts = _AUTHORITY.fullmatch(url)
    if parts is None:
        return [url]
    return [f"{parts[1]}{host}{parts[3]}" for host in parts[2].split(",")]


def why_refused(
    url: str,
    settings: Settings,
    *,
    schemes: Sequence[str] = ("http", "https"),
    most_hosts: int = 1,
) -> str:
    """The reason why a URL is refused as the target of later requests, or "".

    Names are not resolved: addresses are checked when a connection is opened.

    Args:
        schemes: the accepted schemes.
        most_hosts: the most hosts that the URL may name, separated by commas; each is checked.
    """
    urls = [url] if most_hosts == 1 else split_hosts(url)
    if len(urls) > most_hosts:
        return f"it must not name more than {most_hosts} hosts"
    refusals = (_why_host_refused(each, settings, schemes) for each in urls)
    return next(filter(None, refusals), "")


def _why_host_refused(url: str, settings: Settings, schemes: Sequence[str]) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "it is not a URL"
    if parts.scheme not in schemes or not host:
        return f"it needs to be an absolute {' or '.join(schemes)} URL"
    if "@" in parts.netloc:
        return "it must not carry credentials"
    if parts.fragment:
        return "it must not have a fragment"
    # The only names that need no lookup; the addresses of other names are checked later.
    if host == "localhost" or host.endswith(".localhost"):
        host = "127.0.0.1"
    try:
        return why_address_refused(host, settings)
    except ValueError:
        return ""


def why_endpoint_refused(url: str, settings: Settings) -> str:
    """The reason why a URL must not be sent a token, or "".

    Without TLS, a token could be read on the way (RFC 6749 10.4), except on the same machine.
    """
    refusal = why_refused(url, settings)
    if refusal or urlsplit(url).scheme == "https" or _is_loopback(url):
        return refusal
    return "it needs to be an https URL, since it is sent a token"


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return all(form.is_loopback for form in _forms(host))
    except ValueError:
        return False


def _forms(address: str) -> list[_Address]:
    """An address and the IPv4 addresses inside; for a mapped address, the IPv4 address alone."""
    parsed = ipaddress.ip_address(address)
    if not isinstance(parsed, ipaddress.IPv6Address):
        return [parsed]
    if parsed.ipv4_mapped is not None:
        return [parsed.ipv4_mapped]
    found = [parsed.sixtofour, *(parsed.teredo or ())]
    # The addresses :: and ::1 lie in the network of IPv4-compatible addresses, but contain none.
    if _is_within(parsed, _ENDS_IN_IPV4) and int(parsed) > _LOOPBACK:
        found.append(ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF))
    return [parsed, *(each for each in found if each is not None)]


def _is_public(address: _Address) -> bool:
    return (
        address.is_global
        and not address.is_multicast
        and not (isinstance(address, ipaddress.IPv6Address) and address.is_site_local)
        and (address in _NAT64 or not address.is_reserved)
        and not _is_within(address, _PLATFORM)
    )


def _is_within(address: _Address, networks: Sequence[_Network]) -> bool:
    return any(address in network for network in networks)


@functools.lru_cache(maxsize=16)
def _networks(texts: tuple[str, ...]) -> tuple[_Network, ...]:
    return tuple(map(ipaddress.ip_network, texts))
