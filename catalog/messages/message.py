"""The common form of messages for checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An option, header or annotation, and its JSON pointer in the message."""

    name: str
    value: Any
    pointer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The payload of a message: bytes, text or a JSON value."""

    content: Any
    contenttype: str
    pointer: str

    @property
    def is_text_or_bytes(self) -> bool:
        return isinstance(self.content, str | bytes)

    def encoded(self, contenttype: str) -> bytes:
        """The bytes on the wire of the payload, with the given media type."""
        if isinstance(self.content, bytes):
            return self.content
        if isinstance(self.content, str) and not is_json_type(contenttype):
            return self.content.encode(errors="replace")
        return orjson.dumps(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedEvent:
    """The CloudEvent that a message carries.

    Args:
        attributes: the attributes that are not null.
        prefix: the JSON pointer of an attribute, without the name of the attribute.
        pointers: the JSON pointers of attributes with a different prefix, by name.
        is_structured: whether the event is a single JSON document; otherwise every value is text.
        payload: the data of the event.
    """

    attributes: Mapping[str, Any]
    prefix: str = "/"
    pointers: Mapping[str, str] = field(default_factory=dict)
    is_structured: bool = True
    payload: Payload | None = None

    def pointer(self, name: str) -> str:
        """The JSON pointer of an attribute, which may be missing."""
        return self.pointers.get(name, self.prefix + name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message of a protocol, a CloudEvent, or both.

    Args:
        protocol: the name of the protocol.
        envelope: the name of the envelope that the message declares.
        options: the metadata with a single value each; `None` for a message without metadata.
        sections: the metadata with entries, by the name of the section.
        contenttype: the media type of the payload by the metadata of the protocol.
        payload: the payload.
        event: the CloudEvent in the message.
        fault: the reason why the message has no `event`.
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
        """The payload that the schema of the definition describes."""
        return self.event.payload if self.event is not None else self.payload


def is_json_type(contenttype: str) -> bool:
    """Whether a media type is JSON (cloudevents/json-format.md, "Payload Serialization")."""
    media_type = contenttype.partition(";")[0].strip().lower()
    return media_type.endswith(("/json", "+json"))


def is_too_deep(value: Any) -> bool:
    """Whether a JSON value is nested too deeply to be serialized."""
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return True
    return False


def pointer(*steps: str | int) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)
