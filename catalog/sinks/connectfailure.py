"""The answer of a sink whose server could not be connected to."""

from __future__ import annotations

import ssl

from catalog.http.outbound import UNREACHABLE
from catalog.model.masking import described
from catalog.sinks.sink import SinkRefused


class ConnectionRefusedByServer(OSError):
    """A server was reached, and said that it does not accept the connection.

    Args:
        reason: what it said, in words of the protocol and without secrets.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def connect_failure(error: OSError) -> SinkRefused:
    """The answer for the subscriber, which does not tell which hosts or ports exist."""
    if isinstance(error, ConnectionRefusedByServer):
        return SinkRefused(reason=f"the sink refused the connection: {error.reason}")
    if isinstance(error, ssl.SSLError):
        reason = "the sink and this node agree on no TLS connection"
        return SinkRefused(reason=reason, cause=described(error))
    return SinkRefused(reason=f"the sink {UNREACHABLE}", cause=described(error))
