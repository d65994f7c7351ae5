"""The topology of a federation: the entities that links should bring to each catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from catalog.model.timestamps import microseconds_of
from replication.reconcile.catalogs import ReportedLink, SurveyedCatalog

Subtrees = frozenset[str]
"""Paths; a path covers its entity and the entities below, and the empty path the whole catalog."""

WHOLE_CATALOG: Subtrees = frozenset({""})

# A link of the mode `write` turns entities into entities of another server, so no copies flow.
# Links of the modes `accept` and `publish` are the opposite ends of `push` and `kafka` links.
_FLOWS = frozenset({"pull", "events", "push", "kafka", "walk"})


@dataclass(frozen=True, slots=True)
class Coverage:
    """The part of an authority's entities at a catalog that is `hops` links from the authority."""

    subtrees: Subtrees
    hops: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The catalogs by position, and the coverage of every authority at each catalog.

    Subtrees are compared with origins, so where a relay renames entities, the names at the
    authority count. `sources` are, for each catalog, the names of the catalogs from which links
    lead to the catalog. `moments` are the times of the rows of catalogs that were read before the
    comparison, in microseconds since 1970; a change takes `lag` microseconds to a replica at most.
    """

    names: tuple[str, ...]
    authorities: tuple[str, ...]
    coverage: tuple[Mapping[str, Coverage], ...]
    sources: tuple[frozenset[str], ...] = ()
    moments: Mapping[int, int] = field(default_factory=dict)
    lag: int = 0

    def hops(self, catalog: int, authority: str) -> int:
        """The number of links from the authority to the catalog; without a path, a large number."""
        coverage = self.coverage[catalog].get(authority)
        return coverage.hops if coverage else len(self.names)


@dataclass(frozen=True, slots=True)
class Places:
    """The catalogs at the ends of links, by URL and by authority."""

    catalogs: Sequence[SurveyedCatalog]

    def source(self, link: ReportedLink) -> int | None:
        """The position of the source of a link; `None` if the source is not compared."""
        if link.mode == "push":
            return self._at(link.source)
        # A walk brings entities of the pinned authority, not of the node whose API the walk reads,
        # and the URL of a topic is not the URL of the catalog that publishes there.
        is_other = link.mode in ("walk", "kafka")
        by_url = None if is_other else self._at(link.source)
        return self._of(link.pinned) if by_url is None else by_url

    def target(self, link: ReportedLink) -> int | None:
        """The position of the target of a link; `None` if the target is not compared."""
        found = self._at(link.target)
        return self._of(link.pinned) if found is None and link.mode == "push" else found

    def _at(self, url: str) -> int | None:
        urls = [normal_url(c.input.url) for c in self.catalogs]
        # Operators may give a catalog by a URL that differs from its authority, and links may use
        # either.
        for known in (urls, [normal_url(c.authority) for c in self.catalogs]):
            if normal_url(url) in known:
                return known.index(normal_url(url))
        return None

    def _of(self, authority: str | None) -> int | None:
        authorities = [catalog.authority for catalog in self.catalogs]
        return authorities.index(authority) if authority in authorities else None


def topology_of(catalogs: Sequence[SurveyedCatalog], lag_seconds: float = 0) -> Topology:
    """The topology of the links that the catalogs report, relays included."""
    places = Places(catalogs)
    coverage: list[dict[str, Coverage]] = [
        {catalog.authority: Coverage(WHOLE_CATALOG, 0)} for catalog in catalogs
    ]
    links = [link for catalog in catalogs for link in catalog.links if link.mode in _FLOWS]
    # The loop ends even where links form a circle, since coverage only grows, by a finite set of
    # paths, and hops only fall.
    while any(_follow(link, places, coverage) for link in links):
        pass
    names = tuple(catalog.name for catalog in catalogs)
    ends = [(places.source(link), places.target(link)) for link in links]
    return Topology(
        names=names,
        authorities=tuple(catalog.authority for catalog in catalogs),
        coverage=tuple(coverage),
        sources=tuple(
            frozenset(names[s] for s, t in ends if t == position and s is not None)
            for position in range(len(names))
        ),
        moments={
            position: microseconds_of(each.moment.since)
            for position, each in enumerate(catalogs)
            if each.moment is not None
        },
        lag=int(lag_seconds * 1_000_000),
    )


def covers(path: str, xid: str) -> bool:
    """Whether `xid` is in the subtree at `path`."""
    return xid == path or xid.startswith(path + "/")


def normal_url(url: str) -> str:
    """A normal form of a URL, equal for different spellings of the URL of a catalog."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}".lower().rstrip("/")


def _follow(link: ReportedLink, places: Places, coverage: list[dict[str, Coverage]]) -> bool:
    """Add the offered coverage of a link to its target; return whether the coverage changed."""
    target = places.target(link)
    if target is None:
        return False
    before = dict(coverage[target])
    for authority, offered in _offered(link, places, coverage).items():
        # A catalog never takes copies of its own entities.
        if authority == places.catalogs[target].authority:
            continue
        hops = offered.hops + 1
        held = coverage[target].get(authority, Coverage(frozenset(), hops))
        carried = held.subtrees | _intersection(offered.subtrees, _scope(link))
        coverage[target][authority] = Coverage(carried, min(held.hops, hops))
    return coverage[target] != before


def _offered(
    link: ReportedLink, places: Places, coverage: Sequence[Mapping[str, Coverage]]
) -> Mapping[str, Coverage]:
    source = places.source(link)
    if source is not None:
        catalog = places.catalogs[source]
        offers = coverage[source]
        if link.mode == "kafka":
            offers = _published(link, catalog, offers)
        return _admitted(link, catalog, offers)
    # The coverage of a relay outside the comparison is unknown. Assume everything that the link
    # asks for: otherwise two leaves of an uncompared hub would always seem equal.
    admitted = link.authorities or (link.pinned or link.source.rstrip("/"),)
    compared = [catalog.authority for catalog in places.catalogs]
    named: Iterable[str] = compared if "*" in admitted else admitted
    return dict.fromkeys(named, Coverage(WHOLE_CATALOG, 1))


def _published(
    link: ReportedLink, catalog: SurveyedCatalog, held: Mapping[str, Coverage]
) -> dict[str, Coverage]:
    """The part of a catalog's entities that the catalog publishes to the topic of a link.

    Topics are compared by name without the address, because the brokers of one cluster have several
    addresses.
    """
    found: dict[str, Coverage] = {}
    for each in catalog.links:
        if each.mode != "publish" or _topic(each.target) != _topic(link.source):
            continue
        for authority, offered in _admitted(each, catalog, held).items():
            before = found.get(authority, Coverage(frozenset(), offered.hops))
            subtrees = before.subtrees | _intersection(offered.subtrees, _scope(each))
            found[authority] = Coverage(subtrees, offered.hops)
    return found


def _admitted(
    link: ReportedLink, source: SurveyedCatalog, held: Mapping[str, Coverage]
) -> dict[str, Coverage]:
    """The coverage of the source, limited to the authorities that a link asks for."""
    admitted = link.authorities or (source.authority,)
    return {
        authority: offered
        for authority, offered in held.items()
        if "*" in admitted or authority in admitted
    }


def _scope(link: ReportedLink) -> Subtrees:
    return frozenset(path.rstrip("/") for path in link.scope) or WHOLE_CATALOG


def _topic(url: str) -> str:
    return url.rpartition("/")[2]


def _intersection(some: Subtrees, others: Subtrees) -> Subtrees:
    inner = {path for path in some if any(covers(outer, path) for outer in others)}
    return frozenset(inner | {path for path in others if any(covers(o, path) for o in some)})
