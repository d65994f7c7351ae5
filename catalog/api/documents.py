"""Reads and writes the registry as a document of any edition, in JSON or YAML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.request import parse_http_list

import orjson
from aiohttp import hdrs, web
from aiohttp.helpers import parse_mimetype
from aiohttp.typedefs import Handler

from catalog.api.writeanswer import notes_header
from catalog.context import CONTEXT
from catalog.documents.asyncapi.fromentities import EDITIONS, from_entities
from catalog.documents.asyncapi.references import AsyncApiError
from catalog.documents.asyncapi.toentities import to_entities
from catalog.documents.clean import clean
from catalog.documents.downgrade import downgrade
from catalog.documents.migration import (
    DOCUMENT_SCHEMA,
    NEWEST_EDITION,
    SPECVERSIONS,
    migrate,
    root_of,
    stated_edition,
)
from catalog.documents.serialization import NotParsable, parse_json, parse_yaml, to_yaml
from catalog.http.body import (
    MOST_DEPTH,
    check_number_of_values,
    most_values_of,
    read_attributes,
    read_body,
)
from catalog.http.stream import WHOLE
from catalog.load.workthread import aside, note_request_bytes
from catalog.model.concorderrors import LimitExceeded
from catalog.model.errors import BadRequest, MissingBody, ParsingData
from catalog.model.schema import Model

PATHS = frozenset({"/", "/export"})
"""The paths of the registry, which can be represented as a document."""
DOCUMENT_JSON = "application/cloudevents-registry+json"
DOCUMENT_YAML = "application/cloudevents-registry+yaml"
DOCUMENTS = (DOCUMENT_JSON, DOCUMENT_YAML)
ASYNCAPI = ("application/vnd.aai.asyncapi+json", "application/vnd.aai.asyncapi+yaml")
"""The media types of AsyncAPI documents; the document itself states its version."""
# The versions of AsyncAPI that a client asks for, and the editions that are written.
_ASYNCAPI_EDITIONS = {f"{edition}{patch}": edition for edition in EDITIONS for patch in ("", ".0")}
_UNTITLED = "Catalog"
_SHOWN = 10
_MOST_RANGES = 50


async def read_registry(request: web.Request) -> dict[str, Any]:
    """Read the body of a write of the registry: JSON, or a document of any edition, or AsyncAPI.

    A document is migrated to the newest edition. The extension attribute `older` of an entity keeps
    the attributes without a form in the newest edition. POST takes only groups, so the attributes
    of the registry itself are left out. An AsyncAPI document is refused if a part would be lost.

    Raises:
        MissingBody, ParsingData, BadRequest, LimitExceeded, and the errors of `read_attributes`.
    """
    media_type = request.content_type.lower()
    if media_type not in (*DOCUMENTS, *ASYNCAPI):
        return await read_attributes(request)
    text = await read_body(request)
    if not text:
        raise MissingBody(request.path)
    settings = request[CONTEXT].settings
    if media_type.endswith("+yaml"):
        parse = parse_yaml
        # Parsing YAML takes 100 times as long as parsing JSON.
        if len(text) > (most := settings.max_body_bytes // 8):
            setting = "CONCORD_MAX_BODY_BYTES"
            raise LimitExceeded(limit=str(most), things="bytes of YAML", setting=setting)
    else:
        parse = parse_json
        check_number_of_values(text, most_values_of(settings))
    try:
        source = await aside(0, parse, text, MOST_DEPTH)
    except NotParsable as error:
        raise ParsingData(error_detail=str(error)) from error
    if not isinstance(source, dict):
        raise ParsingData(request.path, error_detail="an object is needed")
    if media_type in ASYNCAPI:
        return await aside(0, _translated, request, source)
    migrated = await aside(0, migrate, source, keep_unknown=True)
    groups = request[CONTEXT].model.groups
    if request.method == hdrs.METH_POST:
        return {name: value for name, value in migrated.document.items() if name in groups}
    return root_of(migrated.document)


def _translated(request: web.Request, source: dict[str, Any]) -> dict[str, Any]:
    if request.method != hdrs.METH_POST:
        raise BadRequest(request.path, error_detail="AsyncAPI documents are posted, not put")
    try:
        translated = to_entities(source)
    except AsyncApiError as error:
        raise BadRequest(request.path, error_detail=error.message, detail=error.hint) from error
    if translated.losses:
        lost = "; ".join(f"{loss.pointer}: {loss.reason}" for loss in translated.losses[:_SHOWN])
        raise BadRequest(request.path, error_detail=f"a part would be lost: {lost}")
    return translated.groups


async def as_document(
    request: web.Request, handler: Handler, *, is_export: bool = False
) -> web.StreamResponse:
    """Answer as the handler does, with a document if the client prefers documents to JSON.

    Args:
        is_export: whether the answer is an export, which can be an AsyncAPI document, too. Then
            notes tell what AsyncAPI cannot express, which the document lacks.
    """
    offered = (*DOCUMENTS, *ASYNCAPI) if is_export else DOCUMENTS
    wanted = representation_for(request.headers.getall(hdrs.ACCEPT, ()), offered)
    if wanted is not None:
        request[WHOLE] = wanted.content_type
    response = await handler(request)
    if not response.prepared:
        response.headers.add(hdrs.VARY, hdrs.ACCEPT)
    if wanted is None or response.status not in (200, 201):
        return response
    if not isinstance(response, web.Response) or not isinstance(response.body, bytes):
        return response
    # The tag is the digest of the JSON body, not of the document.
    response.headers.popall(hdrs.ETAG, None)
    response.headers[hdrs.CONTENT_TYPE] = wanted.content_type
    # `aside` decides by the size of the request, but the conversion takes the whole answer.
    note_request_bytes(len(response.body))
    if wanted.media_type in ASYNCAPI:
        model = request[CONTEXT].model
        response.body, notes = await aside(0, _as_asyncapi, response.body, wanted, model)
        response.headers.update(notes)
    else:
        response.body = await aside(0, _represented, response.body, wanted)
    return response


def _represented(body: bytes, wanted: Representation) -> bytes:
    document = {"$schema": DOCUMENT_SCHEMA, **downgrade(orjson.loads(body), wanted.edition)}
    return _written(document, wanted)


def _as_asyncapi(
    body: bytes, wanted: Representation, model: Model
) -> tuple[bytes, Mapping[str, str]]:
    """The text of an export as an AsyncAPI document, and the header with its losses."""
    export = orjson.loads(body)
    groups = clean(export, model.expanded())
    title = str(export.get("name") or _UNTITLED)
    exported = from_entities(groups, title=title, edition=wanted.edition)
    losses = [
        ("lost", {"pointer": loss.pointer, "detail": loss.reason}) for loss in exported.losses
    ]
    return _written(exported.document, wanted), notes_header(losses)


def _written(document: Mapping[str, Any], wanted: Representation) -> bytes:
    is_yaml = wanted.media_type.endswith("+yaml")
    return to_yaml(document) if is_yaml else orjson.dumps(document)


@dataclass(frozen=True, slots=True, kw_only=True)
class Representation:
    """The media type and the edition of a document."""

    media_type: str
    edition: str = NEWEST_EDITION

    @property
    def content_type(self) -> str:
        if self.media_type in ASYNCAPI:
            return f"{self.media_type};version={self.edition}.0"
        return f"{self.media_type}; specversion={SPECVERSIONS[self.edition]}; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    """One element of an Accept header (RFC 9110, 12.5.1)."""

    name: str
    quality: float
    edition: str

    def precision(self, media_type: str) -> int:
        """The precision with which the range names a media type: 0 not at all, 3 in full."""
        main = media_type.partition("/")[0]
        return {media_type: 3, f"{main}/*": 2, "*/*": 1}.get(self.name, 0)


def representation_for(
    accept: Iterable[str], offered: Iterable[str] = DOCUMENTS
) -> Representation | None:
    """The kind of document that a client prefers to JSON; `None` for JSON, the default.

    Args:
        accept: the values of the Accept headers of the request.
        offered: the media types of documents that there are.
    """
    items = parse_http_list(",".join(accept))[:_MOST_RANGES]
    ranges = [found for found in map(_read, items) if found is not None]
    best, quality = None, _quality(ranges, "application/json")
    for media_type in offered:
        if (own := _quality(ranges, media_type)) > quality:
            best, quality = media_type, own
    if best is None:
        return None
    named = max(ranges, key=lambda found: (found.precision(best), found.quality))
    if best in ASYNCAPI and named.name not in ASYNCAPI:
        return Representation(media_type=best, edition=EDITIONS[0])
    return Representation(media_type=best, edition=named.edition)


def _quality(ranges: list[_Range], media_type: str) -> float:
    """The quality of a media type, from the most precise range."""
    found = [(item.precision(media_type), item.quality) for item in ranges]
    precision, quality = max(found, default=(0, 0.0))
    return quality if precision else 0.0


def _read(item: str) -> _Range | None:
    """Parse a range; `None` if the range is malformed or names an unknown edition."""
    found = parse_mimetype(item)
    name = f"{found.type}/{found.subtype}{'+' if found.suffix else ''}{found.suffix}".lower()
    edition: str | None = NEWEST_EDITION
    if name in ASYNCAPI:
        edition = _ASYNCAPI_EDITIONS.get(found.parameters.get("version", EDITIONS[0]))
    elif (stated := found.parameters.get("specversion")) is not None:
        edition = stated_edition({"specversion": stated})
    try:
        quality = float(found.parameters.get("q", "1"))
    except ValueError:
        return None
    if edition is None or not 0 <= quality <= 1:
        return None
    return _Range(name=name, quality=quality, edition=edition)
