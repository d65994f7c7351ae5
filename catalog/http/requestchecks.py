"""Refuses requests by the host, by characters of the path and headers, and by the origin.

A web page can let its own host name resolve to the address of a node (DNS rebinding). The browser
then takes the answers of the node for answers of the page's own server, but sends the name in the
header Host.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from aiohttp import HttpVersion11, hdrs, web

from catalog.context import BASE_URL, Context
from catalog.model.concorderrors import OriginRefused, UnknownHost
from catalog.model.errors import BadRequest, HeaderError, MalformedId, ParsingData
from catalog.operations.operation import READING

_LONGEST = 300
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._~-]{1,253}))(?::([0-9]{1,5}))?", re.ASCII)
_HIGHEST_PORT = 65535
_OWN_HOSTS = (
    "List the name in CONCORD_HOSTS, or make it the one of CONCORD_PUBLIC_URL: also the name by "
    "which other containers reach this node."
)
_ENCODED_NUL = "%00"
_ESCAPED_NUL = b"\\u0000"
_FAULT = "it holds the character U+0000, or bytes that are not UTF-8"
_READING = frozenset({"GET", "HEAD"})
SHOWN_ONLY: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    # `sandbox` without permissions: no scripts, no forms, a separate origin. `default-src` does
    # not cover framing, which `frame-ancestors` forbids.
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    # For content that pages load without CORS (`<script>`, `<img>`).
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
TLS_ONLY = ("Strict-Transport-Security", "max-age=31536000")
_EXPOSED = frozenset(
    {"etag", "link", "location", "content-location", "content-disposition"}
    | {"concord-cursor", "concord-notes", "concord-position"}
    | {"ratelimit", "ratelimit-policy", "retry-after"}
)
_PREFIX = "xregistry-"
_REMEMBERED_SECONDS = 600
_SITE = "Sec-Fetch-Site"
# The sites of requests by a page of the node, and of requests by a user.
_OWN_SITES = frozenset({"same-origin", "none"})
_OWN_ORIGINS = (
    "CONCORD_CORS_ORIGINS lists the origins whose pages may, CONCORD_PUBLIC_URL this node's."
)


def check_host(request: web.Request, context: Context) -> None:
    """Check the host of a request, and note the registry's URL as the client knows the URL.

    A node answers to `Settings.own_names`, to loopback names and to every IP address: a page
    cannot redirect an address. The port is not compared, because ports may be mapped. Requests of
    HTTP/1.0 need no host.

    Raises:
        BadRequest: the host is malformed or missing, or differs from the host of the target.
        UnknownHost: the host is not a name of the node.
    """
    settings = context.settings
    host = request.headers.get(hdrs.HOST)
    if host is None and request.version < HttpVersion11:
        return
    if host is None or len(host) > _LONGEST or (name := _name_in(host)) is None:
        raise BadRequest(request.path, error_detail="the header Host is missing or malformed")
    # RFC 9112, 3.2.2: a target in absolute form has the same host.
    if host != request.host and name != request.host:
        raise BadRequest(request.path, error_detail="the header Host is not that of the target")
    if not (_is_own(name, settings.own_names) or "*" in settings.own_names):
        raise UnknownHost(request.path, host=name, detail=_OWN_HOSTS)
    request[BASE_URL] = settings.public_url or f"{request.scheme}://{host}"


@functools.lru_cache(maxsize=1024)
def _name_in(host: str) -> str | None:
    """The name or address in a host, without the port; `None` if the host is malformed."""
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


def check_characters(request: web.Request) -> None:
    """Check the target of a request, and the headers of requests other than GET and HEAD.

    Raises:
        MalformedId: the path has U+0000, or bytes that are not UTF-8.
        BadRequest: the query has U+0000, or bytes that are not UTF-8.
        HeaderError: a header is not UTF-8.
    """
    url = request.rel_url
    if not _is_text(url.raw_path):
        shown = unquote(url.raw_path.encode(errors="replace").decode())
        raise MalformedId(shown, id=shown.rpartition("/")[2], error_detail=_FAULT)
    if not _is_text(url.raw_query_string):
        raise BadRequest(request.path, error_detail=f"the query cannot be used: {_FAULT}")
    if request.method not in _READING:
        for name, value in request.headers.items():
            if not (value.isascii() or _is_encodable(value)):
                raise HeaderError(request.path, name=name, error_detail="it is not UTF-8")


def check_json_texts(value: Any, source: bytes) -> None:
    """Refuse a JSON value with U+0000 in a text or name, which PostgreSQL cannot store.

    Args:
        value: the parsed value.
        source: the text of the value.

    Raises:
        ParsingData: a text or name has U+0000.
    """
    # JSON has U+0000 as an escape only: a search of the source saves most walks.
    if _ESCAPED_NUL in source and _holds_nul(value):
        raise ParsingData(error_detail="a text in it holds the character U+0000")


def _is_text(encoded: str) -> bool:
    return _ENCODED_NUL not in encoded and (encoded.isascii() or _is_encodable(encoded))


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _holds_nul(value: Any) -> bool:
    """Whether a text or name in a value has U+0000; the depth of the value is bounded."""
    match value:
        case str():
            return "\0" in value
        case dict():
            return any("\0" in name or _holds_nul(inner) for name, inner in value.items())
        case list():
            return any(map(_holds_nul, value))
    return False


def check_origin(request: web.Request, context: Context) -> None:
    """Refuse a write by a page of another origin.

    A page may send some requests to every server without a preflight; the browser only withholds
    the answer. Browsers state the origin of every such write; other programs send no origin.

    Raises:
        OriginRefused: the origin is not allowed.
    """
    if request.method in READING:
        return
    origin, settings = request.headers.get(hdrs.ORIGIN), context.settings
    if origin is None:
        origin = request.headers.get(_SITE, "none")
        is_allowed = origin in _OWN_SITES
    else:
        own = f"{request.scheme}://{request.headers.get(hdrs.HOST)}"
        is_allowed = origin in (own, settings.public_origin)
    if not (is_allowed or origin in settings.cors_origins or "*" in settings.cors_origins):
        raise OriginRefused(request.path, origin=origin[:256], detail=_OWN_ORIGINS)


def share_with_origins(
    request: web.Request, response: web.StreamResponse, allowed: Sequence[str]
) -> None:
    """Add the headers that let a page of an allowed origin read a response."""
    if not allowed:
        return
    origin = request.headers.get(hdrs.ORIGIN)
    if "*" not in allowed:
        # For refused origins, too: a cache must not give their answer to an allowed origin.
        response.headers.add(hdrs.VARY, hdrs.ORIGIN)
    if origin is None or not ({origin, "*"} & {*allowed}):
        return
    headers = response.headers
    headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = "*" if "*" in allowed else origin
    is_options = request.method == hdrs.METH_OPTIONS
    if is_options and hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers:
        # The model determines the names of headers of metadata: every requested one is allowed.
        headers.add(hdrs.VARY, hdrs.ACCESS_CONTROL_REQUEST_HEADERS)
        if wanted := request.headers.get(hdrs.ACCESS_CONTROL_REQUEST_HEADERS):
            headers[hdrs.ACCESS_CONTROL_ALLOW_HEADERS] = wanted
        headers[hdrs.ACCESS_CONTROL_MAX_AGE] = str(_REMEMBERED_SECONDS)
        return
    exposed = {n for n in headers if n.lower() in _EXPOSED or n.lower().startswith(_PREFIX)}
    if exposed:
        headers[hdrs.ACCESS_CONTROL_EXPOSE_HEADERS] = ", ".join(sorted(exposed))
