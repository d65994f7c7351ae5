"""The answer of a sink whose server could not be connected to."""

from __future__ import annotations

from catalog.model.connectionfailure import why_unreachable
from catalog.model.masking import described
from catalog.subscriptions.sinks.sink import SinkRefused


class ConnectionRefusedByServer(OSError):
    """A server was reached, and said that it does not accept the connection.

    Args:
        reason: what it said, in words of the protocol and without secrets.
        is_unauthorized: it did not accept the credential.
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
