"""Names the attributes that differ between a copy and its reference, with both values."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from catalog.client import Client
from catalog.model.entity import Entity, Origin
from catalog.model.timestamps import format_time
from catalog.operations.peers import MOST_ORIGINS
from replication.feed.feedlines import read_line
from replication.reconcile.catalogs import SurveyedCatalog
from replication.reconcile.findings import Difference

_LONGEST_VALUE = 300
_MOST_ATTRIBUTES = 20

Key = tuple[str, str, str, bool]
"""The key of a difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingAttribute:
    """An attribute with the values at the catalog and at the reference.

    The values are JSON, cut after 300 characters; `None` is no value. The document of a version is
    shown by its length and the beginning of its SHA-256.
    """

    name: str
    here: str | None
    there: str | None


def differing_attributes(
    differences: Iterable[Difference], catalogs: Sequence[SurveyedCatalog]
) -> dict[Key, tuple[DifferingAttribute, ...]]:
    """Ask the nodes for both copies of differences, and compare the copies attribute by attribute.

    Differences without a live copy at each side, or with a side that was not read from a running
    node, are left out.

    Raises:
        CatalogUnread
    """
    wanted = [one for one in differences if one.reference is not None and one.epoch is not None]
    origins: dict[str, set[Origin]] = defaultdict(set)
    for one in wanted:
        for name in (one.catalog, one.reference):
            origins[str(name)].add(Origin(one.authority, one.origin))
    copies = {
        each.name: _fetch(each, sorted(origins[each.name]))
        for each in catalogs
        if each.node is not None and each.name in origins
    }
    found = {}
    for one in wanted:
        origin = Origin(one.authority, one.origin)
        here = copies.get(one.catalog, {}).get(origin)
        there = copies.get(str(one.reference), {}).get(origin)
        if here is not None and there is not None and one.reference != one.catalog:
            found[one.key] = compared(here, there)
    return found


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


def _fetch(catalog: SurveyedCatalog, origins: Sequence[Origin]) -> dict[Origin, Entity]:
    node, found = catalog.node, {}
    assert node is not None, "only nodes are asked"
    for start in range(0, len(origins), MOST_ORIGINS):
        part = origins[start : start + MOST_ORIGINS]
        for line in node.call(partial(_lines, origins=part)):
            copy = read_line(line)
            if isinstance(copy, Entity):
                found[Origin(copy.authority, copy.origin)] = copy
    return found


async def _lines(client: Client, *, origins: Sequence[Origin]) -> list[bytes]:
    return [line async for line in client.fetch_lines(origins)]
