"""The pages of the federation: all links between catalogs, and one authority."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from catalog.console.actions import offers
from catalog.console.attention import SEVERITIES, rank_of, row_of_link
from catalog.console.flows import Flow, draw_map, flows_in
from catalog.console.linkactions import add_link
from catalog.console.linkpage import show_link
from catalog.console.page import ConsolePage, page_route, render, roles_for, short_authority
from catalog.console.startpage import links_for
from catalog.model.errors import NotFound
from catalog.model.linkterms import is_authority
from catalog.model.roles import Permission
from catalog.operations.authoritycards import Card, KnownAuthority
from catalog.operations.federation import READ_FEDERATION, FederatedCatalog
from catalog.operations.followers import LIST_FOLLOWERS, Follower
from catalog.operations.search import SEARCH, SearchQuery

_MOST_SHOWN = 100
_MOST_IN_WORDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The table "row follows column".

    Args:
        rows: the authorities that follow an authority, and the authorities without any link.
        columns: the authorities that are followed.
        flows: by source and target.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    flows: Mapping[tuple[str, str], Flow]

    @property
    def is_wide(self) -> bool:
        """Whether there are too many columns for words in the cells."""
        return len(self.columns) > _MOST_IN_WORDS


async def show_federation(page: ConsolePage) -> web.Response:
    """The links that need a look, then who follows whom, then where the catalogs are."""
    if not page.may_everywhere(Permission.REPLICATE):
        return await render(
            page, "federation.html", links=None, role=roles_for(Permission.REPLICATE)
        )
    links, catalogs, followers = await asyncio.gather(
        links_for(page), _catalogs(page), _followers(page)
    )
    rows = sorted(map(row_of_link, links), key=lambda row: (rank_of(row.concern), row.about.id))
    flows = flows_in(catalogs, followers)
    cards = _cards(catalogs, followers)
    own = catalogs[0].authority
    names = _names({end for flow in flows for end in (flow.source, flow.target)}, cards, own)
    names |= _names((each.authority for each in catalogs), cards, own)
    regions = {each: cards[each].region if each in cards else "" for each in names}
    matrix = _matrix(flows, names, own)
    elsewhere = [each for each in flows if each.link is None and each.severity is not None]
    elsewhere.sort(key=lambda flow: (SEVERITIES.index(flow.severity), names[flow.target]))
    return await render(
        page,
        "federation.html",
        links=[row for row in rows if row.concern is not None],
        well=[row for row in rows if row.concern is None],
        elsewhere=elsewhere[:_MOST_SHOWN],
        silent=[each for each in catalogs if each.error],
        names=names,
        cards=cards,
        matrix=matrix,
        numbers={each: number for number, each in enumerate(matrix.columns, start=1)},
        map=draw_map(regions, names, flows) if any(regions.values()) else None,
        own=own,
        offers=offers(page, [add_link]),
    )


async def _catalogs(page: ConsolePage) -> list[FederatedCatalog]:
    return (await page.node.call(READ_FEDERATION)).catalogs


async def _followers(page: ConsolePage) -> list[Follower]:
    return (await page.node.call(LIST_FOLLOWERS)).followers


def _cards(
    catalogs: Iterable[FederatedCatalog], followers: Iterable[Follower] = ()
) -> dict[str, Card]:
    """The cards by authority; a catalog's own word comes before that of a follower."""
    found = {each.authority: each.card for each in followers if each.card is not None}
    return found | {each.authority: each.card for each in catalogs if each.card is not None}


def _names(authorities: Iterable[str], cards: Mapping[str, Card], own: str) -> dict[str, str]:
    """A short name for each authority."""
    names = {}
    for each in authorities:
        card = cards.get(each)
        names[each] = (card.name if card else "") or short_authority(each)
    if own in names and not (own in cards and cards[own].name):
        names[own] = "this catalog"
    return names


def _matrix(flows: Sequence[Flow], names: Mapping[str, str], own: str) -> Matrix:
    def rank(authority: str) -> tuple[bool, str]:
        return authority != own, names[authority].lower()

    sources, targets = ({flow.source for flow in flows}, {flow.target for flow in flows})
    return Matrix(
        rows=sorted(targets | (names.keys() - sources), key=rank),
        columns=sorted(sources, key=rank),
        flows={(flow.source, flow.target): flow for flow in flows},
    )


async def show_authority(page: ConsolePage) -> web.Response:
    """The page of an authority: card, entities in this catalog, and followers with their lag."""
    uri = page.request.query.get("of", "")
    if not is_authority(uri):
        raise NotFound("/console/authority")
    known, owned = await asyncio.gather(
        page.node.known([uri]), page.node.call(SEARCH, query=SearchQuery(authority=uri, limit=1))
    )
    about = known[0] if known else KnownAuthority(authority=uri)
    if not known and not owned.count:
        raise NotFound("/console/authority")
    sees_links = page.may_everywhere(Permission.REPLICATE)
    values = await _links_about(page, uri) if sees_links else {"catalog": None}
    return await render(
        page,
        "authority.html",
        about=about,
        card=about.card or Card(),
        types=owned.facets.type,
        owned=owned,
        sees_links=sees_links,
        role=roles_for(Permission.REPLICATE),
        **values,
    )


async def _links_about(page: ConsolePage, uri: str) -> dict[str, Any]:
    """The links of this node with an authority, and who follows the authority."""
    links, catalogs, followers = await asyncio.gather(
        links_for(page), _catalogs(page), _followers(page)
    )
    flows = [each for each in flows_in(catalogs, followers) if uri in (each.source, each.target)]
    flows.sort(key=lambda flow: (-1.0 if flow.lag is None else -flow.lag, flow.target))
    ends = {end for flow in flows for end in (flow.source, flow.target)}
    return {
        "links": [row_of_link(link) for link in links if link.authority == uri],
        "followers": [flow for flow in flows if flow.source == uri],
        "followed": [flow for flow in flows if flow.target == uri],
        "names": _names(ends, _cards(catalogs, followers), catalogs[0].authority),
        "catalog": next((each for each in catalogs if each.authority == uri), None),
    }


federation_routes = (
    page_route("/console/federation", show_federation),
    page_route("/console/federation/{id}", show_link),
    page_route("/console/authority", show_authority),
)
