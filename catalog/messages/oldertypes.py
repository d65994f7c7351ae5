"""Restores types of values that exist only in older editions of message definitions.

Where a document or dialect of an older edition has such a type, the definition has `string`, and
an extension attribute keeps the older type. Messages are checked by the older type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from catalog.messages.values import is_known

# The extensions of documents and of the dialect of edition 0.4.
_KEPT = ("older", "registry04")
# The paths of metadata in the older editions.
_PATHS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "envelopemetadata": (
        ("envelopemetadata",),
        ("envelopemetadata", "attributes"),
        ("metadata", "attributes"),
        ("metadata",),
    ),
    "protocoloptions": (("protocoloptions",), ("protocolmetadata",), ("metadata",)),
}


def with_older_types(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the attributes of a message with the older types of their values."""
    kept = [found for name in _KEPT if isinstance(found := attributes.get(name), Mapping)]
    if not kept:
        return attributes
    narrowed = dict(attributes)
    for name, paths in _PATHS.items():
        for older in (found for extension in kept for found in _found(extension, paths)):
            if isinstance(native := narrowed.get(name), Mapping):
                narrowed[name] = _narrowed(native, older)
    return narrowed


def _found(extension: Any, paths: tuple[tuple[str, ...], ...]) -> Iterator[Mapping[str, Any]]:
    for path in paths:
        found = extension
        for name in path:
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
