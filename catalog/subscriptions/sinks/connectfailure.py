"""The answer of a sink when its server could not be connected to."""

from __future__ import annotations

from catalog.model.connectionfailure import why_unreachable
from catalog.model.masking import described
from catalog.subscriptions.sinks.sink import SinkRefused


class ConnectionRefusedByServer(OSError):
    """A server was reached, and refused the connection.

    Args:
        reason: the answer of the server, in words of the protocol and without secrets.
        is_unauthorized: the server did not accept the credential.
    """

    def __init__(self, reason: str, *, is_unauthorized: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_unauthorized = is_unauthorized


def connect_failure(error: OSError) -> SinkRefused:
    """The answer for the subscriber."""
    if isinstance(error, ConnectionRefusedByServer):
        return SinkRefused(
            reason=f"the sink refused the connection: {error.reason}",
            is_unauthorized=error.is_unauthorized,
        )
    return SinkRefused(reason=f"the sink {why_unreachable(error)}", cause=described(error))
