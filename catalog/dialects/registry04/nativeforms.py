"""The native forms of groups and versions that a request writes, and the rules of edition 0.4.

The rules hold beyond the rules of the model. A definition consists of attributes. Every other
resource is a document with attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from catalog.dialects.bodypath import BodyPath
from catalog.dialects.registry04.load import Layout
from catalog.dialects.registry04.names import Json, Kind, Types
from catalog.dialects.registry04.requestcontent import RequestContent, check_identity
from catalog.dialects.registry04.translate import (
    REGISTRY04_ATTRIBUTE,
    SERVED,
    from_entity,
    names_of,
    shown_of,
    to_entity,
)
from catalog.model.entity import Entity
from catalog.model.errors import BadRequest, InvalidAttribute, OneResource, RequiredAttributeMissing
from catalog.model.interaction import VersionDocument
from catalog.model.schema import Attribute
from catalog.model.timestamps import parse_time
from catalog.model.xid import Xid

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
# A new version of a schema is compatible with every earlier version.
# Source: CloudEvents Registry 0.4, "Resource: schemas".
_SCHEMA_COMPATIBILITY = "backward_transitive"
# No entity has this epoch, so a write that expects the epoch fails if the entity exists.
UNUSED_EPOCH = 2**62
_METADATA = ("name", "description", "tags", "docs", "createdBy", "modifiedBy", "type")
# Attributes of a single version, not inherited by the next version.
_OF_ONE = frozenset({"ancestorid", "contenttype", REGISTRY04_ATTRIBUTE})


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


def native_group(types: Types, layout: Layout, path: str, body: Mapping[str, Any]) -> Json:
    """A new group with the resources of the group.

    Raises:
        BadRequest: the resources are no map; and the errors of `check_body`.
    """
    own = checked_group(types, path, body)
    check_format_given(types.group.singular, path, own, None)
    fill = layout.fill(types.group_type.own_attributes)
    native = to_entity(types.group.singular, own, None, fill, layout.references)
    native |= {"epoch": UNUSED_EPOCH, **creation_of(path, body)}
    collection = f"{path}/{types.resource.native}"
    native[types.resource.native] = {
        rid: _native_resource(types, layout, f"{collection}/{rid}", rid, resource)
        for rid, resource in _entries(collection, body.get(types.resource.plural))
    }
    return native


def checked_group(types: Types, path: str, body: Mapping[str, Any]) -> Json:
    """The checked attributes of a group, without attributes that edition 0.4 serves or ignores."""
    plural = types.resource.plural
    ignored = SERVED | {plural, f"{plural}URL", f"{plural}Count"}
    own = {name: value for name, value in body.items() if name not in ignored}
    check_body(types.group.singular, path, own)
    return own


def group_patch(types: Types, layout: Layout, own: Json, before: Entity) -> Json:
    """The native patch that replaces the attributes of a group."""
    check_format_given(types.group.singular, before.xid, own, before.attributes)
    own = without_implied_name(own, before.path.gid, before.attributes)
    return _patch(types.group.singular, own, before, layout, types.group_type.own_attributes)


def _patch(
    kind: Kind, own: Json, before: Entity, layout: Layout, definitions: Mapping[str, Attribute]
) -> Json:
    """A native patch that replaces the attributes of an entity; hidden attributes stay."""
    attributes = before.attributes
    native = to_entity(kind, own, attributes, layout.fill(definitions), layout.references)
    gone = shown_of(kind, attributes) | {REGISTRY04_ATTRIBUTE}
    return {**{name: None for name in gone if name in attributes}, **native}


def _native_resource(types: Types, layout: Layout, path: str, rid: str, body: Json) -> Json:
    check_identity(path, {"id": rid}, body)
    own = resource_attributes(types, body)
    versions = {
        vid: _native_version(types, layout, f"{path}/versions/{vid}", {**own, **version})
        for vid, version in _entries(f"{path}/versions", body.get("versions"))
    }
    native = {"versions": versions} if versions else _native_version(types, layout, path, body)
    return {**native, "meta": new_meta(types)}


def _entries(path: str, collection: Any) -> Iterator[tuple[str, Json]]:
    if not isinstance(collection, dict | None):
        raise BadRequest(path, error_detail=f"{path} needs to be a map")
    for id, body in (collection or {}).items():
        if not isinstance(body, dict):
            raise BadRequest(f"{path}/{id}", error_detail=f"{path}/{id} is no object")
        yield id, body


def new_meta(types: Types) -> Json:
    """The meta attributes of a new resource."""
    has_rule = types.resource_type.validatecompatibility
    return {"compatibility": _SCHEMA_COMPATIBILITY} if has_rule else {}


def _native_version(types: Types, layout: Layout, path: str, body: Mapping[str, Any]) -> Json:
    native = _native_attributes(types, layout, path, resource_attributes(types, body), None)
    return native | _native_document(types, path, body) | creation_of(path, body)


def _native_attributes(
    types: Types, layout: Layout, path: str, own: Json, before: Mapping[str, Any] | None
) -> Json:
    check_body(types.resource.singular, path, own)
    fill = layout.fill(types.resource_type.version_attributes)
    return to_entity(types.resource.singular, own, before, fill, layout.references)


def _native_document(types: Types, path: str, body: Mapping[str, Any]) -> Json:
    """The native attributes for a document inside the metadata; empty without a document."""
    if not types.has_document:
        return {}
    value, encoded, uri, url = document_names(types)
    given = [name for name in (value, encoded, uri, url) if body.get(name) is not None]
    if len(given) > 1 and {*given} != {uri, url}:
        raise OneResource(path, list=",".join(given))
    if not given:
        return {}
    native, content = types.resource_type.singular, body[given[0]]
    if given[0] in (uri, url):
        return {f"{native}url": content}
    if given[0] == encoded:
        return {f"{native}base64": content}
    text = isinstance(content, str)
    return {native: content, "contenttype": "text/plain" if text else "application/json"}


def native_version(
    types: Types, layout: Layout, xid: Xid, content: RequestContent, before: Entity | None = None
) -> tuple[Json, VersionDocument | None]:
    """A version; the request's body is the document, if the type has documents.

    An empty body erases the document of a replaced version, and gives a new version no document.

    Args:
        xid: the xid of the version or of the resource.
        before: the replaced version, or the predecessor of a new version.

    Raises:
        HeaderError: headers and body do not agree; and the errors of `check_body`.
    """
    merged = content.attributes(types, {} if before is None else _kept(types, layout, before))
    held = None if before is None else before.attributes
    path, own = str(xid), without_implied_name(resource_attributes(types, merged), xid.rid, held)
    native = _native_attributes(types, layout, path, own, held)
    if not types.has_document:
        return native, None
    if content.document:
        native["contenttype"] = content.media_type
        return native, VersionDocument(body=content.document)
    elsewhere = _native_document(types, path, merged)
    if elsewhere or before is None:
        return native | elsewhere, None
    return native, VersionDocument(body=None)


def _kept(types: Types, layout: Layout, version: Entity) -> Json:
    """The attributes of a version that stay unless the request names them.

    Of a document, every attribute stays; of a definition, only the metadata common to entities.
    """
    own = _shown(types, layout, version)
    if not types.has_document:
        return {name: own[name] for name in (*_METADATA, types.uri) if name in own}
    if (url := version.attributes.get(f"{types.resource_type.singular}url")) is not None:
        own[types.uri] = url
    return own


def _shown(types: Types, layout: Layout, version: Entity) -> Json:
    fill = layout.fill(types.resource_type.version_attributes)
    return from_entity(types.resource.singular, version.attributes, fill, layout.references)


def metadata_patch(
    types: Types, layout: Layout, path: str, body: Mapping[str, Any], version: Entity
) -> Json:
    """The native patch for a version's metadata; null deletes, and missing attributes stay."""
    given = resource_attributes(types, body)
    own = {**without_obsolete(types, _shown(types, layout, version), given), **given}
    own = without_implied_name(own, version.path.rid, version.attributes)
    kind = types.resource.singular
    check_body(kind, path, own)
    native = _patch(kind, own, version, layout, types.resource_type.version_attributes)
    document = _native_document(types, path, body)
    if not document and types.has_document and types.uri in body:
        document = {types.resource_type.singular: None}
    return native | document


def cleared(types: Types, version: Entity) -> Json:
    """Nulls for the attributes that a version loses unless the request writes them."""
    shown = shown_of(types.resource.singular, version.attributes) | _OF_ONE - {"ancestorid"}
    return {name: None for name in shown if name in version.attributes}


def inherited(types: Types, version: Entity) -> Json:
    """The attributes hidden from edition 0.4 that the next version inherits."""
    kind = types.resource_type
    left_out = shown_of(types.resource.singular, version.attributes) | kind.managed | _OF_ONE
    left_out |= {f"{kind.singular}url"}
    return {n: value for n, value in version.attributes.items() if n not in left_out}
