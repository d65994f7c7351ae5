"""Parses messages: CloudEvents in JSON or in HTTP headers, and messages of protocols as JSON.

Sources: cloudevents/json-format.md, section 3; cloudevents/http-protocol-binding.md, 3.1. The
JSON form of a message of a protocol is specific to the project: the members have the names of a
definition's `protocoloptions`, with plain values, beside `payload` or `payload_base64`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote_to_bytes

from catalog.messages.cloudeventbinding import with_event
from catalog.messages.message import JSON_TYPE, CarriedEvent, Entry, Message, Payload, pointer
from catalog.messages.protocols import MessageProtocol, protocol_of
from catalog.model.errors import ParsingData

_PREFIX = "ce-"
_NO_OPTIONS = frozenset({"envelope", "payload", "payload_base64", "protocol"})
_ESCAPED = re.compile(r"\\(.)")


def read_json_message(value: Any, protocol: str) -> Message:
    """Read a CloudEvent, which has a `specversion`, or a message of a protocol.

    Args:
        value: the JSON value.
        protocol: the protocol of the definition, for messages that name no protocol.

    Raises:
        ParsingData: the value is neither a CloudEvent nor a message of a protocol.
    """
    if not isinstance(value, dict):
        raise ParsingData(error_detail="a message is a JSON object")
    if "specversion" in value:
        return Message(event=read_event(value))
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
    return with_event(message, known, _payload(value, "payload", ""), read_event)


def read_event(value: Mapping[str, Any], steps: tuple[str, ...] = ()) -> CarriedEvent:
    """Read a CloudEvent in its JSON format.

    Args:
        value: the event.
        steps: the names that lead to the event in the message.

    Raises:
        ParsingData: the data of the event cannot be read.
    """
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
    """Read a CloudEvent with attributes in HTTP headers (binary mode).

    Raises:
        ParsingData: a header is not percent-encoded UTF-8.
    """
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
        content = _from_base64(value, encoded)
        return Payload(content=content, contenttype=contenttype, pointer=pointer(*steps, encoded))
    if name not in value:
        return None
    contenttype = contenttype or implied
    return Payload(content=value[name], contenttype=contenttype, pointer=pointer(*steps, name))


def _from_base64(value: Mapping[str, Any], name: str) -> bytes:
    try:
        return base64.b64decode(_text(value, name), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ParsingData(error_detail=f"{name} is not base64") from error


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
