"""Handlers for acceptances: the catalogs whose pushes this node takes. Without any, it takes none.

An acceptance is a link whose source sends by itself. So what it brought, its conflicts and its
pin are shown, dropped and changed as those of every link.
"""

from __future__ import annotations

import uuid
from urllib.parse import quote

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.flags import read_page
from catalog.http.responses import json_response
from catalog.model.author import name_target
from catalog.model.errors import BadRequest, NotFound
from catalog.store import links
from replication.links import (
    check_authority,
    check_number,
    check_pin,
    delete_link,
    next_page,
    show_link,
)
from replication.wire import AcceptanceBody, read_request


async def list_acceptances(request: web.Request) -> web.Response:
    """`GET /replication/acceptances`: in pages."""
    context = request.app[CONTEXT]
    after, limit = read_page(request)
    async with context.database.pool.acquire(timeout=30) as connection:
        found = await links.page_acceptances(connection, after, limit + 1)
    headers = next_page(request, limit, found[limit - 1].id) if len(found) > limit else {}
    shown = [show_link(link) for link in found[:limit]]
    return json_response({"acceptances": shown}, headers=headers)


async def create_acceptance(request: web.Request) -> web.Response:
    """`POST /replication/acceptances`: take what an authority pushes from now on."""
    context = request.app[CONTEXT]
    body = await read_request(request, AcceptanceBody)
    check_authority(context, body.authority, request.path)
    definition, id = body.to_definition(), body.id or uuid.uuid4().hex[:12]
    async with context.database.transaction() as connection:
        await check_number(connection, context, request.path)
        if before := await links.get_acceptance(connection, body.authority):
            detail = f'Its pushes are accepted already, by "{before.id}"'
            raise BadRequest(request.path, error_detail=detail)
        link = await links.create(connection, id, definition, body.authority)
        if link is None:
            raise BadRequest(request.path, error_detail=f'There is a link "{id}" already')
        await check_pin(connection, request, id, definition, body.authority)
        name_target(f"/replication/acceptances/{id}")
    location = f"{context.base_url(request)}/replication/links/{quote(id)}"
    return json_response(show_link(link), status=201, headers={"Location": location})


async def delete_acceptance(request: web.Request) -> web.Response:
    """`DELETE /replication/acceptances/{id}`: as a link is deleted, with `?drop` or without."""
    async with request.app[CONTEXT].database.pool.acquire(timeout=30) as connection:
        link = await links.get(connection, request.match_info["id"])
    if link is None or link.definition.mode != "accept":
        raise NotFound(request.path)
    return await delete_link(request)
