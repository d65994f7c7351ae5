"""The sides of conflicts as JSON of a bounded size, so that an operator can compare both."""

from __future__ import annotations

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
    document = _text(copy.document)
    return {
        **told,
        "modifiedat": format_time(copy.modifiedat),
        "attributes": dict(copy.attributes),
        "document": document,
        "complete": (document is None) == (copy.document_sha256 is None),
    }


def _text(document: bytes | None) -> str | None:
    try:
        return None if document is None else document.decode()
    except UnicodeDecodeError:
        return None
