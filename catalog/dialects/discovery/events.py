"""Translates events of a service to messages of the endpoint, and back; orders them: no I/O.

The message's extension attribute `discovery` keeps the parts of an event without a native
form: `attributes` that the seed does not define, `extensions` in the written form, and the
text of a schema that the message has as JSON.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import orjson

from catalog.dialects.discovery.attributechecks import (
    CONTEXT_TYPES,
    CORE_ATTRIBUTES,
    OF_EVENT,
    OF_EXTENSION,
)
from catalog.model.schema import STRICT_NAME
from catalog.model.xid import is_valid_id

ENVELOPE = "CloudEvents/1.0"
DISCOVERY_ATTRIBUTE = "discovery"

_KNOWN = {*OF_EVENT, "extensions"} - {"specversion"}
_PLAIN = ("description", "datacontenttype", "dataschematype")
_SHOWN_TYPES = {name.lower(): name for name in CONTEXT_TYPES} | {"urireference": "URI-reference"}

Json = dict[str, Any]
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9\-._~:@]")
_LONGEST_SLUG = 100


def as_object(value: Any) -> Json:
    """The value of a native attribute if the value is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def put_or_remove(values: Json, name: str, value: Any) -> None:
    """Put a member, or remove the member if the value is empty."""
    values.pop(name, None)
    if value:
        values[name] = value


def from_message(id: str, message: Mapping[str, Any], base: str) -> Json | None:
    """Show a message as an event; `None` for a message that is no CloudEvent.

    Args:
        message: the attributes of the message's default version.
        base: the URL of the registry's root, for schemas in the registry.
    """
    if not str(message.get("envelope", "")).lower().startswith("cloudevents/"):
        return None
    metadata = as_object(message.get("envelopemetadata"))
    own = as_object(message.get(DISCOVERY_ATTRIBUTE))
    version = _value(metadata, "specversion")
    found = {
        "type": _value(metadata, "type") or id,
        "description": message.get("description"),
        "specversions": message.get("specversions") or (version and [version]),
        "datacontenttype": message.get("datacontenttype") or _value(metadata, "datacontenttype"),
        "dataschema": _schema_url(message, metadata, base),
        "dataschematype": message.get("dataschematype"),
        "dataschemacontent": _schema_text(message, own),
        "sourcetemplate": _value(metadata, "source"),
    }
    event = {n: v for n, v in found.items() if v is not None and not OF_EVENT[n](v)}
    if "dataschema" in event:
        event.pop("dataschemacontent", None)
    if extensions := _extensions(metadata, own):
        event["extensions"] = extensions
    elif own.get("extensions") == []:
        event["extensions"] = []
    unknown = as_object(own.get("attributes")).items()
    return event | {name: value for name, value in unknown if name not in _KNOWN}


def _value(metadata: Json, name: str) -> Any:
    return as_object(metadata.get(name)).get("value")


def _schema_url(message: Mapping[str, Any], metadata: Json, base: str) -> Any:
    given = message.get("dataschemauri") or message.get("dataschemaxid")
    given = given or _value(metadata, "dataschema")
    return base + given if isinstance(given, str) and given.startswith("/") else given


def _schema_text(message: Mapping[str, Any], own: Json) -> str | None:
    schema = message.get("dataschema")
    if schema is None or isinstance(schema, str):
        return schema
    kept = own.get("dataschemacontent")
    return kept if _parsed(kept) == schema else orjson.dumps(schema).decode()


def _parsed(text: Any) -> Any:
    """The JSON object of a text, or `None`."""
    if not isinstance(text, str) or not text.lstrip().startswith("{"):
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _extensions(metadata: Json, own: Json) -> list[Json]:
    """The event's extensions, in the order and spelling of the writer."""
    kept = own.get("extensions")
    kept = [one for one in kept if _is_extension(one)] if isinstance(kept, list) else []
    native = {
        name: extension
        for name, one in sorted(metadata.items())
        if name not in CORE_ATTRIBUTES and (extension := _shown_extension(name, one)) is not None
    }
    shown: list[Json] = []
    for one in kept:
        name = one["name"]
        if not STRICT_NAME.fullmatch(name):
            shown.append(one)
        elif name in native:
            same = _native_extension(one) == _native_extension(native[name])
            shown.append(one if same else native[name])
            del native[name]
    return [*shown, *native.values()]


def _is_extension(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and all(not check(value.get(name)) for name, check in OF_EXTENSION.items() if name in value)
        and value.keys() >= {"name", "type"}
    )


def _shown_extension(name: str, native: Any) -> Json | None:
    type = _SHOWN_TYPES.get(str(as_object(native).get("type", "string")).lower())
    found = {"name": name, "type": type, "specurl": as_object(native).get("specurl")}
    shown = {n: v for n, v in found.items() if v is not None and not OF_EXTENSION[n](v)}
    return shown if "name" in shown and "type" in shown else None


def _native_extension(extension: Json) -> Json:
    native = {"type": str(extension["type"]).lower(), "specurl": extension.get("specurl")}
    return {name: value for name, value in native.items() if value is not None}


def to_message(event: Mapping[str, Any], shown: Mapping[str, Any], held: Mapping[str, Any]) -> Json:
    """The patch that turns a message into an event.

    Args:
        shown: the message as an event before the patch; empty for a new message.
        held: the attributes of the message's default version before the patch.
    """
    changed = {name for name in event.keys() | shown.keys() if event.get(name) != shown.get(name)}
    metadata = deepcopy(as_object(held.get("envelopemetadata")))
    own = dict(as_object(held.get(DISCOVERY_ATTRIBUTE)))
    patch: Json = {name: event.get(name) for name in _PLAIN if name in changed}
    if not shown:
        patch["envelope"] = ENVELOPE
        _put(metadata, "type", event["type"])
    if "sourcetemplate" in changed:
        _put(metadata, "source", event.get("sourcetemplate"))
    if "datacontenttype" in changed:
        _put(metadata, "datacontenttype", None)
    if "specversions" in changed:
        is_plain = event.get("specversions") == ["1.0"]
        _put(metadata, "specversion", "1.0" if is_plain else None)
        patch["specversions"] = None if is_plain else event.get("specversions")
    if changed & {"dataschema", "dataschemacontent"}:
        _put(metadata, "dataschema", None)
        patch |= _schema(event, own)
    if "extensions" in changed:
        _put_extensions(event.get("extensions"), shown, metadata, own)
    put_or_remove(own, "attributes", {n: v for n, v in event.items() if n not in _KNOWN})
    patch |= {"envelopemetadata": metadata or None, DISCOVERY_ATTRIBUTE: own or None}
    return {name: value for name, value in patch.items() if value != held.get(name)}


def _put(metadata: Json, name: str, value: Any) -> None:
    one = as_object(metadata.pop(name, None))
    one.pop("value", None)
    if value is not None:
        one["value"] = value
    if one:
        metadata[name] = one
    if name == "source" and value is not None:
        one["type"] = "uritemplate"


def _schema(event: Mapping[str, Any], own: Json) -> Json:
    """The native attributes for a schema: the URL, or the schema as JSON, else as text."""
    text = event.get("dataschemacontent")
    parsed = _parsed(text)
    put_or_remove(own, "dataschemacontent", None if parsed is None else text)
    return {
        "dataschemauri": event.get("dataschema"),
        "dataschemaxid": None,
        "dataschema": text if parsed is None else parsed,
    }


def _put_extensions(
    extensions: list[Json] | None, shown: Mapping[str, Any], metadata: Json, own: Json
) -> None:
    given = {one["name"]: one for one in extensions or ()}
    for one in shown.get("extensions", ()):
        if one["name"] not in given:
            metadata.pop(one["name"], None)
    for name, one in given.items():
        if STRICT_NAME.fullmatch(name):
            before = as_object(metadata.get(name))
            before = {n: v for n, v in before.items() if n not in ("type", "specurl")}
            metadata[name] = before | _native_extension(one)
    own.pop("extensions", None)
    if extensions is not None and (not extensions or extensions != _extensions(metadata, {})):
        own["extensions"] = extensions


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredService:
    """The stored endpoint of a service: the attributes, and the messages' attributes by id.

    `shared` are the messages of the groups that the endpoint refers to, by xid. A message without
    a default version, or with a cross reference to a missing message, has no attributes.
    """

    id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    messages: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    shared: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def shown_events(held: StoredService, base: str) -> dict[str, Json]:
    """The events of a service in order: own messages by id, shared messages by xid.

    An own message replaces the shared messages of the same type; `without` lists further shared
    messages that are no events of the service.
    """
    events = _events(held.messages, base)
    types = {event["type"] for event in events.values()}
    without = _texts_in(held.attributes, "without")
    for xid, event in _events(held.shared, base).items():
        if event["type"] not in types and xid not in without:
            events[xid] = event
    order = [id for id in dict.fromkeys(_texts_in(held.attributes, "events")) if id in events]
    return {id: events[id] for id in [*order, *events]}


def _events(messages: Mapping[str, Mapping[str, Any]], base: str) -> dict[str, Json]:
    found = {}
    for key in sorted(messages, key=str.lower):
        event = from_message(key.rpartition("/")[2], messages[key], base)
        if event is not None:
            found[key] = event
    return found


def _texts_in(attributes: Mapping[str, Any], name: str) -> list[str]:
    found = as_object(attributes.get(DISCOVERY_ATTRIBUTE)).get(name)
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def message_patches(
    service: Mapping[str, Any], order: Sequence[str], shown: Mapping[str, Json], held: StoredService
) -> dict[str, Json]:
    """The patches of own messages, by id.

    Args:
        order: the keys of the service's events.
    """
    events = zip(order, service.get("events") or (), strict=True)
    patches = {
        id: to_message(event, shown.get(id, {}), held.messages.get(id, {}))
        for id, event in events
        if id not in held.shared
    }
    return {id: patch for id, patch in patches.items() if patch}


def put_order(own: Json, events: Sequence[Json], order: Sequence[str], held: StoredService) -> None:
    """Store an order of events that differs from the ids' order, and excluded shared messages."""
    by_id = sorted(order, key=lambda id: (id in held.shared, id.lower()))
    types = {
        event["type"] for id, event in zip(order, events, strict=True) if id not in held.shared
    }
    without = [
        xid
        for xid, event in _events(held.shared, "").items()
        if xid not in {*order} and event["type"] not in types
    ]
    put_or_remove(own, "events", [*order] if [*order] != by_id else None)
    put_or_remove(own, "without", without)


def match_events(
    events: Sequence[Json], shown: Mapping[str, Json], held: StoredService
) -> list[str]:
    """The key of a message for each event: of equal content, else of the same type, else new."""
    ids: dict[int, str] = {}
    for key in (_content, _type):
        free: dict[object, list[str]] = {}
        taken = {*ids.values()}
        # In reverse, so that `pop` takes the first message.
        for id in reversed([*shown]):
            if id not in taken and (key is _content or id in held.messages):
                free.setdefault(key(shown[id]), []).append(id)
        for index, event in enumerate(events):
            if index not in ids and free.get(key(event)):
                ids[index] = free[key(event)].pop()
    used = {id.lower() for id in held.messages}
    numbers: dict[str, Iterator[str]] = {}
    for index, event in enumerate(events):
        if index not in ids:
            new = numbers.setdefault(event["type"], _new_ids(event["type"]))
            ids[index] = next(id for id in new if id.lower() not in used)
            used.add(ids[index].lower())
    return [ids[index] for index in range(len(events))]


def _content(event: Json) -> object:
    return orjson.dumps(event, option=orjson.OPT_SORT_KEYS)


def _type(event: Json) -> object:
    return event["type"]


def _new_ids(type: str) -> Iterator[str]:
    if is_valid_id(type):
        yield type
    slug = _NOT_IN_IDS.sub("-", type)[:_LONGEST_SLUG]
    slug = slug if is_valid_id(slug) else f"_{slug}"
    yield slug
    yield from (f"{slug}-{number}" for number in itertools.count(2))
