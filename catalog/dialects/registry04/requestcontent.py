"""Reads a request: metadata in `Registry-` headers and the body, the identity, the epoch."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from aiohttp import hdrs, web

from catalog.dialects.registry04.names import Json, Types
from catalog.http.body import read_body, read_object
from catalog.http.responses import encode_url
from catalog.model.errors import BadRequest, HeaderError, InvalidAttribute, MismatchedId

HEADER_PREFIX = "Registry-"
_LARGEST_VALUE = 8_000
_TOKEN = re.compile(r"[A-Za-z0-9_.-]+")
_NUMBER = re.compile(r"[0-9]{1,15}")
# Edition 0.4 defines no encoding: only characters that a header can't carry, and the percent sign,
# are encoded.
_UNSAFE = re.compile(r"[^\x20-\x24\x26-\x7e]|^ | $")
_REFERENCES = frozenset({"docs", "self", "uri", "schemaurl", "schemauri", "definitionuri"})
_IGNORED = frozenset({"self", "modifiedOn"})
_TAGS = "tags-"
_COMPOSITE = frozenset({"tags", "config", "metadata", "deprecated", "definitiongroups"})
# Attributes with capitals, which header names do not preserve.
_SPELLED = ("createdBy", "createdOn", "modifiedBy", "modifiedOn")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryHeaders:
    """The metadata in a request's headers: attributes to set, and attributes to delete by name.

    `tags` has the value of each tag to set, and `None` for each tag to delete.

    Source: CloudEvents Registry 0.4, "Updating a Resource": an absent header leaves the
    attribute alone, an empty header deletes the attribute.
    """

    path: str
    given: Mapping[str, Any]
    deleted: frozenset[str]
    tags: Mapping[str, str | None]

    def merge(self, kept: Mapping[str, Any], body: Mapping[str, Any]) -> Json:
        """The kept attributes, changed by a body and by the headers.

        Raises:
            HeaderError: a header and the body contradict each other.
        """
        for name, value in self.given.items():
            if name in body and _text(body[name]) != _text(value):
                raise self._conflict(name, "the body has another value for it")
        for name in self.deleted:
            if body.get(name) not in (None, ""):
                raise self._conflict(name, "it is empty, and the body has a value for it")
        merged = {**kept, **self.given, **body}
        if self.tags:
            merged["tags"] = self._merged_tags(body.get("tags"), merged.get("tags"))
        return {name: value for name, value in merged.items() if name not in self.deleted}

    def _merged_tags(self, given: Any, merged: Any) -> Json:
        tags = dict(merged) if isinstance(merged, dict) else {}
        for key, value in self.tags.items():
            if isinstance(given, dict) and key in given and given[key] != (value or ""):
                raise self._conflict(f"tags-{key}", "the body has another value for it")
            tags.pop(key, None)
            if value is not None:
                tags[key] = value
        return tags

    def _conflict(self, name: str, detail: str) -> HeaderError:
        return HeaderError(self.path, name=HEADER_PREFIX + name, error_detail=detail)


def read_headers(request: web.Request, singular: str) -> RegistryHeaders:
    """The `Registry-` headers of a request.

    Args:
        singular: the name of the type of resource.

    Raises:
        HeaderError: a header can't be read, occurs twice, or is for an attribute that is no scalar.
    """
    names = {name.lower(): name for name in (*_SPELLED, f"{singular}URI")}
    given: Json = {}
    deleted: set[str] = set()
    tags: dict[str, str | None] = {}
    for header, text in request.headers.items():
        if not header.lower().startswith(HEADER_PREFIX.lower()):
            continue
        lower = header[len(HEADER_PREFIX) :].lower()
        name = names.get(lower, lower)
        if name in _IGNORED:
            continue
        tag = lower.removeprefix(_TAGS) if lower.startswith(_TAGS) else ""
        if name in given or name in deleted or tag in tags:
            raise HeaderError(request.path, name=header, error_detail="it is there twice")
        if tag:
            tags[tag] = _read(request, header, lower, text) if text.strip() else None
        elif not text.strip():
            deleted.add(name)
        else:
            given[name] = _read(request, header, lower, text)
    return RegistryHeaders(path=request.path, given=given, deleted=frozenset(deleted), tags=tags)


def _read(request: web.Request, header: str, name: str, text: str) -> Any:
    if name in _COMPOSITE:
        raise HeaderError(request.path, name=header, error_detail="it is no scalar")
    try:
        value = text.strip() if name in _REFERENCES else unquote_to_bytes(text.strip()).decode()
    except ValueError as error:
        detail = "it is not UTF-8 once decoded"
        raise HeaderError(request.path, name=header, error_detail=detail) from error
    # PostgreSQL cannot store U+0000.
    if "\0" in value:
        raise HeaderError(request.path, name=header, error_detail="it holds the character U+0000")
    if name != "epoch":
        return value
    if not _NUMBER.fullmatch(value):
        raise HeaderError(request.path, name=header, error_detail="it needs to be a number")
    return int(value)


def headers_of(shown: Mapping[str, Any]) -> dict[str, str]:
    """The headers for metadata: scalars and tags, as far as they fit."""
    headers = {}
    for name, value in shown.items():
        if isinstance(value, str | int | float) and _TOKEN.fullmatch(name):
            plain = _text(value)
            text = encode_url(plain) if name.lower() in _REFERENCES else _encoded(plain)
            if text and len(text) <= _LARGEST_VALUE:
                headers[HEADER_PREFIX + name] = text
    room = _LARGEST_VALUE
    for key, value in (shown.get("tags") or {}).items():
        text = _encoded(str(value))
        room -= len(key) + len(text)
        if text and key == key.lower() and _TOKEN.fullmatch(key) and room >= 0:
            headers[f"{HEADER_PREFIX}{_TAGS}{key}"] = text
    return headers


def _encoded(text: str) -> str:
    return _UNSAFE.sub(lambda found: "".join(f"%{b:02X}" for b in found[0].encode()), text)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContent:
    """A resource in a request: metadata in headers, and the resource in the body.

    `body` is a definition, which is metadata alone; `document` is a resource with a document, of
    `media_type`.
    """

    headers: RegistryHeaders
    body: Json
    document: bytes = b""
    media_type: str | None = None

    @property
    def given(self) -> Json:
        """The metadata in headers and body."""
        return {**self.headers.given, **self.body}

    @property
    def is_empty(self) -> bool:
        return not self.body and not self.document

    def attributes(self, types: Types, kept: Mapping[str, Any]) -> Json:
        """The attributes of headers and body, and the `kept` attributes.

        Raises:
            HeaderError: headers and body do not agree.
        """
        if not self.is_empty:
            if self.headers.given.get(types.uri) is not None:
                detail = "the body needs to be empty when the resource is elsewhere"
                name = HEADER_PREFIX + types.uri
                raise HeaderError(self.headers.path, name=name, error_detail=detail)
            kept = {name: value for name, value in kept.items() if name != types.uri}
        return self.headers.merge(kept, self.body)


async def read_content(request: web.Request, types: Types) -> RequestContent:
    """Read a resource, with its metadata in headers.

    Raises:
        HeaderError, ParsingData, UnsupportedMediaType
    """
    headers = read_headers(request, types.resource.singular)
    body = await read_body(request)
    if types.has_document:
        media_type = request.headers.get(hdrs.CONTENT_TYPE)
        return RequestContent(headers=headers, body={}, document=body, media_type=media_type)
    return RequestContent(headers=headers, body=await read_object(request) if body else {})


async def read_metadata(request: web.Request, types: Types) -> RequestContent:
    """Read metadata from the body.

    Raises:
        HeaderError: the headers have metadata, too.
        ParsingData, UnsupportedMediaType
    """
    headers = read_headers(request, types.resource.singular)
    for name in (*headers.given, *headers.deleted, *(f"tags-{tag}" for tag in headers.tags)):
        detail = "metadata is in the body here"
        raise HeaderError(request.path, name=f"{HEADER_PREFIX}{name}", error_detail=detail)
    return RequestContent(headers=headers, body=await read_object(request))


def new_id(subject: str, *given: Any) -> str:
    """The id in a request, or else a new id.

    Raises:
        InvalidAttribute: an id is no string.
        MismatchedId: the request has two different ids.
    """
    ids = [id for id in given if id is not None]
    for id in ids:
        if not isinstance(id, str):
            raise InvalidAttribute(subject, name="id", error_detail="it needs to be a string")
    if len({*ids}) > 1:
        raise MismatchedId(subject, singular="", invalid_id=ids[1], expected_id=ids[0])
    return ids[0] if ids else str(uuid.uuid4())


def check_identity(subject: str, shown: Mapping[str, Any], *given: Mapping[str, Any]) -> None:
    """Raise `MismatchedId` for metadata with the id or version number of a different entity."""
    for each in given:
        for name, singular in (("id", ""), ("version", "version")):
            id = each.get(name)
            if id is not None and name in shown and str(id) != str(shown[name]):
                raise MismatchedId(
                    subject, singular=singular, invalid_id=str(id), expected_id=str(shown[name])
                )


def expected_epoch(request: web.Request, *given: Mapping[str, Any]) -> int | None:
    """The epoch that a request expects, in the URL, the headers or the body.

    Raises:
        BadRequest: the epochs do not agree.
        InvalidAttribute: an epoch is no unsigned integer.
    """
    epochs: list[Any] = [each["epoch"] for each in given if each.get("epoch") is not None]
    if (text := request.query.get("epoch")) is not None:
        is_number = text.isascii() and text.isdigit() and len(text) < 16
        epochs.append(int(text) if is_number else text)
    for epoch in epochs:
        check_epoch(request.path, epoch)
    if len({*epochs}) > 1:
        raise BadRequest(request.path, error_detail="the request names more than one epoch")
    return epochs[0] if epochs else None


def check_epoch(subject: str, epoch: Any) -> None:
    """Raise `InvalidAttribute` for an epoch that is no unsigned integer."""
    # `isinstance` would accept a boolean.
    if type(epoch) is not int or epoch < 0:
        detail = "it needs to be an unsigned integer"
        raise InvalidAttribute(subject, name="epoch", error_detail=detail)
