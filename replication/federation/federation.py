"""Shows the federation: this node, the catalogs at the other ends of its links, and their links."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.route import Route
from catalog.operations.federation import (
    MOST_SHARED,
    READ_FEDERATION,
    FederatedCatalog,
    FederationAnswer,
    SharedLink,
)
from catalog.store import links
from replication.feed.cards import own_card
from replication.links.linkanswers import link_answer
from replication.store import peerauthorities
from replication.store.peerauthorities import PeerAuthority


async def get_federation(request: web.Request) -> FederationAnswer:
    """Show this node and the catalogs at the other ends of its links, each with its links."""
    context = request[CONTEXT]
    own = context.database.node.authority
    async with context.database.snapshot() as connection:
        held = await links.page(connection, "", MOST_SHARED)
        told = {each.authority: each for each in await peerauthorities.read(connection)}
    named = {link.authority for link in held if link.authority is not None} | {*told}
    node = FederatedCatalog(
        authority=own,
        isown=True,
        card=own_card(context.settings),
        links=[shared for link in held if (shared := SharedLink.of(link_answer(link))) is not None],
    )
    others = [_catalog(authority, told.get(authority)) for authority in sorted(named - {own})]
    return FederationAnswer(catalogs=[node, *others])


def _catalog(authority: str, told: PeerAuthority | None) -> FederatedCatalog:
    if told is None:
        return FederatedCatalog(authority=authority)
    return FederatedCatalog(
        authority=authority,
        card=told.card,
        links=None
        if told.links is None
        else [SharedLink.model_validate(each) for each in told.links],
        readat=told.linksat,
        triedat=told.triedat,
        error=told.error,
    )


routes: Sequence[Route] = (Route(READ_FEDERATION, get_federation),)
