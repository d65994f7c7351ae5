"""The options of aiohttp's protocol, for each connection of a client."""

from __future__ import annotations

from typing import Any

from catalog.config import Settings

# As much as a kernel hands over at a time; a connection buffers two or three times that.
_READ_BYTES = 64 * 1024
# What a client still sends after its answer is read and dropped for this time, since a connection
# that is closed while data arrives can lose the answer.
_LINGERING_SECONDS = 2.0


def protocol_options(settings: Settings) -> dict[str, Any]:
    """The options of `web.RequestHandler` that bound a client."""
    return {
        "access_log": None,
        # aiohttp inflates whatever arrives, whether it is asked for or not; see `read_body`.
        "auto_decompress": False,
        "keepalive_timeout": settings.idle_connection_seconds,
        "lingering_time": _LINGERING_SECONDS,
        "read_bufsize": _READ_BYTES,
    }
