"""Gives the drafts of versions the documents of a request, and keeps equal stored documents."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from catalog.model.confluentattribute import schema_id_of
from catalog.model.documentforms import decode_document, document_bytes, document_names
from catalog.model.entity import Entity
from catalog.model.errors import InvalidAttribute, OneResource, XRegistryError
from catalog.model.interaction import Body, ResourceUpsert, VersionDocument
from catalog.model.schema import Model, ResourceType
from catalog.writing.drafts import Draft


def update_document(
    draft: Draft, body: Body, kind: ResourceType, *, patch: bool, document: VersionDocument | None
) -> list[XRegistryError]:
    """Give a draft the document and the media type in a request; return the violations.

    Source: core/spec.md, "<RESOURCE>* Attribute Processing". Must be called after the attributes
    were updated, so that the media type is known.
    """
    value, encoded, url = document_names(kind)
    given = [name for name in (value, encoded, url) if name in body]
    if body.get(url) == "":
        return [InvalidAttribute(str(draft.xid), name=url, error_detail="it must not be empty")]
    if document is not None:
        if body.get(url) is not None:
            draft.set_document(None)
        else:
            draft.attributes.pop(url, None)
            draft.set_document(document.body)
            draft.is_erased = document.body is None
        return []
    if len(given) > 1:
        return [OneResource(str(draft.xid), list=f"{value},{encoded},{url}")]
    if not given:
        return []
    draft.attributes.pop(url, None)
    try:
        _take(draft, given[0], body[given[0]], kind, patch=patch)
    except ValueError as error:
        return [InvalidAttribute(str(draft.xid), name=given[0], error_detail=str(error))]
    return []


def _take(draft: Draft, name: str, value: Any, kind: ResourceType, *, patch: bool) -> None:
    _plain, encoded, url = document_names(kind)
    if value is None:
        draft.set_document(None)
    elif name == url:
        draft.attributes[url] = value
        draft.set_document(None)
    elif name == encoded:
        draft.set_document(decode_document(value))
        if patch:
            draft.attributes.setdefault("contenttype", "application/json")
    else:
        contenttype = draft.attributes.setdefault("contenttype", "application/json")
        draft.set_document(document_bytes(kind, contenttype, value))


def keep_equal_document(draft: Draft, body: Body, kind: ResourceType, stored: bytes | None) -> None:
    """Have a draft keep its stored document if the document of the request is equal.

    An export shows an empty document for a version without a document, so an empty document
    equals none. JSON is equal in any layout, if the stored document was read (`stored`).
    """
    if draft.before is None or draft.document is None:
        return
    is_still_empty = not (draft.document or draft.had_document)
    is_same = is_still_empty or draft.content_sha256 == draft.before.document_sha256
    if is_same or (stored is not None and _is_same_json(body.get(kind.singular), stored)):
        draft.keep_document()


def compared_documents(
    upserts: Iterable[ResourceUpsert],
    before: Mapping[str, Entity],
    model: Model,
    *,
    with_ids_only: bool,
) -> list[str]:
    """The xids of versions whose stored documents may equal a request's in a different layout.

    `with_ids_only` leaves out versions without a schema id, whose documents may change.
    """
    found = []
    for upsert in upserts:
        kind = model.groups[upsert.xid.groups].resources[upsert.xid.resources]
        for vid, body in _versions_in(upsert, before):
            value, stored = body.get(kind.singular), before.get(str(upsert.xid.version(vid)))
            if stored is None or stored.document_sha256 is None or not _is_json_value(value):
                continue
            if with_ids_only and schema_id_of(stored.attributes) is None:
                continue
            if hashlib.sha256(orjson.dumps(value)).digest() != stored.document_sha256:
                found.append(stored.xid)
    return found


def _versions_in(
    upsert: ResourceUpsert, before: Mapping[str, Entity]
) -> Iterator[tuple[str, Body]]:
    """The ids and bodies of a request's versions with an id, and of the default version."""
    yield from ((version.vid, version.body) for version in upsert.versions if version.vid)
    stored = before.get(str(upsert.xid))
    if upsert.default is not None and stored is not None and "xref" not in stored.attributes:
        yield stored.attributes["defaultversionid"], upsert.default


def _is_json_value(value: Any) -> bool:
    """Whether the server chooses the text of the value when storing a document."""
    return value is not None and not isinstance(value, str)


def _is_same_json(value: Any, stored: bytes) -> bool:
    try:
        parsed = orjson.loads(stored)
    except orjson.JSONDecodeError:
        return False
    # Compared as texts: in Python, true equals 1.
    order = orjson.OPT_SORT_KEYS
    return _is_json_value(value) and orjson.dumps(parsed, option=order) == orjson.dumps(
        value, option=order
    )
