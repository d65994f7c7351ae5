"""Answers GET and HEAD of one entity: its metadata, or its document."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import hdrs, web
from multidict import CIMultiDict

from catalog.api.answercache import ANSWERS
from catalog.api.collectionread import answer_collection
from catalog.api.entityjson import EntityRenderer, JsonObject, add_attributes, add_provenance
from catalog.api.inline import inlines
from catalog.api.metadataheaders import headers_of
from catalog.api.readplan import ReadPlan
from catalog.api.requestflags import read_flags
from catalog.api.requesttarget import RequestTarget
from catalog.api.subtreejson import SubtreeWriter
from catalog.context import Context
from catalog.http.responses import JSON_TYPE, UNTYPED, encode_url, json_response
from catalog.model.entity import Entity
from catalog.model.errors import CannotDocXref, NotFound
from catalog.model.shortpath import short_path
from catalog.model.xid import Xid
from catalog.reading import entities
from catalog.reading.loaded import Loaded
from catalog.reading.visible import EVERYTHING, Visible
from catalog.store import entities as store
from catalog.store.database import Connection


async def answer_read(
    request: web.Request, context: Context, target: RequestTarget
) -> web.StreamResponse:
    """Answer a GET or HEAD; an answer to GET is cached."""
    configuration = context.configuration
    flags = read_flags(request, target, configuration)
    is_cached = request.method == hdrs.METH_GET and not context.caller.is_restricted
    ticket = request.app[ANSWERS].ticket() if is_cached else None
    plan = ReadPlan(
        request=request,
        context=context,
        configuration=configuration,
        target=target,
        flags=flags,
        ticket=ticket,
    )
    is_plain = request.method == hdrs.METH_GET and not request.query_string
    if is_plain and target.kind == "resource" and not target.is_document:
        answer = await _answer_plainly(plan)
        if answer is not None:
            return answer
    return await answer_plan(plan)


async def _answer_plainly(plan: ReadPlan) -> web.Response | None:
    """Answer the most frequent read, a resource's metadata without flags, in few steps.

    The answer equals the answer of `answer_plan`, to the byte. Returns `None` if more has to be
    read: for a cross reference, or a resource whose default version is missing or damaged.
    """
    context, xid = plan.context, str(plan.xid)
    async with context.database.acquire() as connection:
        found = await store.load_shown(connection, [xid])
    if not found:
        raise NotFound(xid)
    resource, default, count = found[0].resource, found[0].default, found[0].versionscount
    kind = plan.target.resource_type
    if default is None or kind is None or resource.damage or default.damage:
        return None
    if "xref" in resource.attributes:
        return None
    base = context.base_url(plan.request)
    url, details = base + xid, "$details" if kind.hasdocument else ""
    vid = resource.attributes["defaultversionid"]
    shown: JsonObject = {f"{kind.singular}id": xid.rpartition("/")[2], "versionid": vid}
    shown["self"] = url + details
    if plan.configuration.capabilities.shortself:
        shown["shortself"] = base + short_path(xid)
    shown |= {"xid": xid, "epoch": default.epoch}
    add_attributes(shown, default, is_default=True)
    add_provenance(shown, resource, context.database.node.authority)
    shown |= {"metaurl": f"{url}/meta", "versionsurl": f"{url}/versions", "versionscount": count}
    headers: dict[str, str] = {hdrs.CONTENT_LOCATION: f"{url}/versions/{vid}{details}"}
    return plan.cache(json_response(shown, headers=headers), has_cross_references=False)


async def answer_plan(plan: ReadPlan) -> web.StreamResponse:
    """Answer a read of an entity, a document or a collection."""
    if plan.target.kind == "collection":
        return await answer_collection(plan)
    if plan.target.kind in ("registry", "group") and plan.flags.inline:
        return await answer_owner(plan, CIMultiDict())
    if plan.flags.filters is None:
        async with plan.connection() as connection:
            loaded, visible = await load(connection, plan), EVERYTHING
    else:
        # One snapshot, so that the filter decides about the state that the answer shows.
        async with plan.context.database.snapshot() as connection:
            visible = await plan.visible(connection)
            loaded = await load(connection, plan)
    response = answer_loaded(plan, loaded, visible)
    return plan.cache(response, has_cross_references=loaded.has_cross_references)


async def answer_owner(
    plan: ReadPlan, headers: CIMultiDict[str], *, status: int = 200
) -> web.StreamResponse:
    """Answer with the registry or a group and the inlined entities, of unlimited size."""
    async with plan.snapshot() as snapshot:
        connection, xid = snapshot.connection, str(plan.xid)
        visible = await plan.visible(connection)
        found = await store.load(connection, [xid])
        if not found:
            raise NotFound(xid)
        writer = SubtreeWriter(connection, plan.renderer(Loaded(), visible))
        with_own = not plan.flags.collections
        pieces = writer.owner(found[xid], plan.flags.inline, with_own=with_own)
        headers[hdrs.CONTENT_TYPE] = JSON_TYPE
        return await plan.send(snapshot, writer, pieces, headers, status=status)


async def load(connection: Connection, plan: ReadPlan) -> Loaded:
    """Load the parts of an entity that an answer shows, including inlined parts.

    Raises:
        NotFound
        CannotDocXref: the request asks for a version of a cross reference in document view.
    """
    xid, inline, kind = plan.xid, plan.flags.inline, plan.target.resource_type
    versions = inlines(inline, "versions") if plan.target.kind == "resource" else None
    if versions is not None and not plan.shows_document:
        loaded = await entities.read_subtree(connection, xid, follows=plan.follows)
    else:
        loaded = await entities.read_entities(connection, plan.model, [xid], follows=plan.follows)
    if xid.vid and not plan.follows:
        resource = loaded.entities.get(str(xid.resource))
        if resource is not None and "xref" in resource.attributes:
            raise CannotDocXref(resource.xid)
    entity = loaded.entities.get(str(xid))
    if entity is None:
        raise NotFound(str(xid))
    if plan.shows_document:
        await entities.load_documents(connection, loaded, [version_shown(loaded, xid)])
    elif inline and kind is not None and kind.hasdocument and plan.target.kind != "meta":
        if versions is not None and inlines(versions, kind.singular) is not None:
            await entities.load_documents(connection, loaded, loaded.entities.values())
        elif inlines(inline, kind.singular) is not None:
            version = entity if xid.vid else loaded.default_of(entity)
            await entities.load_documents(connection, loaded, [version] if version else [])
    return loaded


def version_shown(loaded: Loaded, xid: Xid) -> Entity:
    """The version whose document a resource or version shows.

    Raises:
        NotFound: the version is missing at the moment.
    """
    entity = loaded.entities[str(xid)]
    version = entity if xid.vid else loaded.default_of(entity)
    if version is None:
        detail = "Its default version has not been replicated yet."
        if "xref" in entity.attributes:
            detail = f"It refers to {entity.attributes['xref']}, which has no document to show."
        raise NotFound(str(xid), detail=detail)
    return version


def answer_loaded(plan: ReadPlan, loaded: Loaded, visible: Visible = EVERYTHING) -> web.Response:
    """Answer a GET with the result of `load`."""
    if plan.shows_document:
        return answer_document(plan, loaded)
    renderer = plan.renderer(loaded, visible)
    headers: dict[str, str] = {}
    if plan.target.kind == "resource":
        # A resource shows its default version.
        url = renderer.default_url(loaded.entities[str(plan.xid)])
        if url:
            headers[hdrs.CONTENT_LOCATION] = url
    return json_response(shown(renderer, plan), headers=headers)


def shown(renderer: EntityRenderer, plan: ReadPlan) -> JsonObject:
    """The body of an answer about one entity."""
    entity = renderer.loaded.entities[str(plan.xid)]
    if plan.target.kind == "meta":
        return renderer.meta(entity)
    return renderer.show(entity, plan.flags.inline)


def answer_document(
    plan: ReadPlan, loaded: Loaded, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Answer with a document and its metadata in headers, or refer to an external document.

    Raises:
        TooLarge: the metadata does not fit into headers, and the request is a read.
    """
    xid, kind = plan.xid, plan.target.resource_type
    assert kind is not None, "only resource types have documents"
    version = version_shown(loaded, xid)
    body, renderer = loaded.document_of(version), plan.renderer(loaded)
    metadata = renderer.show(loaded.entities[str(xid)], {})
    # A write is committed already, so its answer leaves large values out instead of failing.
    answer = headers_of(metadata, kind, plan.request.path if plan.is_read else None)
    if hdrs.CONTENT_TYPE not in answer:
        answer |= UNTYPED
    answer["Content-Disposition"] = xid.rid
    if not xid.vid:
        answer["Content-Location"] = f"{renderer.base}{xid}/versions/{version.path.vid}"
    if url := metadata.get(f"{kind.singular}url"):
        answer["Location"] = encode_url(url)
        status, body = (303 if status == 200 else status), b""
    return web.Response(body=body, status=status, headers=answer | dict(headers or {}))
