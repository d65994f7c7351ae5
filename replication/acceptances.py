"""Handlers for acceptances: the catalogs whose pushes this node takes. Without any, it takes none.

An acceptance is a link whose source sends by itself. So what it brought, its conflicts and its
pin are shown, dropped and changed as those of every link.
"""

from __future__ import annotations

import uuid

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.flags import page_limit
from catalog.http.route import model_response
from catalog.model.author import name_target
from catalog.model.errors import BadRequest, NotFound
from catalog.model.linkterms import RELAY
from catalog.operations.links import Acceptances, DropQuery, LinkAnswer, NewAcceptance
from catalog.operations.operation import PageQuery
from catalog.store import links
from catalog.store.links import LinkDefinition
from replication.linkanswers import created_link, link_answer
from replication.links import (
    check_authority,
    check_number,
    check_pin,
    delete_link,
    members_of,
    next_page,
)


async def list_acceptances(request: web.Request, page: PageQuery) -> web.Response:
    """List the acceptances in pages."""
    limit = page_limit(request, page.limit)
    async with request.app[CONTEXT].database.pool.acquire(timeout=30) as connection:
        found = await links.page_acceptances(connection, page.after, limit + 1)
    headers = next_page(request, limit, found[limit - 1].id) if len(found) > limit else {}
    answer = Acceptances(acceptances=[link_answer(link) for link in found[:limit]])
    return model_response(answer, headers=headers)


async def create_acceptance(request: web.Request, body: NewAcceptance) -> web.Response:
    """Take what an authority pushes from now on."""
    context = request.app[CONTEXT]
    check_authority(context, body.authority, request.path)
    relays, id = body.relays, body.id or uuid.uuid4().hex[:12]
    definition = LinkDefinition(
        mode="accept",
        authorities=relays if relays in ((), RELAY) else (body.authority, *relays),
        **members_of(body, request.path),
    )
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
    return created_link(request, link_answer(link))


async def delete_acceptance(request: web.Request, query: DropQuery) -> LinkAnswer | web.Response:
    """Delete an acceptance as a link is deleted."""
    async with request.app[CONTEXT].database.pool.acquire(timeout=30) as connection:
        link = await links.get(connection, request.match_info["id"])
    if link is None or link.definition.mode != "accept":
        raise NotFound(request.path)
    return await delete_link(request, query)
