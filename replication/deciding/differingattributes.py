"""Names the attributes that differ between two copies of an entity, with both values. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from catalog.model.entity import Entity
from catalog.model.timestamps import format_time

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
    document = entity.document
    return {
        **entity.published,
        "createdat": format_time(entity.createdat),
        "modifiedat": format_time(entity.modifiedat),
        **({} if document is None else {"(document)": _described(document)}),
    }


def _described(document: bytes) -> str:
    return f"{len(document):,} bytes, SHA-256 {hashlib.sha256(document).hexdigest()[:12]}…"


def _shown(members: Mapping[str, Any], name: str) -> str | None:
    if name not in members:
        return None
    text = orjson.dumps(members[name]).decode()
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"
