"""The targets of requests to HTTP sinks, and the heads of requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from yarl import URL

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\x20-\x7e]*")
_VISIBLE = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpTarget:
    """The parts of a sink's URL.

    Args:
        host: the name or the address to connect to.
        port: the port.
        is_tls: whether the scheme is https.
        authority: the header Host.
        path: the path with the query, as the request line has it.
    """

    host: str
    port: int
    is_tls: bool
    authority: str
    path: str

    @property
    def key(self) -> tuple[str, int, bool]:
        """The part that is equal in targets that can share a connection."""
        return self.host, self.port, self.is_tls

    def head(self, method: str, headers: Mapping[str, str]) -> bytes:
        """The request line and the given headers; the caller may append more headers.

        Raises:
            ValueError: the method or a header has forbidden characters.
        """
        if not _NAME.fullmatch(method):
            raise ValueError("the method is not one")
        line = f"{method} {self.path} HTTP/1.1\r\n".encode("ascii")
        return line + header_lines({"Host": self.authority, **headers})


def target_of(url: str) -> HttpTarget:
    """The target of an http or https URL; names are in their ASCII form (IDNA).

    Raises:
        ValueError: the URL is not of http or https, or could end the request line.
    """
    parsed = URL(url)
    host, port = parsed.raw_host, parsed.port
    authority, path = parsed.host_port_subcomponent, parsed.raw_path_qs or "/"
    if parsed.scheme not in ("http", "https") or not host or not port or not authority:
        raise ValueError("the sink is not an http or https URL")
    if not all(map(_VISIBLE.fullmatch, (host, authority, path))):
        raise ValueError("the URL of the sink has characters that URLs cannot have")
    return HttpTarget(
        host=host, port=port, is_tls=parsed.scheme == "https", authority=authority, path=path
    )


def header_lines(headers: Mapping[str, str]) -> bytes:
    """Headers as they are sent.

    Raises:
        ValueError: a name or a value has forbidden characters; the message contains no value.
    """
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ValueError(f"the header {name[:64]!r} cannot be sent")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("ascii")
