"""The reason why a connection to a server failed, in words for people. Pure."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

UNREACHABLE = (
    "cannot be reached, or only at an address that this node does not connect to "
    "(CONCORD_ALLOW_PRIVATE_ADDRESSES, CONCORD_ALLOWED_ADDRESSES)"
)
NO_TLS = "and this node agree on no TLS connection"
_CAUSES = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset",
    errno.EHOSTUNREACH: "no route to its host",
    errno.ENETUNREACH: "no route to its network",
    errno.ETIMEDOUT: "no answer in time",
}


class AddressRefused(OSError):
    """A session refuses an address, or does not disclose whether a name has an address."""

    def __init__(self, text: str) -> None:
        super().__init__(errno.EACCES, text)


@contextmanager
def names_hidden(*, if_private_refused: bool) -> Iterator[None]:
    """Report a failed lookup of a name in the context like a refused address.

    Where private addresses are refused, different errors would disclose the names of a network.
    """
    try:
        yield
    except OSError as error:
        if not if_private_refused:
            raise
        raise AddressRefused(str(error)) from error


def why_unreachable(error: BaseException | None) -> str:
    """The predicate of a sentence about a server, as "cannot be reached: connection refused".

    Args:
        error: the error of a library, examined together with the causes of the error.
    """
    found = ""
    while error is not None and found in ("", NO_TLS):
        # An error of aiohttp can be an ssl.SSLError itself, while the cause has the reason.
        found = _predicate(error) or found
        error = error.__cause__ or error.__context__
    return found or "cannot be reached"


def _predicate(error: BaseException) -> str:
    """The reason that a single error gives, without the causes; "" without a reason."""
    match error:
        case ssl.SSLCertVerificationError(verify_message=str(reason)) if reason:
            return f"{NO_TLS}: {reason}"
        case ssl.SSLError():
            return NO_TLS
        case socket.gaierror():
            return "cannot be reached: unknown host"
        case TimeoutError():
            return f"cannot be reached: {_CAUSES[errno.ETIMEDOUT]}"
        # For several addresses, a library raises a single error with the first error number.
        case OSError(errno=errno.EACCES):
            return UNREACHABLE
        case OSError(errno=int(number)) if number in _CAUSES:
            return f"cannot be reached: {_CAUSES[number]}"
    return ""
