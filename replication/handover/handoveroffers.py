"""Handlers for requests between the two sides of a handover.

Neither side trusts the content of a request: each side asks the peer at the URL that the own
operator has named. So a request of a stranger only wakes a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.route import Route
from catalog.http.stream import in_pieces, send, stream_share
from catalog.model.concorderrors import HandoverRefused
from catalog.model.errors import NotFound
from catalog.operations.handovers import (
    GET_CONSENT,
    GET_COPIES,
    TELL_OFFER,
    Consent,
    HandoverOffer,
    HandoverQuery,
    OfferAnswer,
)
from catalog.operations.operation import LINES
from replication.handover.handovergiving import given_lines, preview_lines
from replication.store import handovers

_HEADERS = {"Content-Type": LINES}


async def get_consent(request: web.Request, query: HandoverQuery) -> Consent:
    """Tell whether this node waits for a group of an authority."""
    wanted = query.group, query.authority
    async with request[CONTEXT].database.acquire() as connection:
        reserved = await handovers.read_reservations(connection)
    if not any((each.xid, each.authority) == wanted for each in reserved):
        raise NotFound(request.path)
    return Consent(group=query.group, authority=query.authority)


async def hear_offer(request: web.Request, offer: HandoverOffer) -> OfferAnswer:
    """Hear a giver of a handover, which learns how far it is.

    The node then asks the giver for the state of the handover, and continues.

    Raises:
        HandoverRefused: the node's operator has not consented, or the giver still has an earlier
            offer of the group.
    """
    context = request[CONTEXT]
    async with context.database.transaction() as connection:
        found = await handovers.find_taken(connection, offer.authority, offer.id, offer.group)
        if found is None:
            detail = "the operator of the other side has not consented"
            raise HandoverRefused(request.path, group=offer.group, error_detail=detail)
        if found.state == "consented":
            at = datetime.now(UTC)
            found = await handovers.move_on(connection, found, "asked", at, theirs=offer.id)
        elif found.theirs != offer.id:
            await handovers.hurry(connection, found)
            detail = "the other side still has an earlier offer of it"
            raise HandoverRefused(request.path, group=offer.group, error_detail=detail)
        elif found.state != "done":
            await handovers.hurry(connection, found)
    return OfferAnswer(
        state=found.state,
        authority=context.database.node.authority,
        floor=found.floor,
        error=found.error,
    )


async def get_copies(request: web.Request) -> web.StreamResponse:
    """Read what the taker of a handover gets, or would get now: ends, then entities."""
    context = request[CONTEXT]
    async with context.database.acquire() as connection:
        found = await handovers.get(connection, request.match_info["id"])
    if found is None or found.state not in ("offered", "given"):
        raise NotFound(request.path)
    lines = (preview_lines if found.state == "offered" else given_lines)(context, found)
    async with stream_share(request):
        return await send(request, in_pieces(lines), _HEADERS)


routes: Sequence[Route] = (
    Route(TELL_OFFER, hear_offer),
    Route(GET_CONSENT, get_consent),
    Route(GET_COPIES, get_copies),
)
