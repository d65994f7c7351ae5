"""Metadata as `xRegistry-` headers beside a document (core/http.md, "HTTP Header Values")."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import unquote_to_bytes

from aiohttp import web

from catalog.api.headertypes import known_definitions, typed_metadata
from catalog.model.errors import ExtraXregistryHeader, HeaderError, TooLarge
from catalog.model.moment import format_time
from catalog.model.schema import ResourceType
from catalog.registry.work import Outcome

PREFIX = "xRegistry-"
CORRELATION_ID = "xRegistry-xregcorrelationid"
CURSOR = "Concord-Cursor"

_NULL = "null"
_UNSAFE = re.compile(r"[^\x21\x23\x24\x26-\x7e]")
_NOT_IN_URL = re.compile(r"[^\x21-\x7e]")
_NOT_IN_MEDIA_TYPE = re.compile(r"[^\x20-\x7e]")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Clients refuse larger ones: many read lines of 8 KiB at most, and 64 KiB altogether.
_LARGEST_VALUE = 8_000
_LARGEST_TOGETHER = 32_000
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")


def traces(outcome: Outcome) -> dict[str, str]:
    """What tells of a write which interaction it was, and where the log shows it."""
    return {CORRELATION_ID: outcome.interaction, CURSOR: str(outcome.position)}


def encode_header(value: str) -> str:
    """Percent-encode what a header can't carry, quotes and spaces among it.

    A text of "null" is encoded, too, so that it does not delete what it came from.
    """
    return "%6Eull" if value == _NULL else _UNSAFE.sub(_percent_encoded, value)


def _percent_encoded(found: re.Match[str]) -> str:
    return "".join(f"%{b:02X}" for b in found[0].encode())


def decode_header(value: str) -> str:
    """Undo double quotes, then percent-encoding.

    Raises:
        ValueError: what comes out is not UTF-8.
    """
    plain = _QUOTED.sub(lambda found: _ESCAPE.sub(r"\1", found[1]), value.strip())
    return unquote_to_bytes(plain).decode()


def headers_of(
    shown: Mapping[str, Any], kind: ResourceType, subject: str | None = None
) -> dict[str, str]:
    """The headers for an entity's metadata: its scalars and its maps of scalars.

    What does not fit into headers is left out.

    Args:
        subject: of the error, where that is refused instead.

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


def encode_url(url: str) -> str:
    """A URL as a header can carry it."""
    return _NOT_IN_URL.sub(_percent_encoded, url)


def _header_values(shown: Mapping[str, Any], kind: ResourceType) -> Iterator[tuple[str, str]]:
    for name, value in shown.items():
        if name == "contenttype":
            yield "Content-Type", _NOT_IN_MEDIA_TYPE.sub(_percent_encoded, value)
        elif isinstance(value, dict):
            if _is_map(kind, name, shown) and all(_is_scalar(item) for item in value.values()):
                for key, item in value.items():
                    yield f"{PREFIX}{name}.{key}", encode_header(_text(item))
        elif _is_scalar(value):
            yield PREFIX + name, encode_header(_text(value))


def _too_large(headers: Mapping[str, str]) -> set[str]:
    """What exceeds the limits of clients: single headers, then the largest of too many."""
    found = {name for name, value in headers.items() if len(value) > _LARGEST_VALUE}
    kept = sorted((n for n in headers if n not in found), key=lambda n: len(n) + len(headers[n]))
    size = 0
    for name in kept:
        size += len(name) + len(headers[name])
        if size > _LARGEST_TOGETHER:
            found.add(name)
    return found


def _is_map(kind: ResourceType, name: str, shown: Mapping[str, Any]) -> bool:
    """An object of the model looks like a map; an extension of any type may be either."""
    definition = kind.attributes.get(name)
    if definition is None:
        texts = {each: _text(value) for each, value in shown.items() if _is_scalar(value)}
        known = known_definitions(texts, kind.attributes)
        definition = known.get(name, known.get("*"))
    return definition is None or definition.type != "object"


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float | datetime)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return format_time(value) if isinstance(value, datetime) else str(value)


def metadata_from(request: web.Request, kind: ResourceType) -> dict[str, Any]:
    """The metadata in a request's headers, as the body of a patch.

    A header that is absent leaves its attribute alone, save `Content-Type`, whose absence
    erases `contenttype`; a plain `null` deletes, also there, while quoted or encoded it is a
    text.

    Raises:
        HeaderError: a header can't be decoded, or contradicts another one.
        ExtraXregistryHeader: the document itself or its type came as a header of that name.
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
        found[name] = None if text.strip() == _NULL else _decode(request, name, text)
        if dot:
            maps.add(attribute)
    given = request.headers.get("Content-Type", _NULL)
    contenttype = None if given.strip() == _NULL else given
    return {"contenttype": contenttype, **typed_metadata(found, kind.attributes)}


def _elsewhere(attribute: str, kind: ResourceType) -> str:
    """Where an attribute belongs that has no header named after it; nothing for all others."""
    if attribute == "contenttype":
        return "the media type belongs in Content-Type"
    is_document = attribute in (kind.singular, f"{kind.singular}base64")
    return "a document belongs in the body" if is_document else ""


def forbid_metadata(request: web.Request) -> None:
    """Metadata is in the body here, so it must not be in headers as well.

    Raises:
        ExtraXregistryHeader: it is.
    """
    for name, _ in _xregistry_headers(request):
        raise ExtraXregistryHeader(
            request.path, name=PREFIX + name, error_detail="metadata is in the body here"
        )


def _xregistry_headers(request: web.Request) -> Iterator[tuple[str, str]]:
    for name, text in request.headers.items():
        if name.lower().startswith(PREFIX.lower()):
            yield name[len(PREFIX) :].lower(), text


def _decode(request: web.Request, name: str, text: str) -> str:
    try:
        return decode_header(text)
    except ValueError as error:
        raise HeaderError(
            request.path, name=PREFIX + name, error_detail="it is not UTF-8 once decoded"
        ) from error
