"""Answers GET and HEAD of an entity, and of a collection, whole or by page (pagination/spec.md)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace

from aiohttp import hdrs, web
from multidict import CIMultiDict

from catalog.api.answercache import ANSWERS, CachedAnswer, Key
from catalog.api.entityjson import EntityRenderer, JsonObject
from catalog.api.metadataheaders import headers_of
from catalog.api.readplan import ReadPlan
from catalog.api.requestflags import inlines, read_flags
from catalog.api.requesttarget import RequestTarget
from catalog.api.subtreejson import SubtreeWriter
from catalog.context import Context
from catalog.http.responses import JSON_TYPE, UNTYPED, encode_url, json_response, to_json
from catalog.http.stream import in_search_time
from catalog.model.entity import Entity
from catalog.model.errors import CannotDocXref, NotFound
from catalog.model.xid import Xid
from catalog.reading import entities
from catalog.reading.entities import Loaded
from catalog.reading.find import Count, FoundPage, find_page
from catalog.reading.tree import Branch, Chunks, read_between, read_listed, read_whole
from catalog.reading.visible import EVERYTHING, Visible
from catalog.store import entities as store
from catalog.store.database import Connection
from catalog.store.find import count_all
from catalog.store.subtrees import Snapshot


async def answer_collection(plan: ReadPlan) -> web.StreamResponse:
    """Answer with one page of a collection."""
    limit = _limit(plan)
    is_tree = plan.target.plural != "versions" and (bool(plan.flags.inline) or limit is None)
    if is_tree:
        async with plan.snapshot() as snapshot:
            return await _answer_tree(plan, snapshot, limit)
    # An answer with documents counts in its snapshot, since a cached count may be newer.
    count = count_all if plan.may_show_documents else functools.partial(cached_count, plan)
    filters = plan.flags.filters
    is_one_query = filters is None or filters.is_plain
    async with plan.connection(is_one_query=is_one_query) as connection:
        page, visible = await _find(connection, plan, limit, count)
        loaded = await entities.read_members(
            connection, plan.model, plan.xid, page.xids, follows=plan.follows
        )
        # Without a snapshot, a concurrent write may have deleted entities since the search.
        page = replace(page, xids=[xid for xid in page.xids if xid in loaded.entities])
        return await _answer_page(connection, plan, page, loaded, visible)


def _is_found(plan: ReadPlan) -> bool:
    """Whether a filter or an order selects the page, rather than ids alone."""
    return plan.flags.filters is not None or plan.flags.sort is not None


def _limit(plan: ReadPlan) -> int | None:
    """The largest number of entities in an answer; `None` if the registry has no pages."""
    if not plan.configuration.capabilities.pagination:
        return None
    most = plan.context.settings.page_size
    return most if plan.flags.limit is None else min(plan.flags.limit, most)


async def _answer_page(
    connection: Connection, plan: ReadPlan, page: FoundPage, loaded: Loaded, visible: Visible
) -> web.Response:
    kind = plan.target.resource_type
    if plan.xid.rid and plan.flags.doc and "xref" in loaded.entities[str(plan.xid)].attributes:
        raise CannotDocXref(str(plan.xid))
    if kind and kind.hasdocument and inlines(plan.flags.inline, kind.singular) is not None:
        members = [loaded.entities[xid] for xid in page.xids]
        await entities.load_documents(connection, loaded, members)
    shown = plan.renderer(loaded, visible).collection(page.xids, plan.flags.inline)
    response = web.Response(body=to_json(shown), headers=_headers(plan, page))
    return plan.cache(response, has_cross_references=loaded.has_cross_references)


async def _answer_tree(plan: ReadPlan, snapshot: Snapshot, limit: int | None) -> web.StreamResponse:
    """Answer with whole subtrees, or with more entities than a page may have, as a stream."""
    connection, page, visible = snapshot.connection, FoundPage(xids=[]), EVERYTHING
    if _is_found(plan) or limit is not None:
        page, visible = await _find(connection, plan, limit)
    elif not await store.load(connection, [str(plan.xid)]):
        raise NotFound(str(plan.xid))

    def chunks(branch: Branch) -> Chunks:
        if limit is None and not _is_found(plan):
            return read_whole(connection, branch)
        if _is_found(plan) or not page.xids:
            roots = None if visible.is_everything else visible.roots
            return read_listed(connection, branch, page.xids, roots)
        return read_between(connection, branch, plan.flags.after, Xid.parse(page.xids[-1]).id)

    writer = SubtreeWriter(connection, plan.renderer(Loaded(), visible))
    pieces = writer.collection(plan.target.path, plan.flags.inline, chunks)
    return await plan.send(snapshot, writer, pieces, _headers(plan, page))


async def _find(
    connection: Connection, plan: ReadPlan, limit: int | None, count: Count = count_all
) -> tuple[FoundPage, Visible]:
    """Find the next page of the entities that match the filters, in the requested order."""
    flags = plan.flags
    async with in_search_time(plan.request):
        found = await find_page(
            connection,
            plan.xid,
            plan.target.plural,
            filters=flags.filters,
            sort=flags.sort,
            after=flags.after,
            limit=limit,
            count_whole=count,
        )
    visible = await plan.visible(connection, None if limit is None else found.xids)
    return found, visible


def _headers(plan: ReadPlan, page: FoundPage) -> CIMultiDict[str]:
    """The media type, and links to the first and next page (pagination/spec.md, "link")."""
    headers = CIMultiDict({hdrs.CONTENT_TYPE: JSON_TYPE})
    if plan.flags.after:
        headers.add(hdrs.LINK, _link(plan, page, "first", None))
    if page.following:
        headers.add(hdrs.LINK, _link(plan, page, "next", page.following))
    return headers


def _link(plan: ReadPlan, page: FoundPage, rel: str, after: str | None) -> str:
    url = plan.request.rel_url.without_query_params("after")
    if after is not None:
        url = url.update_query({"limit": str(_limit(plan)), "after": after})
    base = plan.context.base_url(plan.request)
    # Clients may join the links into one header and split the header at commas.
    target = f"{base}{url}".replace(",", "%2C")
    return f"<{target}>;rel={rel};count={page.total}"


async def cached_count(plan: ReadPlan, connection: Connection, collection: str) -> int:
    """The current number of entities in the requested collection.

    The number is cached like an answer to GET of the collection, but each call asks the database
    for later writes.

    Args:
        connection: a connection that is not in a transaction.
    """
    if plan.context.caller.is_restricted:
        return await count_all(connection, collection)
    answers = plan.request.app[ANSWERS]
    key: Key = ("", collection, plan.configuration.revision)
    loaded = await answers.get_confirmed(key, connection)
    if loaded is not None:
        return int(loaded.body)
    ticket = answers.ticket()
    count = await count_all(connection, collection)
    place, body = plan.target.place, str(count).encode()
    answer = CachedAnswer(place=place, status=200, headers=CIMultiDict(), body=body)
    answers.put(key, answer, ticket)
    return count


async def answer_read(
    request: web.Request, context: Context, target: RequestTarget
) -> web.StreamResponse:
    """Answer a GET or HEAD; an answer to GET is cached."""
    configuration = context.configuration
    flags = read_flags(request, target, configuration)
    is_cached = request.method == hdrs.METH_GET and not context.caller.is_restricted
    ticket = request.app[ANSWERS].ticket() if is_cached else None
    return await answer_plan(ReadPlan(request, configuration, target, flags, ticket))


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
