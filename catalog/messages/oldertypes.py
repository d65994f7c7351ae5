"""Types of values that a definition had in an older edition, and that the standard has not.

A document or dialect of an older edition leaves `string` in their place and keeps the type in
an extension attribute, at the place that it had. Messages are held to the type that was meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from catalog.messages.values import is_known

# The extensions of documents and of the dialect of edition 0.4.
_KEPT = ("older", "registry04")
# What metadata was called, and what it was in.
_PLACES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "envelopemetadata": (
        ("envelopemetadata",),
        ("envelopemetadata", "attributes"),
        ("metadata", "attributes"),
        ("metadata",),
    ),
    "protocoloptions": (("protocoloptions",), ("protocolmetadata",), ("metadata",)),
}


def with_older_types(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message's attributes, whose values are of the types that were kept for them."""
    kept = [found for name in _KEPT if isinstance(found := attributes.get(name), Mapping)]
    if not kept:
        return attributes
    narrowed = dict(attributes)
    for name, places in _PLACES.items():
        for older in (found for extension in kept for found in _found(extension, places)):
            if isinstance(native := narrowed.get(name), Mapping):
                narrowed[name] = _narrowed(native, older)
    return narrowed


def _found(extension: Any, places: tuple[tuple[str, ...], ...]) -> Iterator[Mapping[str, Any]]:
    for place in places:
        found = extension
        for name in place:
            found = found.get(name) if isinstance(found, Mapping) else None
        if isinstance(found, Mapping):
            yield found


def _narrowed(native: Mapping[str, Any], older: Mapping[str, Any]) -> Mapping[str, Any]:
    by_name = {name.replace("_", "-").lower(): value for name, value in older.items()}
    narrowed = dict(native)
    for name, value in native.items():
        inner = by_name.get(name.replace("_", "-").lower())
        if isinstance(value, Mapping) and isinstance(inner, Mapping):
            narrowed[name] = _narrowed(value, inner)
    kind = older.get("type")
    if native.get("type") == "string" and isinstance(kind, str) and is_known(kind):
        narrowed["type"] = kind
    return narrowed
