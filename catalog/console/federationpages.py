"""The pages of the federation: all links between catalogs, one link, and one authority."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from aiohttp import web

from catalog.console.actions import offers
from catalog.console.attention import (
    SEVERITIES,
    Concern,
    concern_of_link,
    peer_of,
    rank_of,
    state_in_words,
)
from catalog.console.conflictsides import sides_of
from catalog.console.flows import Flow, flows_in
from catalog.console.linkactions import link_offers
from catalog.console.newlink import ADD_LINK
from catalog.console.page import (
    ConsolePage,
    in_words,
    page_route,
    render,
    roles_for,
    short_authority,
)
from catalog.console.plots import Plot, Point, plot
from catalog.console.regionmap import draw_map
from catalog.console.startpage import links_for
from catalog.model.errors import NotFound
from catalog.model.linkterms import is_authority
from catalog.model.roles import Permission
from catalog.operations.authoritycards import (
    Card,
    KnownAuthority,
)
from catalog.operations.federation import READ_FEDERATION, FederatedCatalog
from catalog.operations.followers import LIST_FOLLOWERS, Follower
from catalog.operations.linkfigures import READ_LINK_FIGURES, FiguresQuery, LinkFigure
from catalog.operations.links import GET_LINK, LIST_CONFLICTS, ConflictQuery, LinkAnswer
from catalog.operations.search import SEARCH, SearchQuery

_MOST_SHOWN = 100
_CONFLICTS_SHOWN = 25
_MOST_IN_WORDS = 10
_SPANS: dict[Literal["minute", "hour"], tuple[timedelta, timedelta]] = {
    "minute": (timedelta(days=1), timedelta(minutes=3)),
    "hour": (timedelta(days=30), timedelta(hours=2)),
}


@dataclass(frozen=True, slots=True)
class LinkRow:
    """A link, and its worst fault, as a page shows them."""

    link: LinkAnswer
    concern: Concern | None

    @classmethod
    def of(cls, link: LinkAnswer) -> LinkRow:
        return cls(link, concern_of_link(link))

    @property
    def peer(self) -> str:
        return peer_of(self.link)

    @property
    def says(self) -> str:
        """The state of the link or its worst fault, as the rest of a sentence about the link."""
        return state_in_words(self.link) if self.concern is None else self.concern.says

    @property
    def severity(self) -> str:
        return "ok" if self.concern is None else self.concern.severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The table "row follows column".

    Args:
        rows: the authorities that follow one, and those that stand alone.
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
    rows = sorted(map(LinkRow.of, links), key=lambda row: (rank_of(row.concern), row.link.id))
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
        items=len(names) ** 2,
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
        offers=offers(page, [ADD_LINK]),
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


async def show_link(page: ConsolePage) -> web.Response:
    """A link: its state in words, its figures over time, both sides of its conflicts, its past."""
    id = page.request.match_info["id"]
    after = page.request.query.get("after", "")[:4096]
    step: Literal["minute", "hour"] = "hour" if "month" in page.request.query else "minute"
    link, figures = await asyncio.gather(
        page.node.call(GET_LINK, id=id),
        page.node.call(READ_LINK_FIGURES, query=FiguresQuery(step=step), id=id),
    )
    conflicts = []
    if link.conflicts and page.may_everywhere(Permission.ADMINISTER):
        query = ConflictQuery(limit=_CONFLICTS_SHOWN, after=after)
        conflicts = (await page.node.call(LIST_CONFLICTS, query=query, id=id)).conflicts
    last = conflicts[-1] if len(conflicts) == _CONFLICTS_SHOWN else None
    sides = [side for each in conflicts for side in (each.refused, each.held) if side is not None]
    named = {link.authority, *(side.authority for side in sides)} - {None}
    return await render(
        page,
        "link.html",
        items=10 * len(conflicts) + len(figures.figures),
        row=LinkRow.of(link),
        link=link,
        cards=await page.node.cards(sorted(str(each) for each in named)),
        plots=[] if not figures.figures else _plots(figures.figures, step),
        step=step,
        conflicts=[sides_of(each) for each in conflicts],
        offers=link_offers(page, link),
        admins=roles_for(Permission.ADMINISTER),
        next=f"{last.authority}\n{last.origin}" if last else "",
    )


def _plots(figures: Sequence[LinkFigure], step: Literal["minute", "hour"]) -> list[Plot]:
    span, gap = _SPANS[step]
    end = datetime.now(UTC)

    def drawn(title: str, values: Iterable[float | None], words: Any) -> Plot:
        points = [
            Point(at=figure.at, value=value) for figure, value in zip(figures, values, strict=True)
        ]
        return plot(title, points, words, end=end, span=span, gap=gap)

    shown = [
        drawn("Lag", (each.lag for each in figures), _lag_in_words),
        drawn("Copies a second", (each.rate for each in figures), _rate_in_words),
    ]
    often = "a minute" if step == "minute" else "an hour"
    numbers = (each.errors for each in figures)
    errors = drawn(f"Errors {often}", numbers, lambda value: f"{value:,.0f}")
    return [*shown, *([errors] if errors.has_values else [])]


def _lag_in_words(value: float) -> str:
    return "none" if value == 0 else in_words(value)


def _rate_in_words(value: float) -> str:
    return "none" if value == 0 else f"{value:,.1f}" if value >= 0.1 else "under 0.1"


async def show_authority(page: ConsolePage) -> web.Response:
    """An authority: its card, its entities in this catalog, and its followers with their lag."""
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
        "links": [LinkRow.of(link) for link in links if link.authority == uri],
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
