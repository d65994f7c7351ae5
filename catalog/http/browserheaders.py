"""The headers that keep browsers from doing anything with an answer but show it.

Documents are stored with the media types that clients give them, HTML among them, and are served
from the origin of the API. A browser that shows one runs nothing of it, loads nothing for it, and
takes it for a page of no origin. No answer is a page that would need more.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

SHOWN_ONLY: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    # `sandbox` without permissions: no scripts, no forms, an origin of its own. Nobody may frame
    # it (which `default-src` does not say).
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    # For what pages load without asking (`<script>`, `<img>`); CORS decides about the rest.
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
_TLS_ONLY = "Strict-Transport-Security"
_A_YEAR = "max-age=31536000"


def restrict_browsers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the headers, unless the answer has its own."""
    headers = response.headers
    for name, value in SHOWN_ONLY.items():
        headers.setdefault(name, value)
    # A proxy that ends TLS says so itself.
    if request.secure:
        headers.setdefault(_TLS_ONLY, _A_YEAR)
