"""Finds the CloudEvent in a message of a protocol, by the binding of the protocol.

Sources: the sections "Binary Content Mode" and "Structured Content Mode" of the bindings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from typing import Protocol as Callback

import orjson

from catalog.messages.message import CarriedEvent, Entry, Message, Payload, is_too_deep, pointer
from catalog.messages.protocols import Binding, MessageProtocol

_EVENT = "application/cloudevents"


class ReadEvent(Callback):
    """Reads an event in JSON, at a place in the message that the steps give."""

    def __call__(self, value: Mapping[str, Any], steps: tuple[str, ...] = ()) -> CarriedEvent: ...


def with_event(
    message: Message, protocol: MessageProtocol | None, payload: Payload | None, read: ReadEvent
) -> Message:
    """Add the payload, the media type of the payload, and the carried event to a message."""
    contenttype = _contenttype(message, protocol)
    if payload is not None:
        payload = replace(payload, contenttype=contenttype)
    message = replace(message, payload=payload, contenttype=contenttype)
    media_type = contenttype.partition(";")[0].strip().lower()
    if media_type.startswith(_EVENT):
        return _with_structured(message, media_type, read)
    if protocol is not None and protocol.binding is not None:
        attributes = _attributes(message, protocol.binding)
        if "specversion" in attributes:
            return _with_binary(message, attributes, protocol.binding)
    if not contenttype and payload is not None and _looks_structured(payload.content):
        return replace(message, event=read(payload.content, ("payload",)))
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


def _with_structured(message: Message, media_type: str, read: ReadEvent) -> Message:
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
    if is_too_deep(content):
        return replace(message, fault="its payload is nested too deeply")
    return replace(message, event=read(content, ("payload",)))


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


def _looks_structured(content: Any) -> bool:
    """Whether a payload without a media type is an event in JSON."""
    return isinstance(content, dict) and "specversion" in content
