"""Refuses characters that no text can have here.

PostgreSQL stores no U+0000, and UTF-8 has no surrogates: aiohttp puts them in place of bytes that
are not UTF-8.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from aiohttp import web

from catalog.model.errors import BadRequest, HeaderError, MalformedId, ParsingData

_ENCODED_NUL = "%00"
_ESCAPED_NUL = b"\\u0000"
_FAULT = "it holds the character U+0000, or bytes that are not UTF-8"
_READING = frozenset({"GET", "HEAD"})


def check_characters(request: web.Request) -> None:
    """Check the target of a request, and the headers of all but plain reads.

    Raises:
        MalformedId, BadRequest, HeaderError: in the path, the query or a header.
    """
    url = request.rel_url
    if not _is_text(url.raw_path):
        shown = unquote(url.raw_path.encode(errors="replace").decode())
        raise MalformedId(shown, id=shown.rpartition("/")[2], error_detail=_FAULT)
    if not _is_text(url.raw_query_string):
        raise BadRequest(request.path, error_detail=f"the query cannot be used: {_FAULT}")
    if request.method not in _READING:
        for name, value in request.headers.items():
            if not (value.isascii() or _is_encodable(value)):
                raise HeaderError(request.path, name=name, error_detail="it is not UTF-8")


def check_json_texts(value: Any, source: bytes) -> None:
    """Check the texts and names of a JSON value, and its source.

    Raises:
        ParsingData
    """
    if _ESCAPED_NUL in source and _holds_nul(value):
        raise ParsingData(error_detail="a text in it holds the character U+0000")


def _is_text(encoded: str) -> bool:
    return _ENCODED_NUL not in encoded and (encoded.isascii() or _is_encodable(encoded))


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _holds_nul(value: Any) -> bool:
    """Whether a text or name does; the depth of `value` is bounded."""
    match value:
        case str():
            return "\0" in value
        case dict():
            return any("\0" in name or _holds_nul(inner) for name, inner in value.items())
        case list():
            return any(map(_holds_nul, value))
    return False
