"""The rules of the domains, the entities to check, and the faults that a check finds.

Endpoints and messages share the rules of the names of protocols, headers and methods.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from catalog.messages.message import pointer
from catalog.model.record import record
from catalog.model.xid import Xid

OPTIONS = "protocoloptions"

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DEFAULTS = {"amqp": "amqp/1.0", "mqtt": "mqtt/5.0"}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with a stable name, and the section of the specification that states the rule."""

    name: str
    source: str

    def broken(self, pointer: str, message: str) -> Fault:
        return Fault(rule=self, pointer=pointer, message=message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A broken rule, at a JSON pointer in the entity; the message says how to correct it."""

    rule: Rule
    pointer: str
    message: str


_HTTP_OPTIONS = 'message/spec.md, "HTTP/1.1", "HTTP/2", "HTTP/3" protocols'
HEADER_NAME_EMPTY = Rule("header_name_empty", 'message/spec.md, "Message Protocols"')
HEADER_NAME_INVALID = Rule("header_name_invalid", _HTTP_OPTIONS)
METHOD_INVALID = Rule("method_invalid", _HTTP_OPTIONS)


@record
class Subject:
    """A group, resource or version to check, with its attributes as a catalog stores them."""

    xid: Xid
    attributes: Mapping[str, Any]

    def text(self, name: str) -> str:
        return text(self.attributes.get(name))

    def object(self, name: str) -> Mapping[str, Any]:
        return as_object(self.attributes.get(name))


class EntityLookup(Protocol):
    """Finds the entities that a subject refers to."""

    @property
    def bases(self) -> Sequence[str]:
        """URLs of the catalog's root, without a trailing slash."""
        ...

    def find(self, xid: Xid) -> Subject | None:
        """A group or version, or the default version of a resource; `None` if it is not known."""
        ...

    def is_absent(self, xid: Xid) -> bool:
        """Whether an entity certainly does not exist; `False` if the lookup does not know."""
        ...


def text(value: Any) -> str:
    """A text, or the value of a property definition if the value is a text; else an empty text."""
    if isinstance(value, dict):
        value = value.get("value")
    return value if isinstance(value, str) else ""


def as_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def is_blank(value: Any) -> bool:
    """Whether a value, or the value of a property definition, is a text of blanks only."""
    if isinstance(value, dict):
        value = value.get("value")
    return isinstance(value, str) and not value.strip()


def has_placeholder(value: str) -> bool:
    return "{" in value


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

    `section` is a map by header names, or an array of objects with names.
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
