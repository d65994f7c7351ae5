"""Metadata as `xRegistry-` headers beside a document (core/http.md, "HTTP Header Values")."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import unquote_to_bytes

from aiohttp import web

from catalog.http.responses import percent_encoded
from catalog.model.errors import ExtraXregistryHeader, HeaderError, TooLarge
from catalog.model.schema import Attribute, ResourceType, value_text
from catalog.model.timestamps import format_time

PREFIX = "xRegistry-"
_NULL = "null"
_UNSAFE = re.compile(r"[^\x21\x23\x24\x26-\x7e]")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")

_NOT_IN_MEDIA_TYPE = re.compile(r"[^\x20-\x7e]")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Clients refuse larger headers: many read lines of 8 KiB at most, and 64 KiB in total.
_LARGEST_VALUE = 8_000
_LARGEST_TOGETHER = 32_000
_INTEGER = re.compile(r"-?\d{1,16}", re.ASCII)
_DECIMAL = re.compile(r"-?\d{1,20}(\.\d{1,20})?([Ee][+-]?\d{1,3})?", re.ASCII)


def headers_of(
    shown: Mapping[str, Any], kind: ResourceType, subject: str | None = None
) -> dict[str, str]:
    """The headers for the metadata of an entity: scalars and maps of scalars.

    Without a subject, values that are too large for headers are left out.

    Args:
        subject: the subject of the error that refuses values that are too large.

    Raises:
        TooLarge
    """
    headers = {n: value for n, value in _header_values(shown, kind) if _TOKEN.fullmatch(n)}
    large = _too_large(headers)
    if large and subject is not None:
        names = ", ".join(name.removeprefix(PREFIX) for name in large)
        detail = f'Ask for "{subject}$details" instead; too large for headers are: {names}.'
        raise TooLarge(subject, detail=detail)
    return {name: value for name, value in headers.items() if name not in large}


def _header_values(shown: Mapping[str, Any], kind: ResourceType) -> Iterator[tuple[str, str]]:
    for name, value in shown.items():
        if name == "contenttype":
            yield "Content-Type", _NOT_IN_MEDIA_TYPE.sub(percent_encoded, value)
        elif isinstance(value, dict):
            if _is_map(kind, name, shown) and all(_is_scalar(item) for item in value.values()):
                for key, item in value.items():
                    yield f"{PREFIX}{name}.{key}", encode_header(_text(item))
        elif _is_scalar(value):
            yield PREFIX + name, encode_header(_text(value))


def _too_large(headers: Mapping[str, str]) -> set[str]:
    """The headers beyond the limits of clients: long values, and the largest beyond the total."""
    found = {name for name, value in headers.items() if len(value) > _LARGEST_VALUE}
    kept = sorted((n for n in headers if n not in found), key=lambda n: len(n) + len(headers[n]))
    size = 0
    for name in kept:
        size += len(name) + len(headers[name])
        if size > _LARGEST_TOGETHER:
            found.add(name)
    return found


def _is_map(kind: ResourceType, name: str, shown: Mapping[str, Any]) -> bool:
    """Whether an attribute is a map, not an object; extensions without a definition are maps."""
    definition = kind.attributes.get(name)
    if definition is None:
        texts = {each: _text(value) for each, value in shown.items() if _is_scalar(value)}
        known = _known_definitions(texts, kind.attributes)
        definition = known.get(name, known.get("*"))
    return definition is None or definition.type != "object"


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float | datetime)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return format_time(value) if isinstance(value, datetime) else str(value)


def metadata_from(request: web.Request, kind: ResourceType) -> dict[str, Any]:
    """Read the metadata in the headers of a request as the body of a patch.

    An absent header leaves the attribute unchanged, except that an absent `Content-Type` deletes
    `contenttype`. A plain `null` deletes an attribute; a quoted or encoded `null` is a text.

    Raises:
        HeaderError: a header cannot be decoded, or two headers contradict each other.
        ExtraXregistryHeader: the document or its media type came in an `xRegistry-` header.
    """
    found: dict[str, str | None] = {}
    maps: set[str] = set()
    for name, text in _xregistry_headers(request):
        attribute, dot, _ = name.partition(".")
        place = _elsewhere(attribute, kind)
        if place:
            raise ExtraXregistryHeader(request.path, name=PREFIX + name, error_detail=place)
        if name in found or (attribute in found if dot else name in maps):
            raise HeaderError(request.path, name=PREFIX + name, error_detail="it is given twice")
        try:
            found[name] = None if text.strip() == _NULL else decode_header(text)
        except ValueError as error:
            fault = "it is not UTF-8 once decoded"
            raise HeaderError(request.path, name=PREFIX + name, error_detail=fault) from error
        if dot:
            maps.add(attribute)
    given = request.headers.get("Content-Type", _NULL)
    contenttype = None if given.strip() == _NULL else given
    return {"contenttype": contenttype, **_typed_metadata(found, kind.attributes)}


def encode_header(value: str) -> str:
    """Percent-encode the characters that a header can't carry, and quotes and spaces.

    The text "null" is encoded, too, because a plain `null` deletes an attribute.
    """
    return "%6Eull" if value == _NULL else _UNSAFE.sub(percent_encoded, value)


def decode_header(value: str) -> str:
    """Undo double quotes, then percent-encoding.

    Raises:
        ValueError: the result is not UTF-8.
    """
    plain = _QUOTED.sub(lambda found: _ESCAPE.sub(r"\1", found[1]), value.strip())
    return unquote_to_bytes(plain).decode()


def _elsewhere(attribute: str, kind: ResourceType) -> str:
    """The right place of an attribute that must not be a header; empty if it may be a header."""
    if attribute == "contenttype":
        return "the media type belongs in Content-Type"
    is_document = attribute in (kind.singular, f"{kind.singular}base64")
    return "a document belongs in the body" if is_document else ""


def forbid_metadata(request: web.Request) -> None:
    """Refuse metadata in headers, for requests with metadata in the body.

    Raises:
        ExtraXregistryHeader
    """
    for name, _ in _xregistry_headers(request):
        fault = "metadata is in the body here"
        raise ExtraXregistryHeader(request.path, name=PREFIX + name, error_detail=fault)


def _xregistry_headers(request: web.Request) -> Iterator[tuple[str, str]]:
    for name, text in request.headers.items():
        if name.lower().startswith(PREFIX.lower()):
            yield name[len(PREFIX) :].lower(), text


def _typed_metadata(
    texts: Mapping[str, str | None], definitions: Mapping[str, Attribute]
) -> dict[str, Any]:
    """Attributes from headers; a name with a dot consists of the name of a map and a key.

    A value without a definition stays a text; `None` deletes an attribute.
    """
    known = _known_definitions(texts, definitions)
    body: dict[str, Any] = {}
    for name, text in texts.items():
        attribute, dot, key = name.partition(".")
        definition = known.get(attribute, known.get("*"))
        if not dot:
            body[attribute] = _typed(text, definition)
        elif isinstance(inner := body.setdefault(attribute, {}), dict):
            item = definition.item if definition is not None else None
            inner[key] = _typed(text, item)
    return body


def _known_definitions(
    texts: Mapping[str, str | None], definitions: Mapping[str, Attribute]
) -> Mapping[str, Attribute]:
    """The definitions, with the sibling attributes of the given or unknown values."""
    waiting = [one for one in definitions.values() if one.siblings]
    if not waiting:
        return definitions
    known = dict(definitions)
    for one in waiting:
        text = texts.get(one.name)
        key = None if text is None else value_text(_typed(text, one))
        for condition, siblings in one.siblings.items():
            if key is None or key == condition:
                waiting += [each for each in siblings.values() if each.siblings]
                known = {**siblings, **known}
    return known


def _typed(text: str | None, definition: Attribute | None) -> Any:
    if text is None:
        return None
    match definition.type if definition is not None else "string":
        case "boolean" if text in ("true", "false"):
            return text == "true"
        case "integer" | "uinteger" if _INTEGER.fullmatch(text):
            return int(text)
        case "decimal" if _DECIMAL.fullmatch(text):
            return int(text) if _INTEGER.fullmatch(text) else float(text)
        case _:
            return text
