"""The cards of authorities: the card of this node, and the cards that other catalogs sent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from aiohttp import web

from catalog.context import CONTEXT, Context
from catalog.http.route import Route
from catalog.operations.authoritycards import (
    LIST_AUTHORITIES,
    AuthoritiesQuery,
    Card,
    KnownAuthorities,
    KnownAuthority,
)
from catalog.operations.followers import FollowerName
from catalog.operations.peers import Handshake
from catalog.settings import Settings
from catalog.store.database import Connection
from replication.store import peerauthorities
from replication.store.peerauthorities import PeerAuthority


def own_card(settings: Settings) -> Card | None:
    """The card of this node's authority; `None` if the settings say nothing of it."""
    card = Card(
        name=settings.authority_name or "",
        region=settings.authority_region or "",
        contact=settings.authority_contact or "",
        url=settings.authority_url or settings.public_url or "",
    )
    return card or None


def follower_name(context: Context) -> FollowerName:
    """The name by which this node reports to the catalogs that it follows."""
    return FollowerName(authority=context.database.node.authority, card=own_card(context.settings))


async def read_cards(connection: Connection, authorities: Collection[str]) -> dict[str, Card]:
    """Read the cards that other authorities have told, by authority."""
    told = await peerauthorities.read(connection, authorities)
    return {each.authority: each.card for each in told if each.card is not None}


async def note_card(connection: Connection, handshake: Handshake) -> None:
    """Store the card that another catalog has told in a handshake."""
    authority, now = handshake.authority, datetime.now(UTC)
    told = PeerAuthority(authority=authority, card=handshake.card, cardat=now, triedat=now)
    await peerauthorities.save(connection, [told])


async def list_authorities(request: web.Request, query: AuthoritiesQuery) -> KnownAuthorities:
    """List what authorities tell of themselves: name, region, contact and URL."""
    context = request[CONTEXT]
    own = context.database.node.authority
    wanted = [*query.authority] or None
    async with context.database.acquire() as connection:
        told = await peerauthorities.read(connection, wanted)
    found = [
        KnownAuthority(authority=each.authority, card=each.card, cardat=each.cardat)
        for each in told
        if each.card and each.authority != own
    ]
    if wanted is None or own in wanted:
        found.insert(0, KnownAuthority(authority=own, isown=True, card=own_card(context.settings)))
    return KnownAuthorities(authorities=found)


routes: Sequence[Route] = (Route(LIST_AUTHORITIES, list_authorities),)
