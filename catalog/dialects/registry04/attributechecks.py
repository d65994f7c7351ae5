"""Rules of edition 0.4 for attributes that clients write, beyond the rules of the model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from catalog.dialects.bodypath import BodyPath
from catalog.dialects.registry04.address import Types
from catalog.dialects.registry04.names import Json, Kind
from catalog.dialects.registry04.translate import SERVED, names_of
from catalog.model.errors import InvalidAttribute, OneResource, RequiredAttributeMissing
from catalog.model.timestamps import parse_time

_JSON_TYPES: Mapping[str, type] = {
    **dict.fromkeys(("usage", "format", "schemaformat", "schemaurl", "uri", "origin"), str),
    **dict.fromkeys(("config", "metadata", "tags"), dict),
    "definitionGroups": list,
}
_ONE_SCHEMA = ("schema", "schemaurl")
_TEXT_OF: Mapping[type, str] = {str: "a string", dict: "an object", list: "an array"}
_OVER_HTTP = re.compile(r"https?:|(?![A-Za-z][A-Za-z0-9+.-]*:)", re.IGNORECASE)
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:\-]{0,62}")
# The types of the draft, and further types in the draft's examples and protocols.
_PROPERTY_TYPES = frozenset(
    {"binary", "boolean", "duration", "integer", "number", "string", "symbol", "timestamp"}
    | {"uri", "urireference", "uritemplate", "var", "datetime", "uri-reference", "ulong", "uuid"}
)
# Members of metadata that contain properties, and members that are no properties themselves.
_SECTIONS = ("attributes", "properties", "header", "headers", "application-properties")
_ANNOTATIONS = ("message-annotations", "delivery-annotations", "footer")
_PLURAL = frozenset({*_SECTIONS, *_ANNOTATIONS, "query", "user-properties"})


def check_body(kind: Kind, subject: str, body: Mapping[str, Any]) -> None:
    """Refuse attributes that edition 0.4 does not allow.

    Raises:
        InvalidAttribute, OneResource, RequiredAttributeMissing
    """
    for name, wanted in _JSON_TYPES.items():
        if body.get(name) is not None and not isinstance(body[name], wanted):
            detail = f"it needs to be {_TEXT_OF[wanted]}"
            raise InvalidAttribute(subject, name=name, error_detail=detail)
    if body.get("format") == "":
        raise InvalidAttribute(subject, name="format", error_detail="it must not be empty")
    _check_uris(kind, subject, body)
    _check_names(kind, subject, body)
    _check_tags(BodyPath(subject, "tags"), body.get("tags"))
    for place, property in _properties(BodyPath(subject, "metadata"), body.get("metadata")):
        type = property.get("type")
        if isinstance(type, str) and type.lower() not in _PROPERTY_TYPES:
            known = ", ".join(sorted(_PROPERTY_TYPES))
            raise place.at("type").fault(f"there are these types: {known}")
    config = body.get("config")
    if kind == "endpoint" and config is not None:
        protocol = config.get("protocol")
        if not isinstance(protocol, str) or not protocol:
            raise RequiredAttributeMissing(subject, list="config.protocol")
    if kind == "definition":
        given = [name for name in _ONE_SCHEMA if body.get(name) is not None]
        if len(given) > 1:
            raise OneResource(subject, list=",".join(given))
        if given and not body.get("schemaformat"):
            raise RequiredAttributeMissing(subject, list="schemaformat")


def check_format_given(
    kind: Kind, subject: str, own: Mapping[str, Any], before: Mapping[str, Any] | None
) -> None:
    """Refuse a definition group without a format.

    Args:
        before: the group's native attributes, which may have no format; `None` for a new group.
    """
    had = before is None or not before.keys().isdisjoint(("envelope", "protocol"))
    if kind == "definitionGroup" and had and own.get("format") is None:
        raise RequiredAttributeMissing(subject, list="format")


def resource_attributes(types: Types, body: Mapping[str, Any]) -> Json:
    """The attributes of a resource or version, without the document and served attributes."""
    ignored = SERVED | {"versions", "versionsURL", "versionsCount"}
    if types.has_document:
        ignored |= {*document_names(types)}
    return {name: value for name, value in body.items() if name not in ignored}


def without_implied_name(own: Json, id: str, before: Mapping[str, Any] | None) -> Json:
    """Attributes without a name that repeats the id, which is shown for an absent name.

    Args:
        before: the entity's native attributes; `None` for a new entity, which keeps the name.
    """
    is_implied = before is not None and "name" not in before and own.get("name") == id
    return {name: value for name, value in own.items() if not (is_implied and name == "name")}


def without_obsolete(types: Types, held: Json, given: Mapping[str, Any]) -> Json:
    """The held attributes that the given attributes do not make obsolete.

    A definition has one schema, embedded or not, and metadata for a single format.
    """
    if types.resource.singular != "definition":
        return held
    gone = {*_ONE_SCHEMA} if any(given.get(name) for name in _ONE_SCHEMA) else set()
    if given.get("format", held.get("format")) != held.get("format"):
        gone.add("metadata")
    return {name: value for name, value in held.items() if name not in gone}


def document_names(types: Types) -> tuple[str, str, str, str]:
    """The attributes for a document, the base64 form, the URI, and an alias of the URI."""
    singular = types.resource.singular
    return singular, f"{singular}Base64", f"{singular}URI", f"{singular}url"


def _check_uris(kind: Kind, subject: str, body: Mapping[str, Any]) -> None:
    """Refuse documentation that is not reachable over HTTP, and an empty origin."""
    docs = body.get("docs")
    if isinstance(docs, str) and (not docs or not _OVER_HTTP.match(docs)):
        detail = "it needs to be a URI reference, with the scheme http or https if it has any"
        raise InvalidAttribute(subject, name="docs", error_detail=detail)
    if kind == "endpoint" and body.get("origin") == "":
        raise InvalidAttribute(subject, name="origin", error_detail="it must not be empty")


def _check_names(kind: Kind, subject: str, body: Mapping[str, Any]) -> None:
    """Refuse names that differ by case only, from each other or from the specification."""
    seen = {name.lower(): name for name in SERVED | names_of(kind)}
    for name in (name for name, value in body.items() if value is not None):
        other = seen.setdefault(name.lower(), name)
        if other != name:
            detail = f'it differs from "{other}" by case only'
            raise InvalidAttribute(subject, name=name, error_detail=detail)


def _check_tags(place: BodyPath, tags: Any) -> None:
    for key, value in tags.items() if isinstance(tags, Mapping) else ():
        if not _TAG.fullmatch(key):
            raise place.at(key).fault(
                "a key needs 1 to 63 letters, digits or - _ . :, and a letter or digit at its start"
            )
        if not isinstance(value, str):
            raise place.at(key).fault("it needs to be a string")


def _properties(place: BodyPath, metadata: Any) -> Iterator[tuple[BodyPath, Mapping[str, Any]]]:
    if not isinstance(metadata, Mapping):
        return
    places = {place: {k: v for k, v in metadata.items() if k not in _PLURAL}}
    places |= {place.at(name): metadata.get(name, {}) for name in (*_SECTIONS, *_ANNOTATIONS)}
    for section, members in places.items():
        for name, property in members.items() if isinstance(members, Mapping) else ():
            if isinstance(property, Mapping):
                yield section.at(name), property


def creation_of(subject: str, body: Mapping[str, Any]) -> Json:
    """The native attribute for an entity's time of creation, if the request has the time.

    The time of modification, which the server sets, is checked only.

    Raises:
        InvalidAttribute: the creation or modification time is no timestamp.
    """
    for name in ("createdOn", "modifiedOn"):
        try:
            parse_time(str(body[name])) if body.get(name) is not None else None
        except ValueError as error:
            raise InvalidAttribute(subject, name=name, error_detail=str(error)) from error
    created = body.get("createdOn")
    return {} if created is None else {"createdat": created}
