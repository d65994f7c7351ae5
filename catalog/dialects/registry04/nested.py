"""Resources that come inside their group, as the documents of edition 0.4 have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from catalog.dialects.registry04.address import Types
from catalog.dialects.registry04.attributechecks import (
    check_body,
    document_names,
    resource_attributes,
)
from catalog.dialects.registry04.layout import Layout
from catalog.dialects.registry04.requestcontent import check_identity
from catalog.dialects.registry04.translate import Json, to_entity
from catalog.dialects.registry04.wellformed import creation_of
from catalog.model.errors import BadRequest, OneResource

# Any new version of a schema is compatible with all that came before it.
# Source: CloudEvents Registry 0.4, "Resource: schemas".
SCHEMA_COMPATIBILITY = "backward_transitive"


def native_resources(types: Types, show: Layout, group: str, collection: Any) -> Json:
    """The native form of the resources of a new group.

    Raises:
        BadRequest: it is no map of resources; and what `check_body` raises.
    """
    path = f"{group}/{types.resource.native}"
    return {
        rid: _native_resource(types, show, f"{path}/{rid}", rid, body)
        for rid, body in _entries(path, collection)
    }


def _native_resource(types: Types, show: Layout, subject: str, rid: str, body: Json) -> Json:
    check_identity(subject, {"id": rid}, body)
    own = resource_attributes(types, body)
    versions = {
        vid: _native_version(types, show, f"{subject}/versions/{vid}", {**own, **version})
        for vid, version in _entries(f"{subject}/versions", body.get("versions"))
    }
    native = {"versions": versions} if versions else _native_version(types, show, subject, body)
    return {**native, "meta": new_meta(types)}


def new_meta(types: Types) -> Json:
    """The meta attributes of a new resource."""
    return (
        {"compatibility": SCHEMA_COMPATIBILITY} if types.resource_type.validatecompatibility else {}
    )


def _native_version(types: Types, show: Layout, subject: str, body: Mapping[str, Any]) -> Json:
    own = resource_attributes(types, body)
    check_body(types.resource_kind, subject, own)
    fill = show.fill(types.resource_type.version_attributes)
    native = to_entity(types.resource_kind, own, None, fill, show.references)
    return native | native_document(types, subject, body) | creation_of(subject, body)


def native_document(types: Types, subject: str, body: Mapping[str, Any]) -> Json:
    """The native attributes for a document that is inside its metadata; none without one.

    Raises:
        OneResource: there is more than one.
    """
    if not types.has_document:
        return {}
    value, encoded, uri, url = document_names(types)
    given = [name for name in (value, encoded, uri, url) if body.get(name) is not None]
    if len(given) > 1 and {*given} != {uri, url}:
        raise OneResource(subject, list=",".join(given))
    if not given:
        return {}
    native, content = types.resource_type.singular, body[given[0]]
    if given[0] in (uri, url):
        return {f"{native}url": content}
    if given[0] == encoded:
        return {f"{native}base64": content}
    text = isinstance(content, str)
    return {native: content, "contenttype": "text/plain" if text else "application/json"}


def _entries(subject: str, collection: Any) -> Iterator[tuple[str, Json]]:
    if not isinstance(collection, dict | None):
        raise BadRequest(subject, error_detail=f"{subject} needs to be a map")
    for id, body in (collection or {}).items():
        if not isinstance(body, dict):
            raise BadRequest(f"{subject}/{id}", error_detail=f"{subject}/{id} is no object")
        yield id, body
