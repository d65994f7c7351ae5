"""What operators are shown of copies: a side of a conflict, and attributes that differ. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson

from catalog.model.entity import Entity, Tombstone
from catalog.model.timestamps import format_time
from replication.deciding.copychecks import Incoming, MalformedCopy
from replication.store.linkconflicts import MOST_SIDE_BYTES


def side_of(copy: Incoming | None) -> bytes | None:
    """A side of a conflict as JSON of at most 64 KiB; `None` if it cannot be shown.

    A document is shown as text, as far as there is room; without it, `complete` is false.
    """
    if copy is None or isinstance(copy, MalformedCopy):
        return None
    told = _told(copy)
    for shown in (told, {**told, "document": None, "complete": False}):
        try:
            text = orjson.dumps(shown)
        # What was refused may have no form in JSON.
        except (orjson.JSONEncodeError, TypeError):
            return None
        if len(text) <= MOST_SIDE_BYTES:
            return text
    return None


def _told(copy: Entity | Tombstone) -> dict[str, Any]:
    told: dict[str, Any] = {"authority": copy.authority, "epoch": copy.epoch}
    if not isinstance(copy, Entity):
        return {**told, "deleted": True, "modifiedat": format_time(copy.deletedat)}
    document = None
    with suppress(UnicodeDecodeError):
        document = None if copy.document is None else copy.document.decode()
    return {
        **told,
        "modifiedat": format_time(copy.modifiedat),
        "attributes": dict(copy.attributes),
        "document": document,
        "complete": (document is None) == (copy.document_sha256 is None),
    }


_LONGEST_VALUE = 300
_MOST_ATTRIBUTES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingAttribute:
    """An attribute with the values at a catalog and at another one.

    The values are JSON, cut after 300 characters; `None` is no value. The document of a version is
    shown by its length and the beginning of its SHA-256.
    """

    name: str
    here: str | None
    there: str | None


def compared(here: Entity, there: Entity) -> tuple[DifferingAttribute, ...]:
    """The attributes that differ between two copies of an entity, the first 20 by name."""
    first, second = _members(here), _members(there)
    names = sorted(n for n in first.keys() | second.keys() if first.get(n) != second.get(n))
    return tuple(
        DifferingAttribute(name=name, here=_shown(first, name), there=_shown(second, name))
        for name in names[:_MOST_ATTRIBUTES]
    )


def _members(entity: Entity) -> dict[str, Any]:
    members = {
        **entity.published,
        "createdat": format_time(entity.createdat),
        "modifiedat": format_time(entity.modifiedat),
    }
    if (document := entity.document) is not None:
        digest = hashlib.sha256(document).hexdigest()[:12]
        members["(document)"] = f"{len(document):,} bytes, SHA-256 {digest}…"
    return members


def _shown(members: Mapping[str, Any], name: str) -> str | None:
    if name not in members:
        return None
    text = orjson.dumps(members[name]).decode()
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"
