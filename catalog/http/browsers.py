"""What browsers may do with answers, and which pages may send requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aiohttp import hdrs, web

from catalog.context import Context
from catalog.http.conditions import READING
from catalog.model.concorderrors import OriginRefused

SHOWN_ONLY: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    # `sandbox` without permissions: no scripts, no forms, an origin of its own. Nobody may frame
    # it (which `default-src` does not say).
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    # For what pages load without asking (`<script>`, `<img>`); CORS decides about the rest.
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
# The sites of requests that a page of this node makes, and of those that a user does.
_OWN_SITES = frozenset({"same-origin", "none"})
_ADVICE = "CONCORD_CORS_ORIGINS lists the origins whose pages may, CONCORD_PUBLIC_URL this node's."


def check_origin(request: web.Request, context: Context) -> None:
    """Refuse a write that a page of another origin sends.

    A page may send some requests anywhere without asking first; its browser only keeps the answer
    from it. Browsers tell the origin of every such write, programs that are none send no origin.

    Raises:
        OriginRefused
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
        raise OriginRefused(request.path, origin=origin[:256], detail=_ADVICE)


def share_with_origins(
    request: web.Request, response: web.StreamResponse, allowed: Sequence[str]
) -> None:
    """Add the headers that let a page of an allowed origin read this response."""
    if not allowed:
        return
    origin = request.headers.get(hdrs.ORIGIN)
    if "*" not in allowed:
        # Refused origins too: a cache must not give that answer to an allowed one.
        response.headers.add(hdrs.VARY, hdrs.ORIGIN)
    if origin is None or not ({origin, "*"} & {*allowed}):
        return
    response.headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = "*" if "*" in allowed else origin
    if _is_preflight(request):
        _answer_preflight(request, response)
    elif exposed := _exposed(response):
        response.headers[hdrs.ACCESS_CONTROL_EXPOSE_HEADERS] = ", ".join(exposed)


def _is_preflight(request: web.Request) -> bool:
    is_options = request.method == hdrs.METH_OPTIONS
    return is_options and hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers


def _answer_preflight(request: web.Request, response: web.StreamResponse) -> None:
    # Headers of metadata have names from the model, so all requested headers are allowed.
    response.headers.add(hdrs.VARY, hdrs.ACCESS_CONTROL_REQUEST_HEADERS)
    if wanted := request.headers.get(hdrs.ACCESS_CONTROL_REQUEST_HEADERS):
        response.headers[hdrs.ACCESS_CONTROL_ALLOW_HEADERS] = wanted
    response.headers[hdrs.ACCESS_CONTROL_MAX_AGE] = str(_REMEMBERED_SECONDS)


def _exposed(response: web.StreamResponse) -> list[str]:
    names = {*response.headers}
    return sorted(n for n in names if n.lower() in _EXPOSED or n.lower().startswith(_PREFIX))
