"""The three forms that metadata gives a version's document: value, base64 and URL.

Source: core/spec.md, "<RESOURCE>* Attribute Processing", and core/model.md, "typemap".
"""

from __future__ import annotations

import base64
import fnmatch
from typing import Any, Literal

import orjson

from catalog.model.schema import ResourceType

DocumentShape = Literal["json", "string", "binary"]

_DEFAULT_TYPEMAP: dict[str, str] = {
    "application/json": "json",
    "*+json": "json",
    "text/plain": "string",
}


def document_names(kind: ResourceType) -> tuple[str, str, str]:
    """The names of a document's value, its base64 form and its URL."""
    return kind.singular, f"{kind.singular}base64", f"{kind.singular}url"


def shape_of(kind: ResourceType, contenttype: str | None) -> DocumentShape:
    """The shape of a document of a media type in metadata (core/model.md, "typemap")."""
    media_type = (contenttype or "").partition(";")[0].strip().lower()
    shapes = {
        shape.lower()
        for pattern, shape in {**_DEFAULT_TYPEMAP, **kind.typemap}.items()
        if fnmatch.fnmatchcase(media_type, pattern.lower())
    }
    if shapes == {"json"}:
        return "json"
    return "string" if shapes == {"string"} else "binary"


def document_bytes(kind: ResourceType, contenttype: str, value: Any) -> bytes:
    """The document that a value in metadata stands for."""
    if isinstance(value, str) and shape_of(kind, contenttype) != "json":
        return value.encode()
    return orjson.dumps(value)


def decode_document(value: Any) -> bytes:
    """The document that a base64 form stands for; ValueError if malformed."""
    if not isinstance(value, str):
        raise ValueError("it needs to be a base64 string")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError as error:
        raise ValueError(f"it is not base64: {error}") from error


def show_document(kind: ResourceType, contenttype: str | None, body: bytes) -> dict[str, Any]:
    """A document as an attribute of the version: as a value where possible, else as base64.

    The value null would mean "no document", so a document of null is shown as base64.
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
