"""Answers GET: an entity, a collection or a document."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from catalog.api.cache import ANSWERS, Answer
from catalog.api.headers import headers_of
from catalog.api.params import Inline, read_inline, read_page
from catalog.api.paths import Target
from catalog.api.render import Renderer
from catalog.api.responses import json_response
from catalog.context import Context
from catalog.model.entity import Entity
from catalog.model.errors import NotFound
from catalog.model.xid import Xid
from catalog.registry import read
from catalog.registry.read import Known
from catalog.store import entities as store
from catalog.store.database import Connection


async def answer_read(request: web.Request, context: Context, target: Target) -> web.Response:
    if target.is_document:
        return await _get_document(request, context, target.xid)
    generation = request.app[ANSWERS].generation
    inline = read_inline(request, target)
    if target.kind == "collection":
        response = await _get_collection(request, context, target, inline)
    else:
        response = await _get_one(request, context, target, inline)
    if isinstance(response.body, bytes):
        answer = Answer(body=response.body, headers=dict(response.headers))
        request.app[ANSWERS].put(context.base_url(request), request.raw_path, answer, generation)
    return response


async def _get_one(
    request: web.Request, context: Context, target: Target, inline: Inline
) -> web.Response:
    async with context.database.pool.acquire() as connection:
        if inline:
            known = await read.read_subtree(connection, target.xid)
            await add_parent(connection, known, target.xid)
        else:
            known = await read.read_entity(connection, context.model, target.xid)
    return json_response(show(request, context, known, target, inline))


async def add_parent(connection: Connection, known: Known, xid: Xid) -> None:
    """A version alone does not know whether it is the default one; its resource does."""
    if xid.vid:
        known.entities |= await store.load(connection, [str(xid.resource)])


def show(
    request: web.Request, context: Context, known: Known, target: Target, inline: Inline
) -> dict[str, Any]:
    renderer = renderer_of(request, context, known)
    entity = known.entities[str(target.xid)]
    if target.kind == "meta":
        return renderer.meta(entity)
    return renderer.show(entity, inline)


def renderer_of(request: web.Request, context: Context, known: Known) -> Renderer:
    return Renderer(
        context.configuration,
        known,
        base=context.base_url(request),
        authority=context.database.node.authority,
    )


async def _get_collection(
    request: web.Request, context: Context, target: Target, inline: Inline
) -> web.Response:
    after, limit = read_page(request)
    async with context.database.pool.acquire() as connection:
        known, xids = await read.read_page(
            connection, context.model, target.xid, target.plural, after, limit + 1
        )
        total = await store.count_collections(connection, [target.path])
        page = xids[:limit]
        if inline:
            rows = await store.load_subtrees(connection, page, documents=True)
            known = known.deepened(rows)
    headers = {}
    if len(xids) > limit:
        last = Xid.parse(page[-1]).id
        following = request.rel_url.update_query({"limit": str(limit), "after": last})
        url = f"{context.base_url(request)}{following}"
        headers["Link"] = f"<{url}>;rel=next;count={total.get(target.path, 0)}"
    return json_response(
        renderer_of(request, context, known).collection(page, inline), headers=headers
    )


async def _get_document(request: web.Request, context: Context, xid: Xid) -> web.Response:
    async with context.database.pool.acquire() as connection:
        known = await read.read_entity(connection, context.model, xid)
        version = version_shown(known, xid)
        body = await store.load_document(connection, version.xid)
    return answer_document(request, context, known, xid, body or b"")


def version_shown(known: Known, xid: Xid) -> Entity:
    entity = known.entities[str(xid)]
    version = entity if xid.vid else known.default_of(entity)
    if version is None:
        raise NotFound(str(xid), detail="Its default version has not been replicated yet.")
    return version


def answer_document(
    request: web.Request,
    context: Context,
    known: Known,
    xid: Xid,
    body: bytes,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> web.Response:
    """A document with its metadata in headers; elsewhere's documents are referred to."""
    renderer = renderer_of(request, context, known)
    renderer.shows_details = False
    entity = known.entities[str(xid)]
    shown = renderer.show(entity, {})
    kind = context.model.groups[xid.groups].resources[xid.resources]
    answer = headers_of(shown) | {"Content-Disposition": xid.rid}
    if not xid.vid:
        version = version_shown(known, xid)
        answer["Content-Location"] = f"{context.base_url(request)}{version.xid}"
    if url := shown.get(f"{kind.singular}url"):
        answer["Location"] = url
        status, body = (303 if status == 200 else status), b""
    return web.Response(body=body, status=status, headers=answer | (headers or {}))
