"""Answers GET of a collection: all of it, or page by page (pagination/spec.md)."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from aiohttp import hdrs, web
from multidict import CIMultiDict

from catalog.api.answercache import ANSWERS, CachedAnswer, Key
from catalog.api.inline import inlines
from catalog.api.readplan import ReadPlan
from catalog.api.scope import UNFILTERED, Scope
from catalog.api.subtreejson import SubtreeWriter
from catalog.http.deadline import in_search_time
from catalog.http.responses import JSON_TYPE, to_json
from catalog.model.errors import CannotDocXref, NotFound
from catalog.model.xid import Xid
from catalog.reading import entities
from catalog.reading.find import Count, find_page
from catalog.reading.loaded import Loaded
from catalog.reading.tree import Branch, Chunks, read_between, read_listed, read_nothing, read_whole
from catalog.store import entities as store
from catalog.store.database import Connection
from catalog.store.find import count_all
from catalog.store.subtrees import Snapshot

_ALL = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPage:
    """A part of a collection: its entities in order, where it goes on, and how many there are."""

    xids: Sequence[str] = ()
    following: str = ""
    total: int = 0
    known: Loaded = field(default_factory=Loaded)


async def answer_collection(view: ReadPlan) -> web.StreamResponse:
    """A collection, as far as one page reaches."""
    limit = _limit(view)
    is_tree = view.target.plural != "versions" and (bool(view.query.inline) or limit is None)
    if is_tree:
        async with view.snapshot() as snapshot:
            return await _answer_tree(view, snapshot, limit)
    count = functools.partial(count_remembered, view)
    async with _connection(view) as connection:
        if _is_found(view):
            page, scope = await _find(connection, view, limit, count)
            page = await _with_entities(connection, view, page)
        else:
            page, scope = await _read(connection, view, limit, count), UNFILTERED
        return await _answer_page(connection, view, page, scope)


@contextlib.asynccontextmanager
async def _connection(view: ReadPlan) -> AsyncIterator[Connection]:
    """Where a page is read: in a snapshot, if more than one look decides what is on it.

    Else it shows what was found as it is a moment later, as an unfiltered page does.
    """
    database, filters = view.context.database, view.query.filters
    is_one_look = filters is None or filters.is_plain
    async with database.pool.acquire() if is_one_look else database.snapshot() as connection:
        yield connection


def _is_found(view: ReadPlan) -> bool:
    """Whether the page is not simply the next ones by id."""
    return view.query.filters is not None or view.query.sort is not None


def _limit(view: ReadPlan) -> int | None:
    """The most entities in one answer; `None` where the registry has no pages."""
    if not view.configuration.capabilities.pagination:
        return None
    most = view.context.settings.page_size
    return most if view.query.limit is None else min(view.query.limit, most)


async def _answer_page(
    connection: Connection, view: ReadPlan, page: ShownPage, scope: Scope
) -> web.Response:
    kind, known = view.target.resource_type, page.known
    if view.xid.rid and view.query.doc and "xref" in known.entities[str(view.xid)].attributes:
        raise CannotDocXref(str(view.xid))
    if (
        kind is not None
        and kind.hasdocument
        and (inlines(view.query.inline, kind.singular) is not None)
    ):
        await entities.load_documents(connection, known, [known.entities[xid] for xid in page.xids])
    shown = view.renderer(known, scope).collection(page.xids, view.query.inline)
    return web.Response(body=to_json(shown), headers=_headers(view, page))


async def _answer_tree(view: ReadPlan, snapshot: Snapshot, limit: int | None) -> web.StreamResponse:
    """Groups or resources with what is below them, or more than a page could have."""
    connection, page, scope = snapshot.connection, ShownPage(), UNFILTERED
    if _is_found(view):
        page, scope = await _find(connection, view, limit)
    elif limit is not None:
        page = await _read(connection, view, limit)
    else:
        await _check_owner(connection, view)

    def chunks(branch: Branch) -> Chunks:
        if _is_found(view):
            return read_listed(connection, branch, page.xids, scope.roots)
        if limit is None:
            return read_whole(connection, branch)
        if not page.xids:
            return read_nothing()
        return read_between(connection, branch, view.query.after, Xid.parse(page.xids[-1]).id)

    writer = SubtreeWriter(connection, view.renderer(page.known, scope))
    pieces = writer.collection(view.target.path, view.query.inline, chunks)
    return await view.send(snapshot, writer, pieces, _headers(view, page))


async def _read(
    connection: Connection, view: ReadPlan, limit: int | None, count: Count = count_all
) -> ShownPage:
    """What comes next by id."""
    after, target = view.query.after, view.target
    known, xids = await entities.read_page(
        connection,
        view.model,
        view.xid,
        target.plural,
        after,
        None if limit is None else limit + 1,
        follows=view.follows,
    )
    has_more = limit is not None and len(xids) > limit
    if not (has_more or after):
        return ShownPage(xids=xids, total=len(xids), known=known)
    total = known.counts.get(target.path)
    if total is None:
        total = await count(connection, target.path)
    xids = xids[:limit]
    return ShownPage(
        xids=xids, following=Xid.parse(xids[-1]).id if has_more else "", total=total, known=known
    )


async def _find(
    connection: Connection, view: ReadPlan, limit: int | None, count: Count = count_all
) -> tuple[ShownPage, Scope]:
    """What comes next among what the filters leave over, in the order that was asked for."""
    query = view.query
    async with in_search_time(view.request):
        found = await find_page(
            connection,
            view.xid,
            view.target.plural,
            filters=query.filters,
            sort=query.sort,
            after=query.after,
            limit=_ALL if limit is None else limit,
            count_whole=count,
        )
    if not found.xids:
        await _check_owner(connection, view)
    scope = await view.scope(connection, None if limit is None else found.xids)
    return ShownPage(xids=found.xids, following=found.following, total=found.total), scope


async def _with_entities(connection: Connection, view: ReadPlan, page: ShownPage) -> ShownPage:
    if view.xid.gid and not view.xid.rid:
        known = await entities.read_resources(connection, page.xids, follows=view.follows)
    else:
        xids = [Xid.parse(xid) for xid in page.xids]
        known = await entities.read_entities(connection, view.model, xids, follows=view.follows)
    if view.xid.rid:
        known.entities |= (await entities.read_owner(connection, view.xid)).entities
    return replace(page, xids=[xid for xid in page.xids if xid in known.entities], known=known)


async def _check_owner(connection: Connection, view: ReadPlan) -> None:
    if not await store.load(connection, [str(view.xid)]):
        raise NotFound(str(view.xid))


def _headers(view: ReadPlan, page: ShownPage) -> CIMultiDict[str]:
    """The media type, and links to other pages (pagination/spec.md, "link")."""
    headers = CIMultiDict({hdrs.CONTENT_TYPE: JSON_TYPE})
    if view.query.after:
        headers.add(hdrs.LINK, _link(view, page, "first", None))
    if page.following:
        headers.add(hdrs.LINK, _link(view, page, "next", page.following))
    return headers


def _link(view: ReadPlan, page: ShownPage, rel: str, after: str | None) -> str:
    url = view.request.rel_url.without_query_params("after")
    if after is not None:
        url = url.update_query({"limit": str(_limit(view)), "after": after})
    base = view.context.base_url(view.request)
    # Clients that get all links in one header split it at commas.
    target = f"{base}{url}".replace(",", "%2C")
    return f"<{target}>;rel={rel};count={page.total}"


async def count_remembered(view: ReadPlan, connection: Connection, collection: str) -> int:
    """How many entities the collection that is asked for has at this moment.

    It is kept like an answer to GET of the collection, so the next write in it ends it; but
    it is never given without asking the database whether there was one.

    Args:
        connection: in no transaction.
    """
    answers = view.request.app[ANSWERS]
    key: Key = ("", collection, view.configuration.revision)
    known = await answers.get_confirmed(key, connection)
    if known is not None:
        return int(known.body)
    ticket = answers.ticket()
    count = await count_all(connection, collection)
    place, body = view.target.place, str(count).encode()
    answer = CachedAnswer(place=place, status=200, headers=CIMultiDict(), body=body)
    answers.put(key, answer, ticket)
    return count
