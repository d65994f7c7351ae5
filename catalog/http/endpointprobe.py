"""Finds out whether a server accepts connections, and when its certificate ends."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime

from catalog.config import Settings
from catalog.http.outboundsocket import connect_socket

_SECONDS = 10.0


async def probe_endpoint(
    host: str, port: int, settings: Settings, *, is_tls: bool
) -> datetime | None:
    """Connect to a server, and send it nothing but a TLS handshake; the end of its certificate.

    Raises:
        OSError: it cannot be reached, or only at an address that is not allowed, or its certificate
            is not valid (`ssl.SSLError`).
    """
    async with asyncio.timeout(_SECONDS):
        connected = await connect_socket(host, port, settings)
        if not is_tls:
            connected.close()
            return None
        _, writer = await asyncio.open_connection(
            sock=connected, ssl=ssl.create_default_context(), server_hostname=host
        )
        try:
            certificate = writer.get_extra_info("peercert") or {}
            end = ssl.cert_time_to_seconds(certificate["notAfter"])
            return datetime.fromtimestamp(end, UTC)
        finally:
            writer.transport.abort()
