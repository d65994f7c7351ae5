"""The origin of a URL: the scheme, host and port of a server."""

from __future__ import annotations

from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


def origin_of(url: str) -> str:
    """The scheme, host and port of a URL, in lower case, so that equal origins are equal texts."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    # `hostname` leaves out the brackets of an IPv6 address.
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}:{parts.port or _PORTS.get(parts.scheme, '')}"
