"""Checks the host that a request names, so that no page reads a node by a name of its own.

A page can have its own name lead to the address of a node (DNS rebinding). Its browser then takes
the node's answers for the page's own, and tells the name in the header Host.
"""

from __future__ import annotations

import functools
import ipaddress
import re

from aiohttp import HttpVersion11, hdrs, web

from catalog.context import BASE_URL, Context
from catalog.model.concorderrors import UnknownHost
from catalog.model.errors import BadRequest

_LONGEST = 300
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._~-]{1,253}))(?::([0-9]{1,5}))?", re.ASCII)
_HIGHEST_PORT = 65535
_ADVICE = (
    "List the name in CONCORD_HOSTS, or make it the one of CONCORD_PUBLIC_URL: also the name by "
    "which other containers reach this node."
)


def check_host(request: web.Request, context: Context) -> None:
    """Check the host of a request, and note the registry's URL as this client knows it.

    A node answers to `Settings.own_names`, to loopback names and to every IP address: a page
    cannot have an address lead elsewhere. The port is not compared, since ports are mapped.
    Requests of HTTP/1.0 need no host.

    Raises:
        BadRequest: the host is malformed, missing, or another one than that of the target.
        UnknownHost: it is not one of this node.
    """
    settings = context.settings
    host = request.headers.get(hdrs.HOST)
    if host is None and request.version < HttpVersion11:
        return
    if host is None or len(host) > _LONGEST or (name := _name_in(host)) is None:
        raise BadRequest(request.path, error_detail="the header Host is missing or malformed")
    # RFC 9112, 3.2.2: a target that is a whole URL has the same host.
    if host != request.host and name != request.host:
        raise BadRequest(request.path, error_detail="the header Host is not that of the target")
    if not (_is_own(name, settings.own_names) or "*" in settings.own_names):
        raise UnknownHost(request.path, host=name, detail=_ADVICE)
    request[BASE_URL] = settings.public_url or f"{request.scheme}://{host}"


@functools.lru_cache(maxsize=1024)
def _name_in(host: str) -> str | None:
    """The name or address in a host, without its port; `None` if it is malformed."""
    found = _HOST.fullmatch(host)
    if found is None or int(found[3] or 0) > _HIGHEST_PORT:
        return None
    if found[1] is None:
        return found[2].lower()
    try:
        return str(ipaddress.IPv6Address(found[1]))
    except ValueError:
        return None


@functools.lru_cache(maxsize=1024)
def _is_own(name: str, own_names: frozenset[str]) -> bool:
    name = name.removesuffix(".")
    if name in own_names or name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
