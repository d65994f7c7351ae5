"""A message as it is checked, whatever it came as."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One option, header, annotation or the like, and where in the message it is."""

    name: str
    value: Any
    pointer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """What a message carries: bytes, or a JSON value, in which text may stand for itself."""

    content: Any
    contenttype: str
    pointer: str

    @property
    def is_text_or_bytes(self) -> bool:
        return isinstance(self.content, str | bytes)

    def encoded(self, contenttype: str) -> bytes:
        """The bytes on the wire, if the payload is of this media type."""
        if isinstance(self.content, bytes):
            return self.content
        if isinstance(self.content, str) and not is_json_type(contenttype):
            return self.content.encode(errors="replace")
        return orjson.dumps(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedEvent:
    """The CloudEvent that a message is.

    Args:
        attributes: without those that are null.
        prefix: comes before the name of an attribute in its JSON pointer.
        pointers: of attributes for which that does not hold.
        is_structured: the whole event is in one JSON document; else all values are text.
    """

    attributes: Mapping[str, Any]
    prefix: str = "/"
    pointers: Mapping[str, str] = field(default_factory=dict)
    is_structured: bool = True
    payload: Payload | None = None

    def pointer(self, name: str) -> str:
        """Where an attribute is, or would be."""
        return self.pointers.get(name, self.prefix + name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message of a protocol, a CloudEvent, or both.

    `options` are the parts of a protocol's message that have one value, `sections` those that
    have entries. Both are `None` if the message came without a protocol's metadata.
    `contenttype` is what the protocol says of the payload; `fault` why there is no `event`.
    """

    protocol: str = ""
    envelope: str = ""
    options: Mapping[str, Entry] | None = None
    sections: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    contenttype: str = ""
    payload: Payload | None = None
    event: CarriedEvent | None = None
    fault: str = ""

    @property
    def data(self) -> Payload | None:
        """What the schema of the definition is about."""
        return self.event.payload if self.event is not None else self.payload


def is_json_type(contenttype: str) -> bool:
    """Whether a media type says JSON (cloudevents/json-format.md, "Payload Serialization")."""
    media_type = contenttype.partition(";")[0].strip().lower()
    return media_type.endswith(("/json", "+json"))


def is_too_deep(value: Any) -> bool:
    """Whether a JSON value is nested more deeply than it could be written again."""
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return True
    return False


def pointer(*steps: str | int) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)
