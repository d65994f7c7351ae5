"""Translates groups and versions of the Message Catalog API to entities, and back: no I/O.

Attributes without a native form are kept in the extension attribute `messagecatalog`, as is a
definition with an incomplete native form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog.dialects.bodypath import BodyPath, text_in
from catalog.dialects.messagecatalog.dataschemas import check_policy_name, fits
from catalog.dialects.messagecatalog.definitionformats import (
    CATALOG_ATTRIBUTE,
    DEFINITION_FORMATS,
    DefinitionFormat,
    check_format,
    format_of,
    kept_in,
)
from catalog.dialects.messagecatalog.uris import catalog_root
from catalog.dialects.versionnumbers import is_number
from catalog.model.entity import Entity
from catalog.model.errors import InvalidAttribute, MismatchedId, RequiredAttributeMissing
from catalog.model.timestamps import format_time
from catalog.reading.entities import check_readable

_TEXTS = ("description", "documentation", "documentationformat", "tags")
_ASSIGNED = ("id", "version", "createdtimeutc", "updatedtimeutc")
_NATIVE = ("description", "tags")
_OF_BOTH = (*_ASSIGNED, *_TEXTS, "format")
_OF_DEFINITION = (*_OF_BOTH, "authority", "definition")
_URL = "URL"


def group_to_entity(
    id: str, body: Mapping[str, Any], held: Mapping[str, Any], subject: str
) -> dict[str, Any]:
    """The native attributes of a group that a request writes.

    Args:
        held: the present attributes; attributes that the API cannot express are kept.

    Raises:
        InvalidAttribute, MismatchedId, RequiredAttributeMissing
    """
    _check_id(id, body, subject, "messagegroup")
    format = body.get("format", format_of(held))
    if format is None:
        raise RequiredAttributeMissing(subject, list="format")
    check_format(format, BodyPath(subject, "format"))
    check_policy_name(body.get("compatibility"), BodyPath(subject, "compatibility"))
    native, kept = _common(body, subject, _OF_BOTH)
    replaced = {*_NATIVE, "documentation", CATALOG_ATTRIBUTE}
    attributes = {n: v for n, v in held.items() if n not in replaced} | native
    if format != format_of(attributes):
        known = DEFINITION_FORMATS.get(format)
        attributes |= known.native if known is not None else {}
    if format != format_of(attributes):
        kept["format"] = format
    return attributes | ({CATALOG_ATTRIBUTE: kept} if kept else {})


def version_to_entity(
    id: str, body: Mapping[str, Any], format: str, subject: str, *, checks: bool = True
) -> dict[str, Any]:
    """The native attributes of a version that is added to the message `id`.

    Args:
        checks: check the definition by the rules of the format; false for a foreign definition.

    Raises:
        InvalidAttribute, MismatchedId: the definition breaks the rules of the format.
    """
    _check_id(id, body, subject, "message")
    native, kept = _common(body, subject, _OF_DEFINITION)
    authority = text_in(body, "authority", BodyPath(subject, "authority"))
    if authority:
        if not fits("uriabsolute", authority):
            raise BodyPath(subject, "authority").fault("it needs to be an absolute URI")
        kept["authority"] = authority
    definition, known = body.get("definition"), DEFINITION_FORMATS.get(format)
    if known is None:
        kept["format"] = format
        kept |= {"definition": definition} if definition is not None else {}
    else:
        definition = {} if definition is None else definition
        if checks:
            known.check(definition, id, BodyPath(subject, "definition"))
        native |= known.to_native(definition)
        if definition != known.from_native(native) or "definition" not in body:
            kept["definition"] = body.get("definition")
    return native | ({CATALOG_ATTRIBUTE: kept} if kept else {})


def show_group(group: Entity) -> dict[str, Any]:
    """A group in the form of the Message Catalog API."""
    check_readable(group)
    shown = {
        "id": group.path.gid,
        "format": format_of(group.attributes),
        **_common_of(group.attributes, hidden=(*_ASSIGNED, "format")),
        "createdtimeutc": format_time(group.createdat),
        "updatedtimeutc": format_time(group.modifiedat),
    }
    return {name: value for name, value in shown.items() if value is not None}


def show_version(version: Entity, resource: Entity, node: str) -> dict[str, Any]:
    """A version in the form of the Message Catalog API.

    Args:
        resource: the message of the version.
        node: the authority of the node, which is not shown.
    """
    check_readable(version)
    vid, attributes = version.path.vid, version.attributes
    format = format_of(attributes)
    shown = {
        "id": version.path.rid,
        "version": int(vid) if is_number(vid) else None,
        "authority": authority_of(version, node),
        "format": format,
        **_common_of(attributes, hidden=(*_ASSIGNED, "authority", "definition", "format")),
        "definition": _definition_of(version.path.rid, attributes, format),
        "createdtimeutc": format_time(version.createdat),
        # Native clients change versions in place.
        "updatedtimeutc": format_time(max(version.modifiedat, resource.modifiedat)),
    }
    return {name: value for name, value in shown.items() if value is not None}


def authority_of(version: Entity, node: str) -> str | None:
    """The authority that a definition was written with, else the catalog of a replica.

    `None` is the implied authority: the root of this catalog.
    """
    given = kept_in(version.attributes).get("authority")
    if isinstance(given, str):
        return given
    return None if version.authority == node else catalog_root(version.authority)


def _definition_of(id: str, attributes: Mapping[str, Any], format: str | None) -> Any:
    """The written definition, unless the native attributes were changed since."""
    kept = kept_in(attributes)
    known = DEFINITION_FORMATS.get(format or "")
    if known is None:
        return kept.get("definition")
    now = known.from_native(attributes)
    if "definition" not in kept:
        return now
    written = kept["definition"]
    return written if now == _seen_natively(known, id, written) else now


def _seen_natively(known: DefinitionFormat, id: str, written: Any) -> dict[str, Any] | None:
    """A definition after a round trip through the native form.

    `None` is for an invalid definition, which a native client may have stored.
    """
    definition = {} if written is None else written
    try:
        known.check(definition, id, BodyPath("", ""))
    except InvalidAttribute:
        return None
    return known.from_native(known.to_native(definition))


def _check_id(id: str, body: Mapping[str, Any], subject: str, singular: str) -> None:
    given = body.get("id", id)
    if given != id:
        raise MismatchedId(subject, singular=singular, invalid_id=str(given), expected_id=id)


def _common(
    body: Mapping[str, Any], subject: str, names: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The attributes common to groups and versions: native, and without a native form."""
    texts = {
        name: text
        for name in _TEXTS
        if (text := text_in(body, name, BodyPath(subject, name))) is not None
    }
    native = {name: texts[name] for name in _NATIVE if texts.get(name)}
    kept = {name: value for name, value in body.items() if name not in names and value is not None}
    documentation = texts.get("documentation", "")
    if texts.get("documentationformat") == _URL and fits("url", documentation) and documentation:
        native["documentation"] = documentation
    else:
        kept |= {n: texts[n] for n in ("documentation", "documentationformat") if n in texts}
    kept |= {name: "" for name in _NATIVE if texts.get(name) == ""}
    return native, kept


def _common_of(attributes: Mapping[str, Any], *, hidden: tuple[str, ...]) -> dict[str, Any]:
    kept = {name: value for name, value in kept_in(attributes).items() if name not in hidden}
    native = {name: attributes[name] for name in _NATIVE if name in attributes}
    if "documentation" in attributes:
        native |= {"documentation": attributes["documentation"], "documentationformat": _URL}
    return kept | native
