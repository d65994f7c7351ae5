"""The ordered list of a service's events, and the messages of the events: pure, no I/O."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from catalog.dialects.discovery.serviceevents import (
    DISCOVERY_ATTRIBUTE,
    Json,
    as_object,
    from_message,
    put_or_remove,
    to_message,
)
from catalog.model.xid import is_valid_id

_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9\-._~:@]")
_LONGEST_SLUG = 100


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
