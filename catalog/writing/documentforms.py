"""A version's document in the three shapes that metadata gives it: value, base64 and URL."""

from __future__ import annotations

import base64
import binascii
import fnmatch
from typing import Any, Literal

import orjson

from catalog.model.errors import InvalidAttribute, OneResource, XRegistryError
from catalog.model.interaction import Body, VersionDocument
from catalog.model.schema import ResourceType
from catalog.writing.draft import Draft

DocumentShape = Literal["json", "string", "binary"]

_DEFAULT_TYPEMAP: dict[str, str] = {
    "application/json": "json",
    "*+json": "json",
    "text/plain": "string",
}


def document_names(kind: ResourceType) -> tuple[str, str, str]:
    """What the value, the base64 form and the URL of a document are called."""
    return kind.singular, f"{kind.singular}base64", f"{kind.singular}url"


def shape_of(kind: ResourceType, contenttype: str | None) -> DocumentShape:
    """How a document of this media type appears in metadata (core/model.md, "typemap")."""
    media_type = (contenttype or "").partition(";")[0].strip().lower()
    shapes = {
        shape.lower()
        for pattern, shape in {**_DEFAULT_TYPEMAP, **kind.typemap}.items()
        if fnmatch.fnmatchcase(media_type, pattern.lower())
    }
    if shapes == {"json"}:
        return "json"
    return "string" if shapes == {"string"} else "binary"


def update_document(
    draft: Draft, body: Body, kind: ResourceType, *, patch: bool, document: VersionDocument | None
) -> list[XRegistryError]:
    """Give a draft the document that a request has for it, and the media type with it.

    Source: core/spec.md, "<RESOURCE>* Attribute Processing". Call it after the attributes
    were updated, so that the media type is known.

    Returns:
        the violations, at most one.
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
        names = ",".join((value, encoded, url))
        return [OneResource(str(draft.xid), list=names)]
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
        draft.set_document(_decode(value))
        if patch:
            draft.attributes.setdefault("contenttype", "application/json")
    else:
        draft.attributes.setdefault("contenttype", "application/json")
        draft.set_document(_to_bytes(value, kind, draft.attributes["contenttype"]))


def _to_bytes(value: Any, kind: ResourceType, contenttype: str) -> bytes:
    if isinstance(value, str) and shape_of(kind, contenttype) != "json":
        return value.encode()
    return orjson.dumps(value)


def _decode(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError("it needs to be a base64 string")
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(f"it is not base64: {error}") from error


def show_document(kind: ResourceType, contenttype: str | None, body: bytes) -> dict[str, Any]:
    """A document as an attribute of its version: the value if it can be one, else base64.

    A value of null would be read as no document at all.
    """
    value, encoded, _ = document_names(kind)
    shape = shape_of(kind, contenttype)
    try:
        if shape == "json" and body and (parsed := orjson.loads(body)) is not None:
            return {value: orjson.Fragment(orjson.dumps(parsed))}
        if shape == "string" and body:
            return {value: body.decode()}
    except ValueError:
        pass
    return {encoded: base64.b64encode(body).decode()}
