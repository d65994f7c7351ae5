"""The reason why no connection to a server came about, in words for people. Pure."""

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
    """A session does not connect to an address, or does not tell whether a name has one."""

    def __init__(self, text: str) -> None:
        super().__init__(errno.EACCES, text)


@contextmanager
def names_hidden(*, if_private_refused: bool) -> Iterator[None]:
    """Look up a name, and tell of an unknown one what is told of one whose address is refused.

    Where private addresses are refused, the difference would tell which names a network has.
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
        error: what a library raised; its causes are looked at, too.
    """
    found = ""
    while error is not None and found in ("", NO_TLS):
        # An error of aiohttp is one of TLS, too, and its cause tells the reason.
        found = _predicate(error) or found
        error = error.__cause__ or error.__context__
    return found or "cannot be reached"


def _predicate(error: BaseException) -> str:
    """The reason that a single error gives, without those that caused it; "" for none."""
    match error:
        case ssl.SSLCertVerificationError(verify_message=str(reason)) if reason:
            return f"{NO_TLS}: {reason}"
        case ssl.SSLError():
            return NO_TLS
        case socket.gaierror():
            return "cannot be reached: unknown host"
        case TimeoutError():
            return f"cannot be reached: {_CAUSES[errno.ETIMEDOUT]}"
        # Of several addresses, a library tells the errors as one, with the first number.
        case OSError(errno=errno.EACCES):
            return UNREACHABLE
        case OSError(errno=int(number)) if number in _CAUSES:
            return f"cannot be reached: {_CAUSES[number]}"
    return ""
