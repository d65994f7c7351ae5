"""Answers GET and HEAD: an entity, a collection or a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import hdrs, web
from multidict import CIMultiDict

from catalog.api.answercache import ANSWERS, CachedAnswer
from catalog.api.collectionread import answer_collection
from catalog.api.entityjson import EntityRenderer
from catalog.api.inline import inlines
from catalog.api.metadataheaders import headers_of
from catalog.api.readflags import read_flags
from catalog.api.readplan import ReadPlan
from catalog.api.requesttarget import RequestTarget
from catalog.api.scope import UNFILTERED
from catalog.api.subtreejson import SubtreeWriter
from catalog.context import Context
from catalog.http.etag import tag
from catalog.http.headers import encode_url
from catalog.http.responses import JSON_TYPE, UNTYPED, json_response
from catalog.model.entity import Entity
from catalog.model.errors import CannotDocXref, NotFound
from catalog.model.xid import Xid
from catalog.reading import entities
from catalog.reading.loaded import Loaded
from catalog.store import entities as store
from catalog.store.database import Connection

_READING = (hdrs.METH_GET, hdrs.METH_HEAD)


async def answer_read(
    request: web.Request, context: Context, target: RequestTarget
) -> web.StreamResponse:
    """Read something, and remember the answer."""
    configuration = context.configuration
    answers = request.app[ANSWERS]
    ticket = answers.ticket()
    view = ReadPlan(
        request=request,
        context=context,
        configuration=configuration,
        target=target,
        query=read_flags(request, target, configuration),
    )
    response = await answer_plan(view)
    if (
        isinstance(response, web.Response)
        and response.status in (200, 303)
        and view.is_lasting
        and request.method == hdrs.METH_GET
    ):
        tag(response)
        answer = CachedAnswer(
            place=target.place,
            status=response.status,
            headers=response.headers.copy(),
            body=response.body if isinstance(response.body, bytes) else b"",
        )
        key = (context.base_url(request), request.raw_path, configuration.revision)
        answers.put(key, answer, ticket)
    return response


async def answer_plan(view: ReadPlan) -> web.StreamResponse:
    """Whatever a request to read addresses."""
    target, query = view.target, view.query
    if target.is_document and not query.doc:
        return await _answer_document(view)
    if target.kind == "collection":
        return await answer_collection(view)
    if target.kind in ("registry", "group") and query.inline:
        return await answer_owner(view, CIMultiDict())
    return await _answer_one(view)


async def answer_owner(
    view: ReadPlan, headers: CIMultiDict[str], *, status: int = 200
) -> web.StreamResponse:
    """The registry or a group with what it inlines, of whatever size."""
    query = view.query
    async with view.snapshot() as snapshot:
        connection = snapshot.connection
        scope = await view.scope(connection)
        found = await store.load(connection, [str(view.xid)])
        if not found:
            raise NotFound(str(view.xid))
        writer = SubtreeWriter(connection, view.renderer(Loaded(), scope))
        entity = found[str(view.xid)]
        pieces = writer.owner(entity, query.inline, with_own=not query.collections)
        headers[hdrs.CONTENT_TYPE] = JSON_TYPE
        return await view.send(snapshot, writer, pieces, headers, status=status)


async def _answer_one(view: ReadPlan) -> web.Response:
    if view.query.filters is None:
        async with view.context.database.pool.acquire() as connection:
            known, scope = await read_one(connection, view), UNFILTERED
    else:
        async with view.snapshot() as snapshot:
            scope = await view.scope(snapshot.connection)
            known = await read_one(snapshot.connection, view)
    renderer = view.renderer(known, scope)
    return json_response(shown(renderer, view), headers=_location(renderer, view))


def _location(renderer: EntityRenderer, view: ReadPlan) -> dict[str, str]:
    """A resource shows its default version, so that is where its content is."""
    if view.target.kind != "resource":
        return {}
    url = renderer.default_url(renderer.known.entities[str(view.xid)])
    return {hdrs.CONTENT_LOCATION: url} if url else {}


async def read_one(connection: Connection, view: ReadPlan) -> Loaded:
    """One entity with what is to be inlined in it.

    Raises:
        NotFound
        CannotDocXref: a version of a cross reference is to be shown as a document.
    """
    xid, kind, inline = view.xid, view.target.resource_type, view.query.inline
    versions = inlines(inline, "versions") if view.target.kind == "resource" else None
    if versions is not None:
        known = await entities.read_subtree(connection, xid, follows=view.follows)
    else:
        known = await entities.read_entities(connection, view.model, [xid], follows=view.follows)
    resource = known.entities.get(str(xid.resource)) if xid.vid else None
    if not view.follows and resource is not None and "xref" in resource.attributes:
        raise CannotDocXref(resource.xid)
    if str(xid) not in known.entities:
        raise NotFound(str(xid))
    if kind is not None and kind.hasdocument and view.target.kind != "meta":
        if versions is not None and inlines(versions, kind.singular) is not None:
            await entities.load_documents(connection, known, known.entities.values())
        elif inlines(inline, kind.singular) is not None:
            entity = known.entities[str(xid)]
            version = entity if xid.vid else known.default_of(entity)
            await entities.load_documents(connection, known, [version] if version else [])
    return known


def shown(renderer: EntityRenderer, view: ReadPlan) -> dict[str, Any]:
    """What is known of one entity, as the body of an answer."""
    entity = renderer.known.entities[str(view.xid)]
    if view.target.kind == "meta":
        return renderer.meta(entity)
    return renderer.show(entity, view.query.inline)


async def _answer_document(view: ReadPlan) -> web.Response:
    if view.query.filters is None:
        async with view.context.database.pool.acquire() as connection:
            known, body = await read_document(connection, view)
    else:
        async with view.snapshot() as snapshot:
            await view.scope(snapshot.connection)
            known, body = await read_document(snapshot.connection, view)
    return answer_document(view, known, body)


async def read_document(connection: Connection, view: ReadPlan) -> tuple[Loaded, bytes]:
    known = await entities.read_entity(connection, view.model, view.xid)
    version = version_shown(known, view.xid)
    await entities.load_documents(connection, known, [version])
    return known, known.document_of(version)


def version_shown(known: Loaded, xid: Xid) -> Entity:
    """The version whose document a resource or version shows.

    Raises:
        NotFound: there is none for now.
    """
    entity = known.entities[str(xid)]
    version = entity if xid.vid else known.default_of(entity)
    if version is None:
        detail = "Its default version has not been replicated yet."
        if "xref" in entity.attributes:
            detail = f"It refers to {entity.attributes['xref']}, which has no document to show."
        raise NotFound(str(xid), detail=detail)
    return version


def answer_document(
    view: ReadPlan,
    known: Loaded,
    body: bytes,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """A document with its metadata in headers; elsewhere's documents are referred to.

    Raises:
        TooLarge: the metadata does not fit into headers, and nothing was written.
    """
    request, xid, kind = view.request, view.xid, view.target.resource_type
    assert kind is not None, "only resource types have documents"
    renderer = view.renderer(known)
    renderer.shows_details = False
    metadata = renderer.show(known.entities[str(xid)], {})
    answer = headers_of(metadata, kind, request.path if request.method in _READING else None)
    if hdrs.CONTENT_TYPE not in answer:
        answer |= UNTYPED
    answer["Content-Disposition"] = xid.rid
    if not xid.vid:
        version = version_shown(known, xid)
        answer["Content-Location"] = f"{renderer.base}{xid}/versions/{version.path.vid}"
    if url := metadata.get(f"{kind.singular}url"):
        answer["Location"] = encode_url(url)
        status, body = (303 if status == 200 else status), b""
    return web.Response(body=body, status=status, headers=answer | dict(headers or {}))
