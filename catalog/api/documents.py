"""Takes and gives the registry as a document of any edition, in JSON or YAML."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from catalog.api.body import read_body, read_object
from catalog.api.negotiation import DOCUMENTS, YAML, Representation, representation_for
from catalog.api.stream import WHOLE
from catalog.context import CONTEXT
from catalog.documents.downgrade import downgrade
from catalog.documents.editions import SCHEMA
from catalog.documents.migrate import migrate, root_of
from catalog.model.errors import MissingBody, ParsingData
from catalog.sourcefile import NotParsable, parse_json, parse_yaml, to_yaml

PATHS = frozenset({"/", "/export"})
"""Where there is something that has the form of a document, too."""


async def read_registry(request: web.Request) -> dict[str, Any]:
    """The body of a write of the registry: JSON, or a document of any edition.

    A document is migrated to the newest edition. What has no form there is kept in the
    extension attribute `older` of its entity. What a document says of itself is not taken as
    a group by POST, which takes nothing else.

    Raises:
        MissingBody, ParsingData, and whatever `read_object` raises.
    """
    if request.content_type.lower() not in DOCUMENTS:
        return await read_object(request)
    text = await read_body(request)
    if not text:
        raise MissingBody(request.path)
    parse = parse_yaml if request.content_type.lower() == YAML else parse_json
    try:
        source = await asyncio.to_thread(parse, text, request.app[CONTEXT].settings.max_depth)
    except NotParsable as error:
        raise ParsingData(error_detail=str(error)) from error
    if not isinstance(source, dict):
        raise ParsingData(request.path, error_detail="an object is needed")
    migrated = await asyncio.to_thread(migrate, source, keep_unknown=True)
    groups = request.app[CONTEXT].model.groups
    if request.method == hdrs.METH_POST:
        return {name: value for name, value in migrated.document.items() if name in groups}
    return root_of(migrated.document)


@web.middleware
async def document_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answers with a document where the client prefers one to JSON."""
    if request.path not in PATHS:
        return await handler(request)
    wanted = representation_for(request.headers.getall(hdrs.ACCEPT, ()))
    if wanted is not None:
        request[WHOLE] = wanted.content_type
    response = await handler(request)
    if not response.prepared:
        response.headers.add(hdrs.VARY, hdrs.ACCEPT)
    if wanted is None or response.status not in (200, 201):
        return response
    if not isinstance(response, web.Response) or not isinstance(response.body, bytes):
        return response
    response.headers.popall(hdrs.ETAG, None)
    response.headers[hdrs.CONTENT_TYPE] = wanted.content_type
    response.body = await asyncio.to_thread(_represented, response.body, wanted)
    return response


def _represented(body: bytes, wanted: Representation) -> bytes:
    document = {"$schema": SCHEMA, **downgrade(orjson.loads(body), wanted.edition)}
    return to_yaml(document) if wanted.media_type == YAML else orjson.dumps(document)
