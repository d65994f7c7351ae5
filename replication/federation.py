"""The federation as one node knows it: what peers tell of themselves, and how fresh copies are."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import structlog
from aiohttp import web

from catalog.client import ClientError, Refused
from catalog.context import CONTEXT, Context
from catalog.http.route import Route
from catalog.model.entity import Entity, Origin
from catalog.model.errors import ServerBusy
from catalog.model.masking import printable
from catalog.operations.authoritycards import Card
from catalog.operations.federation import (
    MOST_SHARED,
    READ_FEDERATION,
    READ_FRESHNESS,
    FederatedCatalog,
    FederationAnswer,
    Freshness,
    FreshnessQuery,
    SharedLink,
)
from catalog.operations.links import LIST_LINKS
from catalog.store import links, linksources
from catalog.store.links import Link
from replication.deciding.provenance import admitted
from replication.feed.cards import own_card, read_cards
from replication.feed.followers import asked_entity
from replication.links.linkanswers import link_answer
from replication.peers.handshake import BETWEEN_NODES
from replication.peers.linkbounds import PacedClient
from replication.peers.linkerrors import describe
from replication.store import linkconflicts, peerauthorities
from replication.store.peerauthorities import MOST_AUTHORITIES, PeerAuthority
from replication.transfer.linkrun import LinkResources

_SOURCES = frozenset({"pull", "events"})
_SAFE_IN_URL = "/:@~!$&'()*+,;="


async def get_federation(request: web.Request) -> FederationAnswer:
    """Show this node and the catalogs at the other ends of its links, each with its links."""
    context = request[CONTEXT]
    own = context.database.node.authority
    async with context.database.snapshot() as connection:
        held = await links.page(connection, "", MOST_SHARED)
        told = {each.authority: each for each in await peerauthorities.read(connection)}
    named = {link.authority for link in held if link.authority is not None} | {*told}
    shared = [SharedLink.of(link_answer(link)) for link in held]
    node = FederatedCatalog(
        authority=own,
        isown=True,
        card=own_card(context.settings),
        links=[each for each in shared if each is not None],
    )
    others = [told.get(each) or FederatedCatalog(authority=each) for each in named - {own}]
    return FederationAnswer(catalogs=[node, *sorted(others, key=lambda each: each.authority)])


async def get_freshness(request: web.Request, query: FreshnessQuery) -> Freshness:
    """Show who owns an entity, and how old the copy of this node may be."""
    context = request[CONTEXT]
    async with context.database.acquire() as connection:
        entity = await asked_entity(connection, query.of, request.path)
    if entity.authority == context.database.node.authority:
        card = own_card(context.settings)
        return Freshness(of=entity.xid, authority=entity.authority, card=card, state="own", lag=0.0)
    return await _of_copy(context, entity)


async def _of_copy(context: Context, entity: Entity) -> Freshness:
    # The caller sees the copy, and so may know its freshness; links themselves stay hidden.
    async with context.shared.for_node().database.acquire() as connection:
        cards = await read_cards(connection, [entity.authority])
        origin = Origin(entity.authority, entity.origin)
        bringing = _best(await linksources.bringing(connection, entity.authority), origin)
        conflict = None
        if bringing is not None:
            conflict = await linkconflicts.find_verdict(connection, bringing.id, origin)
    card, through = cards.get(entity.authority), None if bringing is None else bringing.authority
    lag = None if bringing is None else link_answer(bringing).lag
    return Freshness(
        of=entity.xid,
        authority=entity.authority,
        card=card,
        state="unknown" if lag is None else "behind" if lag else "current",
        lag=lag,
        confirmedat=None if bringing is None else bringing.currentat,
        through=None if through == entity.authority else through,
        conflict=conflict,
        editurl=_edit_url(card, bringing, entity),
    )


def _best(held: Sequence[Link], origin: Origin) -> Link | None:
    """The link that brings an origin: one from its authority, else the relay least behind."""
    return min(
        (link for link in held if _brings(link, origin)),
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


def _edit_url(card: Card | None, bringing: Link | None, entity: Entity) -> str | None:
    """The entity's page in the console of its owner.

    The card of the owner names the URL, or else the link that leads to the owner; only nodes have
    a console.
    """
    root = "" if card is None else card.url
    is_direct = bringing is not None and bringing.authority == entity.authority
    if not root and bringing is not None and is_direct and bringing.definition.mode in _SOURCES:
        root = bringing.definition.source.rstrip("/")
    return f"{root}/console/e{quote(entity.origin, safe=_SAFE_IN_URL)}" if root else None


GATHER_SECONDS = 60.0
_FIRST_SECONDS = 2.0
_PEER_SECONDS = 10.0
_AT_ONCE = 4
_REFUSED_FOR = timedelta(hours=1)
_LONGEST_ERROR = 300

_log = structlog.get_logger(__name__)


async def run_gathering(resources: LinkResources) -> None:
    """Ask every peer once a minute, for ever."""
    refusals = dict[str, datetime]()
    await asyncio.sleep(_FIRST_SECONDS)
    while True:
        try:
            await gather_once(resources, refusals)
        except (ServerBusy, TimeoutError):
            await resources.context.database.recovered()
        # What peers tell is shown to people, and must not stop the links of the node.
        except Exception:
            _log.exception("peers could not be asked about themselves")
        await asyncio.sleep(GATHER_SECONDS)


async def gather_once(resources: LinkResources, refusals: dict[str, datetime]) -> int:
    """Ask every peer, a few at a time, and store the answers; return the number of peers.

    Args:
        refusals: the last time at which a peer refused to share its links, by authority. Such a
            peer is asked for its links once an hour, since its audit has an entry of each refusal.
    """
    database = resources.context.database
    async with database.acquire() as connection:
        found = await links.page(connection, "", MOST_AUTHORITIES)
    peers = _one_of_each(found)
    places = asyncio.Semaphore(_AT_ONCE)

    async def ask(link: Link) -> PeerAuthority:
        async with places:
            return await _ask(resources, link, refusals)

    told = await asyncio.gather(*map(ask, peers))
    if told:
        async with database.acquire() as connection:
            await peerauthorities.save(connection, told)
    return len(told)


def _one_of_each(found: Collection[Link]) -> list[Link]:
    """One link to each other node, preferably a link that neither is paused nor has failed."""
    best: dict[str, Link] = {}
    for link in sorted(found, key=lambda link: (link.paused is not None, link.failures, link.id)):
        if link.authority is not None and link.definition.mode in BETWEEN_NODES:
            best.setdefault(link.authority, link)
    return [*best.values()]


async def _ask(
    resources: LinkResources, link: Link, refusals: dict[str, datetime]
) -> PeerAuthority:
    """Ask the peer of a link who it is, and which links it shares."""
    assert link.authority is not None, "the link has met its peer"
    peer, now = resources.peer_of(link), datetime.now(UTC)
    try:
        async with asyncio.timeout(_PEER_SECONDS):
            handshake = await peer.handshake()
            if handshake.authority != link.authority:
                error = f"It says that it is {handshake.authority}."
                return _failed(link.authority, now, error)
            refused = refusals.get(link.authority)
            shared = None
            if refused is None or now - refused > _REFUSED_FOR:
                shared = await _links_of(peer)
                if shared is None:
                    refusals[link.authority] = now
    except ClientError as error:
        return _failed(link.authority, now, describe(error, peer.url))
    except TimeoutError:
        return _failed(link.authority, now, "It did not answer in time.")
    return PeerAuthority(
        authority=link.authority,
        card=handshake.card,
        cardat=now,
        links=shared,
        readat=now,
        triedat=now,
    )


async def _links_of(peer: PacedClient) -> list[SharedLink] | None:
    """The first links of a peer; `None` if the peer does not share its links."""
    found: list[SharedLink] = []
    try:
        async for page in peer.call_pages(LIST_LINKS):
            found += filter(None, map(SharedLink.of, page.links))
            if len(found) >= MOST_SHARED:
                break
    except Refused as refused:
        if refused.problem.status in (401, 403, 404):
            return None
        raise
    return found[:MOST_SHARED]


def _failed(authority: str, now: datetime, error: str) -> PeerAuthority:
    return PeerAuthority(authority=authority, triedat=now, error=printable(error)[:_LONGEST_ERROR])


routes: Sequence[Route] = (
    Route(READ_FEDERATION, get_federation),
    Route(READ_FRESHNESS, get_freshness),
)
