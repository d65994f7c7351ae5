"""Handlers by which the two sides of a handover talk to each other.

Neither believes what a request says of itself: each asks the other at the URL that its own operator
has named. So a request of a stranger does no more than wake a node.
"""

from __future__ import annotations

from datetime import UTC, datetime

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.responses import json_response
from catalog.http.stream import in_pieces, send, stream_share
from catalog.model.concorderrors import HandoverRefused
from catalog.model.errors import BadRequest, NotFound
from catalog.store import handovers
from replication.feedlines import MEDIA_TYPE
from replication.handovergiving import given_lines, preview_lines
from replication.provenance import is_authority
from replication.wire import OfferBody, is_scope, read_request

_HEADERS = {"Content-Type": MEDIA_TYPE}


async def get_consent(request: web.Request) -> web.Response:
    """`GET /replication/handovers/consent`: whether this node waits for a group of an authority."""
    group, authority = request.query.get("group", ""), request.query.get("authority", "")
    if not (is_scope(group) and is_authority(authority)):
        detail = '"group" needs to be a path, and "authority" a URI'
        raise BadRequest(request.path, error_detail=detail)
    async with request.app[CONTEXT].database.pool.acquire(timeout=30) as connection:
        reserved = await handovers.read_reservations(connection)
    if not any((each.xid, each.authority) == (group, authority) for each in reserved):
        raise NotFound(request.path)
    return json_response({"group": group, "authority": authority})


async def hear_offer(request: web.Request) -> web.Response:
    """`POST /replication/handovers/offers`: a giver tells of a handover, and learns how far it is.

    This node looks at the giver's what is true of it, and goes on.

    Raises:
        HandoverRefused: this node's operator has not consented, or to another one.
    """
    context = request.app[CONTEXT]
    body = await read_request(request, OfferBody)
    async with context.database.transaction() as connection:
        found = await handovers.find_taken(connection, body.authority, body.id, body.group)
        if found is None:
            detail = "the operator of the other side has not consented"
            raise HandoverRefused(request.path, group=body.group, error_detail=detail)
        if found.state == "consented":
            at = datetime.now(UTC)
            found = await handovers.move_on(connection, found, "asked", at, theirs=body.id)
        elif found.theirs != body.id:
            await handovers.hurry(connection, found)
            detail = "the other side still has an earlier offer of it"
            raise HandoverRefused(request.path, group=body.group, error_detail=detail)
        elif found.state != "done":
            await handovers.hurry(connection, found)
    return json_response(
        {
            "state": found.state,
            "authority": context.database.node.authority,
            "floor": found.floor,
            "error": found.error,
        }
    )


async def get_copies(request: web.Request) -> web.StreamResponse:
    """`GET /replication/handovers/{id}/copies`: what the taker gets, or would get now."""
    context = request.app[CONTEXT]
    async with context.database.pool.acquire(timeout=30) as connection:
        found = await handovers.get(connection, request.match_info["id"])
    if found is None or found.state not in ("offered", "given"):
        raise NotFound(request.path)
    lines = (preview_lines if found.state == "offered" else given_lines)(context, found)
    async with stream_share(request):
        return await send(request, in_pieces(lines), _HEADERS)
