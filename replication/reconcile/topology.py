"""The topology of a federation: the entities that each catalog should carry by its links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from replication.reconcile.catalogs import ReportedLink, SurveyedCatalog

Subtrees = frozenset[str]
"""Paths, each for the entity there and all below it; the empty path is the whole catalog."""

WHOLE_CATALOG: Subtrees = frozenset({""})


@dataclass(frozen=True, slots=True)
class Coverage:
    """The part of an authority's entities that a catalog carries, `hops` links away from it."""

    subtrees: Subtrees
    hops: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The catalogs by their position, and for each its coverage of every authority.

    Subtrees are compared with origins, so where a relay renames entities, the names at the
    authority count.
    """

    names: tuple[str, ...]
    authorities: tuple[str, ...]
    coverage: tuple[Mapping[str, Coverage], ...]

    def hops(self, catalog: int, authority: str) -> int:
        """The number of links from the authority to the catalog; large where there is no way."""
        coverage = self.coverage[catalog].get(authority)
        return coverage.hops if coverage else len(self.names)


def topology_of(catalogs: Sequence[SurveyedCatalog]) -> Topology:
    """The topology of the links that the catalogs report, relays included."""
    positions = _positions(catalogs)
    coverage: list[dict[str, Coverage]] = [
        {catalog.authority: Coverage(WHOLE_CATALOG, 0)} for catalog in catalogs
    ]
    links = [link for catalog in catalogs for link in catalog.links]
    while any(_follow(link, positions, catalogs, coverage) for link in links):
        pass
    return Topology(
        names=tuple(catalog.name for catalog in catalogs),
        authorities=tuple(catalog.authority for catalog in catalogs),
        coverage=tuple(coverage),
    )


def covers(path: str, xid: str) -> bool:
    """Whether `xid` is in the subtree at `path`."""
    return xid == path or xid.startswith(path + "/")


def _positions(catalogs: Sequence[SurveyedCatalog]) -> dict[str, int]:
    """The position of each catalog, by the URL it was given with and by its authority's URL."""
    by_authority = {_normal(c.authority): position for position, c in enumerate(catalogs)}
    return by_authority | {_normal(c.remote.url): position for position, c in enumerate(catalogs)}


def _normal(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}".lower().rstrip("/")


def _follow(
    link: ReportedLink,
    positions: Mapping[str, int],
    catalogs: Sequence[SurveyedCatalog],
    coverage: list[dict[str, Coverage]],
) -> bool:
    """Extend the coverage of the target by that of the source; return whether it grew."""
    target = positions.get(_normal(link.target))
    if target is None:
        return False
    before = dict(coverage[target])
    scope = frozenset(path.rstrip("/") for path in link.scope) or WHOLE_CATALOG
    for authority, offered in _offered(link, positions, catalogs, coverage).items():
        if authority == catalogs[target].authority:
            continue
        hops = offered.hops + 1
        held = coverage[target].get(authority, Coverage(frozenset(), hops))
        carried = held.subtrees | _intersection(offered.subtrees, scope)
        coverage[target][authority] = Coverage(carried, min(held.hops, hops))
    return coverage[target] != before


def _offered(
    link: ReportedLink,
    positions: Mapping[str, int],
    catalogs: Sequence[SurveyedCatalog],
    coverage: Sequence[Mapping[str, Coverage]],
) -> Mapping[str, Coverage]:
    source = positions.get(_normal(link.source))
    if source is not None:
        admitted = link.authorities or (catalogs[source].authority,)
        return {
            authority: offered
            for authority, offered in coverage[source].items()
            if "*" in admitted or authority in admitted
        }
    # The coverage of a relay outside the comparison is unknown. Assume all that the link asks
    # for: otherwise two leaves of such a hub would always seem equal.
    admitted = link.authorities or (link.source.rstrip("/"),)
    compared = [catalog.authority for catalog in catalogs]
    named: Iterable[str] = compared if "*" in admitted else admitted
    return dict.fromkeys(named, Coverage(WHOLE_CATALOG, 1))


def _intersection(some: Subtrees, others: Subtrees) -> Subtrees:
    inner = {path for path in some if any(covers(outer, path) for outer in others)}
    return frozenset(inner | {path for path in others if any(covers(o, path) for o in some)})
