"""Cuts a desired state into requests that a node takes, what is referred to before what refers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

Json = dict[str, Any]

# Types that others refer to come before these.
_ORDER = {"schemagroups": 0, "messagegroups": 1, "endpoints": 3}
_OTHERS = 2
# Brackets, commas and the names of a group's collections.
_WRAPPING = 1024


class PortionTooLarge(Exception):
    """One resource alone is larger than a request may be."""

    def __init__(self, xid: str, limit: int) -> None:
        super().__init__(f"{xid} alone is larger than the {limit:,} bytes that the node takes.")


def portions(
    groups: Mapping[str, Mapping[str, Json]], model: Mapping[str, Any], limit: int
) -> list[dict[str, Json]]:
    """The bodies of the fewest requests, in their order; none where there are no groups.

    A group that is too large for one comes in several, each time with its own attributes.

    Args:
        model: the node's, as `GET /model` shows it.
        limit: the most bytes that the node takes.

    Raises:
        PortionTooLarge
    """
    whole = {name: dict(groups[name]) for name in sorted(groups, key=_place) if groups[name]}
    if not whole:
        return []
    if _size(whole) <= limit:
        return [whole]
    found: list[dict[str, Json]] = []
    used = limit
    for plural, gid, part, size in _parts(whole, model, limit - _WRAPPING):
        if used + size > limit - _WRAPPING or gid in found[-1].get(plural, {}):
            found.append({})
            used = 0
        used += size
        found[-1].setdefault(plural, {})[gid] = part
    return found


def _place(plural: str) -> tuple[int, str]:
    return _ORDER.get(plural, _OTHERS), plural


def _parts(
    groups: Mapping[str, Mapping[str, Json]], model: Mapping[str, Any], limit: int
) -> Iterator[tuple[str, str, Json, int]]:
    """Groups and parts of groups with their sizes, each small enough for a request."""
    for plural, members in groups.items():
        for gid, group in members.items():
            size = _size({plural: {gid: group}})
            if size <= limit:
                yield plural, gid, group, size
                continue
            collections = model["groups"].get(plural, {}).get("resources", {})
            for part in _cut(f"/{plural}/{gid}", group, collections, limit):
                yield plural, gid, part, _size({plural: {gid: part}})


def _cut(xid: str, group: Json, collections: Mapping[str, Any], limit: int) -> Iterator[Json]:
    own = {name: value for name, value in group.items() if name not in collections}
    part, used = dict(own), _size(own) + len(xid)
    for name in (name for name in group if name in collections):
        for rid, resource in group[name].items():
            size = _size({name: {rid: resource}})
            if len(part) > len(own) and used + size > limit:
                yield part
                part, used = dict(own), _size(own) + len(xid)
            if used + size > limit:
                raise PortionTooLarge(f"{xid}/{name}/{rid}", limit)
            part.setdefault(name, {})[rid] = resource
            used += size
    yield part


def _size(value: Any) -> int:
    return len(orjson.dumps(value))
