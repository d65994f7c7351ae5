"""The freshness of copies: whose an entity is, and how old the copy of this node may be."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from aiohttp import web

from catalog.context import CONTEXT, Context
from catalog.http.route import Route
from catalog.model.entity import Entity, Origin
from catalog.model.errors import BadRequest, NotFound
from catalog.model.xid import Xid
from catalog.operations.authoritycards import Card
from catalog.operations.federation import READ_FRESHNESS, Freshness, FreshnessQuery
from catalog.operations.links import LinkAnswer
from catalog.store import entities, linkauthorities
from catalog.store.links import Link
from replication.deciding.pinning import admitted
from replication.feed.cards import own_card, read_cards
from replication.links.linkanswers import link_answer
from replication.store import linkconflicts

_OF_NODES = frozenset({"pull", "events"})
_SAFE_IN_URL = "/:@~!$&'()*+,;="


async def get_freshness(request: web.Request, query: FreshnessQuery) -> Freshness:
    """Show who owns an entity, and how old the copy of this node may be."""
    context = request[CONTEXT]
    try:
        xid = str(Xid.parse(query.of))
    except ValueError as error:
        fault = '"of" needs to be an xid, as /schemagroups/g/schemas/s'
        raise BadRequest(request.path, error_detail=fault) from error
    async with context.database.acquire() as connection:
        entity = (await entities.load(connection, [xid])).get(xid)
    if entity is None:
        raise NotFound(xid)
    if entity.authority == context.database.node.authority:
        card = own_card(context.settings)
        return Freshness(of=xid, authority=entity.authority, card=card, state="own", lag=0.0)
    return await _of_copy(context, xid, entity)


async def _of_copy(context: Context, xid: str, entity: Entity) -> Freshness:
    # The caller sees the copy, and so may know its freshness; links themselves stay hidden.
    async with context.shared.for_node().database.acquire() as connection:
        cards = await read_cards(connection, [entity.authority])
        origin = Origin(entity.authority, entity.origin)
        bringing = _best(await linkauthorities.bringing(connection, entity.authority), origin)
        conflict = None
        if bringing is not None:
            conflict = await linkconflicts.find_verdict(connection, bringing.id, origin)
    card = cards.get(entity.authority)
    found = Freshness(
        of=xid,
        authority=entity.authority,
        card=card,
        state="unknown",
        conflict=conflict,
        editurl=_edit_url(card, bringing, entity),
    )
    if bringing is None:
        return found
    shown = link_answer(bringing)
    return found.model_copy(
        update={
            "state": _state(shown),
            "lag": shown.lag,
            "confirmedat": shown.currentat,
            "through": None if shown.authority == entity.authority else shown.authority,
        }
    )


def _best(held: Sequence[Link], origin: Origin) -> Link | None:
    """The link that brings an origin: one from its authority, else the relay least behind."""
    bringing = [link for link in held if _brings(link, origin)]
    return min(
        bringing,
        key=lambda link: (
            link.authority != origin.authority,
            link.currentat is None,
            0.0 if link.currentat is None else -link.currentat.timestamp(),
        ),
        default=None,
    )


def _brings(link: Link, origin: Origin) -> bool:
    assert link.authority is not None, "the link has met its source"
    wanted = admitted(link.definition, link.authority)
    return wanted is None or origin.authority in wanted


def _state(link: LinkAnswer) -> str:
    if link.lag is None:
        return "unknown"
    return "current" if link.lag == 0 else "behind"


def _edit_url(card: Card | None, bringing: Link | None, entity: Entity) -> str | None:
    """The entity's page in the console of its owner.

    The card of the owner names the URL, or else the link that leads to the owner; only nodes have
    a console.
    """
    root = "" if card is None else card.url
    is_direct = bringing is not None and bringing.authority == entity.authority
    if not root and bringing is not None and is_direct and bringing.definition.mode in _OF_NODES:
        root = bringing.definition.source.rstrip("/")
    return f"{root}/console/e{quote(entity.origin, safe=_SAFE_IN_URL)}" if root else None


routes: Sequence[Route] = (Route(READ_FRESHNESS, get_freshness),)
