"""Tells whether the document that a request has for a version is the one that it has already."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from catalog.model.entity import Entity
from catalog.model.interaction import Body, ResourceUpsert
from catalog.model.schema import Model, ResourceType
from catalog.writing.draft import Draft


def keep_equal_document(draft: Draft, body: Body, kind: ResourceType, held: bytes | None) -> None:
    """Leave a version its document if the one in a request is the same.

    An export shows an empty document where there is none, so these two are the same.

    Args:
        held: the version's document, if it was read: of JSON, the layout makes no difference.
    """
    if draft.before is None or draft.document is None:
        return
    is_still_empty = not (draft.document or draft.had_document)
    is_same = is_still_empty or draft.content_sha256 == draft.before.document_sha256
    if is_same or (held is not None and _is_same_json(body.get(kind.singular), held)):
        draft.keep_document()


def compared_documents(
    upserts: Iterable[ResourceUpsert], before: Mapping[str, Entity], model: Model
) -> list[str]:
    """The xids of the versions whose documents may be what a request has, in another layout.

    Args:
        before: the resources and versions as they are.
    """
    found = []
    for upsert in upserts:
        kind = model.groups[upsert.xid.groups].resources[upsert.xid.resources]
        for vid, body in _versions_in(upsert, before):
            value, held = body.get(kind.singular), before.get(str(upsert.xid.version(vid)))
            if held is None or held.document_sha256 is None or not _is_json_value(value):
                continue
            if hashlib.sha256(orjson.dumps(value)).digest() != held.document_sha256:
                found.append(held.xid)
    return found


def _versions_in(
    upsert: ResourceUpsert, before: Mapping[str, Entity]
) -> Iterator[tuple[str, Body]]:
    """By their ids, the bodies that a request has for versions which are there."""
    yield from ((version.vid, version.body) for version in upsert.versions if version.vid)
    held = before.get(str(upsert.xid))
    if upsert.default is not None and held is not None and "xref" not in held.attributes:
        yield held.attributes["defaultversionid"], upsert.default


def _is_json_value(value: Any) -> bool:
    """Whether a document came as a value whose text is the server's to write."""
    return value is not None and not isinstance(value, str)


def _is_same_json(value: Any, held: bytes) -> bool:
    try:
        was = orjson.loads(held)
    except orjson.JSONDecodeError:
        return False
    order = orjson.OPT_SORT_KEYS
    return _is_json_value(value) and orjson.dumps(was, option=order) == orjson.dumps(
        value, option=order
    )
