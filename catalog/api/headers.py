"""Metadata as `xRegistry-` headers beside a document (core/http.md, "HTTP Header Values")."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from aiohttp import web

from catalog.model.errors import ExtraXregistryHeader, HeaderError
from catalog.model.schema import Attribute, ResourceType

PREFIX = "xRegistry-"
CORRELATION_ID = "xRegistry-xregcorrelationid"

_UNSAFE = re.compile(r"[^\x21\x23\x24\x26-\x7e]")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")


def encode_header(value: str) -> str:
    """Percent-encode what a header can't carry, quotes and spaces among it."""
    return _UNSAFE.sub(lambda found: "".join(f"%{b:02X}" for b in found[0].encode()), value)


def decode_header(value: str) -> str:
    """Undo double quotes, then percent-encoding.

    Raises:
        ValueError: what comes out is not UTF-8.
    """
    plain = _QUOTED.sub(lambda found: _ESCAPE.sub(r"\1", found[1]), value.strip())
    return unquote_to_bytes(plain).decode()


def headers_of(shown: Mapping[str, Any]) -> dict[str, str]:
    """The headers for an entity's metadata: its scalars and its maps of scalars."""
    headers: dict[str, str] = {}
    for name, value in shown.items():
        if name == "contenttype":
            headers["Content-Type"] = value
        elif isinstance(value, dict):
            if all(_is_scalar(item) for item in value.values()):
                headers |= {
                    f"{PREFIX}{name}.{key}": encode_header(_text(item))
                    for key, item in value.items()
                }
        elif _is_scalar(value):
            headers[PREFIX + name] = encode_header(_text(value))
    return headers


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def metadata_from(request: web.Request, kind: ResourceType) -> dict[str, Any]:
    """The metadata in a request's headers, as the body of a patch.

    A header that is absent leaves its attribute alone, save `Content-Type`, whose absence
    erases `contenttype`; `null` deletes.

    Raises:
        HeaderError: a header can't be decoded.
        ExtraXregistryHeader: the document itself came as a header.
    """
    body: dict[str, Any] = {"contenttype": request.headers.get("Content-Type")}
    for name, text in _xregistry_headers(request):
        attribute, dot, key = name.partition(".")
        if attribute in (kind.singular, f"{kind.singular}base64"):
            raise ExtraXregistryHeader(
                request.path, name=PREFIX + name, error_detail="a document belongs in the body"
            )
        value = _decode(request, name, text)
        if dot:
            body.setdefault(attribute, {})[key] = value
        else:
            body[attribute] = _typed(value, kind.attributes.get(attribute))
    return body


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


def _typed(text: str, definition: Attribute | None) -> Any:
    """Header text as the type that the model gives the attribute; text where it gives none."""
    if text == "null":
        return None
    match definition.type if definition is not None else "string":
        case "boolean" if text in ("true", "false"):
            return text == "true"
        case "integer" | "uinteger" if re.fullmatch(r"-?\d{1,16}", text, re.ASCII):
            return int(text)
        case "decimal" if re.fullmatch(r"-?\d{1,16}(\.\d{1,16})?", text, re.ASCII):
            return float(text)
        case _:
            return text
