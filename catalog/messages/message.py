"""Messages in the common form for checks, and the parser of messages.

A message is a CloudEvent in JSON or in HTTP headers, or a message of a protocol as JSON. The JSON
form of a message of a protocol is specific to the project: the members have the names of a
definition's `protocoloptions`, with plain values, beside `payload` or `payload_base64`.

Sources: cloudevents/json-format.md, section 3; the sections "Binary Content Mode" and "Structured
Content Mode" of the bindings of protocols; message/spec.md, "Message Protocols".
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote_to_bytes

import orjson

from catalog.messages.messageprotocol import Binding, MessageProtocol, protocol_of
from catalog.model.errors import ParsingData

JSON_TYPE = "application/json"
_EVENT = "application/cloudevents"
_PREFIX = "ce-"
_NO_OPTIONS = frozenset({"envelope", "payload", "payload_base64", "protocol"})
_ESCAPED = re.compile(r"\\(.)")


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
    """The CloudEvent that a message carries, with the attributes that are not null.

    Args:
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
        envelope: the name of the envelope that the message declares.
        options: the metadata with a single value each; `None` for a message without metadata.
        sections: the metadata with entries, by the name of the section.
        contenttype: the media type of the payload by the metadata of the protocol.
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


def pointer(*steps: str | int) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)


def read_json_message(value: Any, protocol: str) -> Message:
    """Read a CloudEvent, which has a `specversion`, or a message of a protocol.

    `protocol` is for messages that name no protocol. Raises `ParsingData` if the value is neither.
    """
    if not isinstance(value, dict):
        raise ParsingData(error_detail="a message is a JSON object")
    if "specversion" in value:
        return Message(event=_read_event(value))
    own = _text(value, "protocol") or protocol
    known = protocol_of(own)
    given = {name: part for name, part in value.items() if name not in _NO_OPTIONS}
    if known is None and given and not own:
        detail = "it is no CloudEvent, as it has no specversion, and names no protocol"
        raise ParsingData(error_detail=detail)
    message = Message(
        protocol=own,
        envelope=_text(value, "envelope"),
        options=_options(known, given) if own else None,
        sections=dict(_sections(known, given)) if known else {},
    )
    return _with_event(message, known, _payload(value, "payload", ""))


def _with_event(
    message: Message, protocol: MessageProtocol | None, payload: Payload | None
) -> Message:
    """Add the payload, the media type of the payload, and the carried event to a message."""
    contenttype = _contenttype(message, protocol)
    if payload is not None:
        payload = replace(payload, contenttype=contenttype)
    message = replace(message, payload=payload, contenttype=contenttype)
    media_type = contenttype.partition(";")[0].strip().lower()
    if media_type.startswith(_EVENT):
        return _with_structured(message, media_type)
    if protocol is not None and protocol.binding is not None:
        attributes = _attributes(message, protocol.binding)
        if "specversion" in attributes:
            return _with_binary(message, attributes, protocol.binding)
    content = payload.content if payload is not None else None
    if not contenttype and isinstance(content, dict) and "specversion" in content:
        return replace(message, event=_read_event(content, ("payload",)))
    return replace(message, fault="it carries no CloudEvent")


def _contenttype(message: Message, protocol: MessageProtocol | None) -> str:
    if protocol is None or protocol.binding is None:
        return ""
    match protocol.binding.contenttype:
        case (option,):
            entry = (message.options or {}).get(option)
            value = entry.value if entry is not None else None
        case (section, name):
            entries = message.sections.get(section, ())
            value = next((e.value for e in entries if e.name.lower() == name), None)
        case _:
            value = None
    return value if isinstance(value, str) else ""


def _with_structured(message: Message, media_type: str) -> Message:
    if media_type != f"{_EVENT}+json":
        return replace(message, fault=f"events in {media_type} are not read here")
    content = message.payload.content if message.payload is not None else None
    if isinstance(content, str | bytes):
        try:
            content = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            return replace(message, fault=f"its payload is no JSON: {error}")
    if not isinstance(content, dict):
        return replace(message, fault="its payload is no JSON object")
    # orjson reads deeper values than it can write, and the payload is encoded again for its schema.
    try:
        orjson.dumps(content)
    except orjson.JSONEncodeError:
        return replace(message, fault="its payload is nested too deeply")
    return replace(message, event=_read_event(content, ("payload",)))


def _with_binary(message: Message, found: Mapping[str, Entry], binding: Binding) -> Message:
    values = {name: entry.value for name, entry in found.items() if entry.value is not None}
    if message.contenttype:
        values["datacontenttype"] = message.contenttype
    event = CarriedEvent(
        attributes=values,
        prefix=pointer(binding.section, binding.prefixes[0]),
        pointers={name: entry.pointer for name, entry in found.items()},
        is_structured=False,
        payload=message.payload,
    )
    return replace(message, event=event)


def _attributes(message: Message, binding: Binding) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for entry in message.sections.get(binding.section, ()):
        for prefix in binding.prefixes:
            if entry.name.lower().startswith(prefix.lower()):
                found.setdefault(entry.name[len(prefix) :].lower(), entry)
    return found


def _read_event(value: Mapping[str, Any], steps: tuple[str, ...] = ()) -> CarriedEvent:
    """Read a CloudEvent in its JSON format, which is at `steps` in the message."""
    attributes = {
        name: attribute
        for name, attribute in value.items()
        if name not in ("data", "data_base64") and attribute is not None
    }
    named = attributes.get("datacontenttype")
    contenttype = named if isinstance(named, str) else ""
    payload = _payload(value, "data", contenttype, JSON_TYPE, steps)
    return CarriedEvent(attributes=attributes, prefix=f"{pointer(*steps)}/", payload=payload)


def read_binary_event(headers: Iterable[tuple[str, str]], body: bytes) -> Message:
    """Read a CloudEvent with attributes in HTTP headers, in percent-encoded UTF-8 (binary mode)."""
    attributes: dict[str, Any] = {}
    for name, value in headers:
        lower = name.lower()
        if lower == "content-type":
            attributes["datacontenttype"] = value
        elif lower.startswith(_PREFIX) and lower != "ce-datacontenttype":
            attributes[lower.removeprefix(_PREFIX)] = _decode(lower, value)
    contenttype = attributes.get("datacontenttype", "")
    payload = Payload(content=body, contenttype=contenttype, pointer="/data") if body else None
    return Message(event=CarriedEvent(attributes=attributes, is_structured=False, payload=payload))


def is_binary_event(names: Iterable[str]) -> bool:
    """Whether a request with the given headers is a CloudEvent in binary mode."""
    return any(name.lower().startswith(_PREFIX) for name in names)


def _decode(name: str, value: str) -> str:
    if len(value) > 1 and value.startswith('"') and value.endswith('"'):
        value = _ESCAPED.sub(r"\1", value[1:-1])
    try:
        return unquote_to_bytes(value).decode()
    except UnicodeError as error:
        raise ParsingData(error_detail=f"the header {name} is not UTF-8") from error


def _payload(
    value: Mapping[str, Any],
    name: str,
    contenttype: str,
    implied: str = "",
    steps: tuple[str, ...] = (),
) -> Payload | None:
    encoded = f"{name}_base64"
    if value.get(encoded) is not None:
        if name in value:
            raise ParsingData(error_detail=f"{name} and {encoded} exclude each other")
        try:
            content = base64.b64decode(_text(value, encoded), validate=True)
        except ValueError as error:
            raise ParsingData(error_detail=f"{encoded} is not base64") from error
        return Payload(content=content, contenttype=contenttype, pointer=pointer(*steps, encoded))
    if name not in value:
        return None
    contenttype = contenttype or implied
    return Payload(content=value[name], contenttype=contenttype, pointer=pointer(*steps, name))


def _text(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    if text is not None and not isinstance(text, str):
        raise ParsingData(error_detail=f"{name} must be a string")
    return text or ""


def _options(protocol: MessageProtocol | None, given: Mapping[str, Any]) -> dict[str, Entry]:
    if protocol is None:
        return {}
    named = {
        protocol.canonical(name): Entry(name=name, value=value, pointer=pointer(name))
        for name, value in given.items()
    }
    unknown = sorted({*named} - {*protocol.options} - {*protocol.sections})
    if unknown:
        detail = f"a message of {protocol.name} has no {', '.join(unknown[:3])}"
        raise ParsingData(error_detail=detail)
    return {name: value for name, value in named.items() if name in protocol.options}


def _sections(
    protocol: MessageProtocol, given: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[Entry, ...]]]:
    for name, value in given.items():
        section = protocol.canonical(name)
        if section in protocol.sections and value is not None:
            entries = _entries(name, value)
            if protocol.sections[section]:
                entries = (replace(e, name=protocol.canonical(e.name)) for e in entries)
            yield section, tuple(entries)


def _entries(section: str, value: Any) -> Iterator[Entry]:
    """The entries of a map, or of a list of names and values, which may repeat a name."""
    if isinstance(value, dict):
        for name, entry in value.items():
            yield Entry(name=name, value=entry, pointer=pointer(section, name))
        return
    if not isinstance(value, list):
        raise ParsingData(error_detail=f"{section} must be an object or an array")
    for place, entry in enumerate(value):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise ParsingData(error_detail=f"each of {section} needs a name and a value")
        at = pointer(section, place, "value")
        yield Entry(name=entry["name"], value=entry.get("value"), pointer=at)
