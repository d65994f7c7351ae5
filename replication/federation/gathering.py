"""Asks the catalogs at the other ends of links what they tell of themselves, in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime, timedelta

import structlog

from catalog.client import ClientError, Refused
from catalog.model.errors import ServerBusy
from catalog.model.masking import printable
from catalog.operations.authoritycards import Card
from catalog.operations.federation import MOST_SHARED, SharedLink
from catalog.operations.links import LIST_LINKS
from catalog.store import links
from catalog.store.links import Link
from replication.peers.linkerrors import describe
from replication.peers.pacedclient import PacedClient
from replication.store import peerauthorities
from replication.store.peerauthorities import MOST_AUTHORITIES, PeerAuthority
from replication.transfer.linkrun import LinkResources

GATHER_SECONDS = 60.0
_FIRST_SECONDS = 2.0
_PEER_SECONDS = 10.0
_AT_ONCE = 4
_REFUSED_FOR = timedelta(hours=1)
_LONGEST_ERROR = 300
# Other modes lead to topics and to servers of other software, or have no URL.
_TO_NODES = frozenset({"pull", "events", "push"})

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
    """One link to each authority that is another node; one without failures, if there is one."""
    best: dict[str, Link] = {}
    for link in sorted(found, key=lambda link: (link.paused is not None, link.failures, link.id)):
        if link.authority is not None and link.definition.mode in _TO_NODES:
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
    card = handshake.card or Card()
    return PeerAuthority(
        authority=link.authority,
        card=card.model_dump(exclude_defaults=True),
        cardat=now,
        links=None if shared is None else [_stored(each) for each in shared],
        linksat=now,
        triedat=now,
    )


async def _links_of(peer: PacedClient) -> list[SharedLink] | None:
    """The first links of a peer; `None` if the peer does not share its links."""
    found: list[SharedLink] = []
    try:
        async for page in peer.call_pages(LIST_LINKS):
            found += [link for each in page.links if (link := SharedLink.of(each)) is not None]
            if len(found) >= MOST_SHARED:
                break
    except Refused as refused:
        if refused.problem.status in (401, 403, 404):
            return None
        raise
    return found[:MOST_SHARED]


def _stored(link: SharedLink) -> dict[str, object]:
    return link.model_dump(mode="json", exclude_defaults=True, exclude={"id"})


def _failed(authority: str, now: datetime, error: str) -> PeerAuthority:
    return PeerAuthority(authority=authority, triedat=now, error=printable(error)[:_LONGEST_ERROR])
