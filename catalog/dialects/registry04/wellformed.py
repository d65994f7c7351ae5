"""What holds for attributes of all entities: their names, tags, times, and types of properties."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from catalog.dialects.registry04.translate import SERVED, Json, Kind, names_of
from catalog.model.errors import InvalidAttribute
from catalog.model.timestamps import parse_time

_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:\-]{0,62}")
# The drafts' own, and the names that its examples and its protocols have beside these.
_TYPES = frozenset(
    {"binary", "boolean", "duration", "integer", "number", "string", "symbol", "timestamp"}
    | {"uri", "urireference", "uritemplate", "var", "datetime", "uri-reference", "ulong", "uuid"}
)
# Members of metadata that hold properties, and those that hold no property themselves.
_SECTIONS = ("attributes", "properties", "header", "headers", "application-properties")
_ANNOTATIONS = ("message-annotations", "delivery-annotations", "footer")
_PLURAL = frozenset({*_SECTIONS, *_ANNOTATIONS, "query", "user-properties"})


def check_names(kind: Kind, subject: str, body: Mapping[str, Any]) -> None:
    """Refuse names that differ from others, or from the specification's, by case only.

    Raises:
        InvalidAttribute
    """
    seen = {name.lower(): name for name in SERVED | names_of(kind)}
    for name in (name for name, value in body.items() if value is not None):
        other = seen.setdefault(name.lower(), name)
        if other != name:
            detail = f'it differs from "{other}" by case only'
            raise InvalidAttribute(subject, name=name, error_detail=detail)


def check_tags(subject: str, tags: Any) -> None:
    """Refuse tags with keys that none can have, or values that are no strings.

    Raises:
        InvalidAttribute
    """
    for key, value in tags.items() if isinstance(tags, Mapping) else ():
        name = f"tags.{key[:64]}"
        if not _TAG.fullmatch(key):
            detail = (
                "a key needs 1 to 63 letters, digits or - _ . :, and a letter or digit at its start"
            )
            raise InvalidAttribute(subject, name=name, error_detail=detail)
        if not isinstance(value, str):
            raise InvalidAttribute(subject, name=name, error_detail="it needs to be a string")


def check_property_types(subject: str, metadata: Any) -> None:
    """Refuse properties of messages whose type is none.

    Raises:
        InvalidAttribute
    """
    for path, property in _properties(metadata):
        kind = property.get("type")
        if isinstance(kind, str) and kind.lower() not in _TYPES:
            detail = f"there are these types: {', '.join(sorted(_TYPES))}"
            raise InvalidAttribute(subject, name=f"{path}.type", error_detail=detail)


def _properties(metadata: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(metadata, Mapping):
        return
    places: dict[str, Any] = {"metadata": {k: v for k, v in metadata.items() if k not in _PLURAL}}
    places |= {f"metadata.{name}": metadata.get(name) for name in (*_SECTIONS, *_ANNOTATIONS)}
    for place, members in places.items():
        for name, property in members.items() if isinstance(members, Mapping) else ():
            if isinstance(property, Mapping):
                yield f"{place}.{name[:64]}", property


def creation_of(subject: str, body: Mapping[str, Any]) -> Json:
    """The native attribute for the time at which an entity was created, where a request says it.

    When it was modified is the server's to say; it has to be a time nevertheless.

    Raises:
        InvalidAttribute: one of them is no time.
    """
    for name in ("createdOn", "modifiedOn"):
        try:
            parse_time(str(body[name])) if body.get(name) is not None else None
        except ValueError as error:
            raise InvalidAttribute(subject, name=name, error_detail=str(error)) from error
    created = body.get("createdOn")
    return {} if created is None else {"createdat": created}
