"""Formats of schemas, and the documents of schemas that refer to other schemas.

The document of a schema refers to other schemas of the catalog by xid. A schema that describes a
payload also contains the schemas that it refers to, each with its xid as `$id` (JSON Schema
2020-12, 9.3 "Compound Documents"), so that payloads are validated without a fetch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from catalog.documents.asyncapi import references

JSON_SCHEMA = "JsonSchema/draft-07"
"""The format of schemas of AsyncAPI, which are a superset of this draft."""

_BUNDLED = "definitions"
_OWN = re.compile(
    r"application/vnd\.aai\.asyncapi(?:\+json|\+yaml)?(?:;version=[0-9.]+)?", re.IGNORECASE
)
_MEDIA_TYPES = (
    (r"application/schema(?:\+json|\+yaml)?;version=(draft-.+)", "JsonSchema/{}"),
    (r"application/vnd\.apache\.avro(?:\+json|\+yaml)?;version=(.+)", "Avro/{}"),
    (r"application/vnd\.google\.protobuf;version=(.+)", "Protobuf/{}"),
    (r"application/vnd\.oai\.openapi(?:\+json|\+yaml)?;version=(.+)", "OpenAPI/{}"),
    (r"application/raml\+yaml;version=(.+)", "RAML/{}"),
)
_OF_FORMATS = {
    "jsonschema": "application/schema+json;version={}",
    "avro": "application/vnd.apache.avro;version={}",
    "protobuf": "application/vnd.google.protobuf;version={}",
    "openapi": "application/vnd.oai.openapi;version={}",
    "raml": "application/raml+yaml;version={}",
}


def format_of(media_type: str) -> str:
    """The format of a schema with a `schemaFormat`; other media types name themselves."""
    written = media_type.replace(" ", "")
    if _OWN.fullmatch(written):
        return JSON_SCHEMA
    for pattern, format in _MEDIA_TYPES:
        if found := re.fullmatch(pattern, written, re.IGNORECASE):
            return format.format(found[1])
    return media_type


def media_type_of(format: str) -> str:
    """The `schemaFormat` of a format; empty for the default of AsyncAPI."""
    if format.lower() == JSON_SCHEMA.lower():
        return ""
    name, _, version = format.partition("/")
    return _OF_FORMATS.get(name.lower(), format).format(version or "unknown")


def is_json_schema(format: str) -> bool:
    return format.lower().startswith(("jsonschema", "openapi"))


def split(entry: Any) -> tuple[str, Any, references.Members, bool]:
    """The `schemaFormat`, the schema, further members, and whether they are in a wrapper."""
    if isinstance(entry, dict) and "schema" in entry and "schemaFormat" in entry:
        further = references.without(entry, "schema", "schemaFormat")
        return str(entry["schemaFormat"]), entry["schema"], further, True
    return "", entry, {}, False


def bundle(xid: str, documents: Mapping[str, Any], spend: Callable[[int], None]) -> Any:
    """The document of a schema together with the schemas that it refers to.

    Args:
        xid: the xid of the schema.
        documents: the JSON documents of the schemas by xid.
        spend: is told the number of values of each added document.
    """
    document = documents[xid]
    if not isinstance(document, dict) or "$ref" in document:
        return document
    pending, added = [document], dict[str, Any]()
    while pending:
        for reference in _references(pending.pop()):
            target, _ = references.entity_reference(reference)
            further = documents.get(target)
            if isinstance(further, dict) and target != xid and target not in added:
                added[target] = {"$id": target, **further}
                spend(references.size(further))
                pending.append(further)
    if not added:
        return document
    own = document.get(_BUNDLED)
    definitions = dict(references.object_in(own))
    for target in sorted(added):
        name = target.rpartition("/")[2]
        while name in definitions:
            name = f"{name}-"
        definitions[name] = added[target]
    return {**document, _BUNDLED: definitions}


def unbundle(document: Any) -> Any:
    """The document of a schema without the schemas that `bundle` has added."""
    own = document.get(_BUNDLED) if isinstance(document, dict) else None
    if not isinstance(own, dict):
        return document
    left = {name: each for name, each in own.items() if not _is_added(each)}
    if len(left) == len(own):
        return document
    rest = references.without(document, _BUNDLED)
    return {**rest, _BUNDLED: left} if left else rest


def _is_added(definition: Any) -> bool:
    id = definition.get("$id") if isinstance(definition, dict) else None
    return isinstance(id, str) and bool(references.entity_reference(id)[0])


def with_references(value: Any, target_of: Callable[[str], str]) -> Any:
    """A copy of a value with other targets of references.

    Args:
        value: a JSON value.
        target_of: the target in place of a target.
    """
    if isinstance(value, list):
        return [with_references(item, target_of) for item in value]
    if not isinstance(value, dict):
        return value
    copy = {name: with_references(member, target_of) for name, member in value.items()}
    if reference := references.reference_of(value):
        copy["$ref"] = target_of(reference)
    return copy


def entities_named_in(groups: Mapping[str, Any]) -> set[str]:
    """The paths of the groups and resources that texts of groups name as references."""
    found = set()
    pending: list[Any] = [groups]
    while pending:
        each = pending.pop()
        inner = each.values() if isinstance(each, dict) else each
        for value in inner:
            if isinstance(value, dict | list):
                pending.append(value)
            elif isinstance(value, str) and "/" in value:
                path, _ = references.entity_reference(value.removeprefix("#"))
                found |= {"/".join(path.split("/")[:5])} if path else set()
    return found


def _references(value: Any) -> list[str]:
    found: list[str] = []
    pending = [value]
    while pending:
        each = pending.pop()
        if reference := references.reference_of(each):
            found.append(reference)
        pending += each.values() if isinstance(each, dict) else each
        pending = [inner for inner in pending if isinstance(inner, dict | list)]
    return found
