"""Reads a write request: the resource with its metadata, the identity and the expected epoch."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import hdrs, web

from catalog.dialects.registry04.address import Types
from catalog.dialects.registry04.names import Json
from catalog.dialects.registry04.registryheaders import HEADER_PREFIX, RegistryHeaders, read_headers
from catalog.http.body import read_body, read_object
from catalog.model.errors import BadRequest, HeaderError, InvalidAttribute, MismatchedId


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
