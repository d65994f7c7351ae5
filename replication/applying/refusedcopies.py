"""Refused copies as JSON, so that an operator can compare both sides of a conflict."""

from __future__ import annotations

from typing import Any

import orjson

from catalog.model.entity import Entity
from catalog.model.timestamps import format_time
from replication.deciding.copychecks import Incoming, MalformedCopy
from replication.store.linkconflicts import MOST_KEPT_BYTES


def refused_copy(copy: Incoming | None) -> bytes | None:
    """A refused copy as JSON of at most 64 KiB; `None` if it cannot be kept.

    A document is kept as text, as far as there is room; without it, `complete` is false.
    """
    if copy is None or isinstance(copy, MalformedCopy):
        return None
    told = side_of(copy)
    for shown in (told, {**told, "document": None, "complete": False}):
        try:
            text = orjson.dumps(shown)
        except (orjson.JSONEncodeError, TypeError):
            return None
        if len(text) <= MOST_KEPT_BYTES:
            return text
    return None


def side_of(copy: Incoming) -> dict[str, Any]:
    """One side of a conflict: the authority, the epoch and the content of an entity."""
    assert not isinstance(copy, MalformedCopy), "a malformed copy has no content"
    told: dict[str, Any] = {"authority": copy.authority, "epoch": copy.epoch, "complete": True}
    if not isinstance(copy, Entity):
        return {**told, "deleted": True, "modifiedat": format_time(copy.deletedat)}
    document, is_text = copy.document, True
    if document is not None:
        try:
            told["document"] = document.decode()
        except UnicodeDecodeError:
            is_text = False
    return {
        **told,
        "deleted": False,
        "modifiedat": format_time(copy.modifiedat),
        "attributes": dict(copy.attributes),
        "complete": is_text,
    }
