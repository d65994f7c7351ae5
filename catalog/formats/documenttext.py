"""Decodes documents and payloads as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import orjson

MAX_REASONS = 3
"""The most problems of a document that a check reports."""
_PLAIN = "~!$&'()*+,;=@"
MAX_FAULTS = 20
"""The most faults of a payload that a check reports."""


class MalformedDocument(ValueError):
    """A document breaks a rule of the format; the text names the rule."""


class Mismatch(ValueError):
    """A payload does not conform to the schema; the text gives the reason."""


def fault_at(path: Iterable[str | int], reason: str) -> str:
    """A fault of a payload in a line: the JSON pointer of the place, a colon, and the reason.

    Spaces, colons and control characters of the pointer are percent-encoded, so that the pointer
    ends with the first colon.
    """
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in path)
    pointer = "".join(f"/{quote(step, safe=_PLAIN)}" for step in steps)
    return f"{pointer or '/'}: {' '.join(reason.split())}"


def read_json(document: bytes) -> Any:
    """Parse a document as JSON.

    Raises:
        MalformedDocument: the document is empty, or not JSON.
    """
    if not document.strip():
        raise MalformedDocument("the document is empty")
    try:
        return orjson.loads(document)
    except orjson.JSONDecodeError as error:
        raise MalformedDocument(f"it is not JSON: {error}") from error


def unquoted(document: bytes) -> bytes:
    """Return the text of a document that is a JSON string, and other documents unchanged.

    Metadata in JSON carries a text document as a string, and a document in metadata without a
    media type is JSON (core/spec.md, "<RESOURCE>* Attribute Processing"). The function serves
    formats that are not written in JSON and have no documents that begin with a quote: a string
    then stands for the text.
    """
    if not document.startswith(b'"'):
        return document
    try:
        return str(orjson.loads(document)).encode()
    except orjson.JSONDecodeError:
        return document


def read_payload(payload: bytes) -> Any:
    """Parse a payload as JSON.

    Raises:
        Mismatch: the payload is empty, or not JSON.
    """
    try:
        return read_json(payload)
    except MalformedDocument as error:
        raise Mismatch("it is empty" if not payload.strip() else str(error)) from error


def is_json_type(contenttype: str) -> bool:
    """Whether a media type is JSON (cloudevents/json-format.md, "Payload Serialization")."""
    media_type = contenttype.partition(";")[0].strip().lower()
    return media_type.endswith(("/json", "+json"))
