"""What a check reads: the bytes of a document, as text and as JSON."""

from __future__ import annotations

from typing import Any

import orjson


class Malformed(ValueError):
    """A document breaks a rule of its format; the text says which."""


def read_text(document: bytes) -> str:
    try:
        return document.decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"it is not UTF-8 from byte {error.start} on") from error


def read_json(document: bytes) -> Any:
    """An empty document is no JSON text, so no format that is written in JSON allows one."""
    if not document.strip():
        raise Malformed("the document is empty")
    try:
        return orjson.loads(document)
    except orjson.JSONDecodeError as error:
        raise Malformed(f"it is not JSON: {error}") from error
