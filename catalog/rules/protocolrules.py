"""Rules that endpoints and messages share: names of protocols, headers, methods."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from catalog.messages.message import pointer
from catalog.rules.fault import Fault, Rule, as_object, has_placeholder, is_blank, text

OPTIONS = "protocoloptions"

_HTTP_OPTIONS = 'message/spec.md, "HTTP/1.1", "HTTP/2", "HTTP/3" protocols'
HEADER_NAME_EMPTY = Rule("header_name_empty", 'message/spec.md, "Message Protocols"')
HEADER_NAME_INVALID = Rule("header_name_invalid", _HTTP_OPTIONS)
METHOD_INVALID = Rule("method_invalid", _HTTP_OPTIONS)

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DEFAULTS = {"amqp": "amqp/1.0", "mqtt": "mqtt/5.0"}


def family(protocol: str) -> str:
    """The name of a protocol or format without its version, in lower case."""
    return protocol.partition("/")[0].strip().lower()


def normal_protocol(protocol: str) -> str:
    """The normal form of the spellings of a protocol (endpoint/spec.md, "protocol")."""
    name = family(protocol)
    if name in ("http", "kafka", "nats"):
        return name
    return _DEFAULTS.get(protocol.strip().lower(), protocol.strip().lower())


def check_headers(name: str, section: Any, *, is_http: bool = False) -> Iterator[Fault]:
    """Check that header names are not empty, and that names of HTTP headers are tokens.

    Args:
        name: the name of the section in the protocol's options.
        section: a map by header names, or an array of objects with names.
    """
    headers: dict[Any, Any] = {}
    if isinstance(section, dict):
        headers = {header: header for header in section}
    elif isinstance(section, list):
        headers = {place: as_object(entry).get("name", "") for place, entry in enumerate(section)}
    for place, header in headers.items():
        at = pointer(OPTIONS, name, place)
        if not isinstance(header, str):
            continue
        if not header.strip():
            yield HEADER_NAME_EMPTY.broken(at, "The name is empty; give it one.")
        elif is_http and not _TOKEN.fullmatch(header) and not has_placeholder(header):
            yield HEADER_NAME_INVALID.broken(
                at, f'"{header}" is no name of an HTTP header: use letters, digits, hyphens.'
            )


def check_method(value: Any) -> Iterator[Fault]:
    method = text(value)
    if is_blank(value) or (method and not _TOKEN.fullmatch(method) and not has_placeholder(method)):
        yield METHOD_INVALID.broken(
            pointer(OPTIONS, "method"), f'"{method}" is no HTTP method; write one such as POST.'
        )
