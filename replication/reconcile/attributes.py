"""Names the attributes that differ between a copy and its reference, with both values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

from catalog.client import Client
from catalog.model.entity import Entity, Origin
from catalog.operations.peers import MOST_ORIGINS
from replication.deciding.differingattributes import DifferingAttribute, compared
from replication.feed.feedlines import read_line
from replication.reconcile.catalogs import SurveyedCatalog
from replication.reconcile.findings import Difference

Key = tuple[str, str, str, bool]
"""The key of a difference."""


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
