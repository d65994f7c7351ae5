"""Answers GET of a collection, whole or page by page (pagination/spec.md)."""

from __future__ import annotations

import functools
from dataclasses import replace

from aiohttp import hdrs, web
from multidict import CIMultiDict

from catalog.api.answercache import ANSWERS, CachedAnswer, Key
from catalog.api.inline import inlines
from catalog.api.readplan import ReadPlan
from catalog.api.subtreejson import SubtreeWriter
from catalog.http.responses import JSON_TYPE, to_json
from catalog.http.stream import in_search_time
from catalog.model.errors import CannotDocXref, NotFound
from catalog.model.xid import Xid
from catalog.reading import entities
from catalog.reading.find import Count, FoundPage, find_page
from catalog.reading.loaded import Loaded
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
        if _is_found(plan):
            page, visible = await _find(connection, plan, limit, count)
            page, loaded = await _with_entities(connection, plan, page)
        else:
            (page, loaded), visible = await _read(connection, plan, limit, count), EVERYTHING
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
    if _is_found(plan):
        page, visible = await _find(connection, plan, limit)
    elif limit is not None:
        page, _ = await _read(connection, plan, limit)
    else:
        await _check_owner(connection, plan)

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


async def _read(
    connection: Connection, plan: ReadPlan, limit: int | None, count: Count = count_all
) -> tuple[FoundPage, Loaded]:
    """Read the next page in the order of ids."""
    after, target = plan.flags.after, plan.target
    loaded, xids, has_more = await entities.read_page(
        connection, plan.model, plan.xid, target.plural, after, limit, follows=plan.follows
    )
    if not (has_more or after):
        return FoundPage(xids=xids, total=len(xids)), loaded
    total = loaded.counts.get(target.path)
    if total is None:
        total = await count(connection, target.path)
    following = Xid.parse(xids[-1]).id if has_more else ""
    return FoundPage(xids=xids, following=following, total=total), loaded


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
    if not found.xids:
        await _check_owner(connection, plan)
    visible = await plan.visible(connection, None if limit is None else found.xids)
    return found, visible


async def _with_entities(
    connection: Connection, plan: ReadPlan, page: FoundPage
) -> tuple[FoundPage, Loaded]:
    if plan.xid.gid and not plan.xid.rid:
        loaded = await entities.read_resources(connection, page.xids, follows=plan.follows)
    else:
        xids = [Xid.parse(xid) for xid in page.xids]
        loaded = await entities.read_entities(connection, plan.model, xids, follows=plan.follows)
    if plan.xid.rid:
        loaded.entities |= (await entities.read_owner(connection, plan.xid)).entities
    # Without a snapshot, a concurrent write may have deleted entities since the search.
    return replace(page, xids=[xid for xid in page.xids if xid in loaded.entities]), loaded


async def _check_owner(connection: Connection, plan: ReadPlan) -> None:
    if not await store.load(connection, [str(plan.xid)]):
        raise NotFound(str(plan.xid))


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
