"""The headers that keep browsers from doing anything with an answer but show it.

Documents are stored with the media types that clients give them, HTML among them, and are served
from the origin of the API. A browser that shows one runs nothing of it, loads nothing for it, and
takes it for a page of no origin. No answer is a page that would need more.
"""

from __future__ import annotations

from collections.abc import Mapping

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
