"""Bounds the size of a model in a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog.model.concorderrors import LimitExceeded

# Building and showing a model of the largest size takes a second.
_MOST_TYPES = 250
_MOST_VALUES = 20_000


def check_model_size(source: Mapping[str, Any]) -> None:
    """Refuse a model that would take long to build and to show, before the build.

    An import counts as much as the largest type that could be imported.

    Args:
        source: an unchecked modelsource document.

    Raises:
        LimitExceeded
    """
    groups = _objects(source.get("groups"))
    kinds = [kind for group in groups for kind in _objects(group.get("resources"))]
    named = (group.get("ximportresources") for group in groups)
    imports = sum(len(each) for each in named if isinstance(each, list))
    if len(groups) + len(kinds) + imports > _MOST_TYPES:
        raise _too_large(_MOST_TYPES, "types in its model")
    values = _values_in(source)
    if imports:
        values += imports * max(map(_values_in, kinds), default=0)
    if values > _MOST_VALUES:
        raise _too_large(_MOST_VALUES, "values in its model")


def _objects(value: Any) -> list[Mapping[str, Any]]:
    """The values of the members of an object, restricted to objects."""
    members = value.values() if isinstance(value, Mapping) else ()
    return [member for member in members if isinstance(member, Mapping)]


def _values_in(value: Any) -> int:
    found = [value]
    for each in found:
        if isinstance(each, Mapping):
            found += each.values()
        elif isinstance(each, list):
            found += each
    return len(found)


def _too_large(limit: int, things: str) -> LimitExceeded:
    return LimitExceeded(limit=str(limit), things=things, setting="fixed")
