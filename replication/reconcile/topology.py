"""Who owns what, and which catalog is supposed to carry which part of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from replication.reconcile.catalogs import Catalog, CatalogLink

Scope = frozenset[str]
"""Paths of a catalog that are carried with all below them; the empty path is everything."""

EVERYTHING: Scope = frozenset({""})


@dataclass(frozen=True, slots=True)
class Carriage:
    """What a catalog carries of one authority, and how many links away from it it is."""

    scope: Scope
    hops: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The catalogs by their position, and the flows between them.

    `carried` says for each catalog and authority what the catalog is supposed to hold.
    Scopes are compared with origins, so a relay that renames what it carries is judged by
    the names at the authority.
    """

    names: tuple[str, ...]
    authorities: tuple[str, ...]
    carried: tuple[Mapping[str, Carriage], ...]

    def owner(self, authority: str) -> int | None:
        """The position of the authority's own catalog, if it is among the given ones."""
        return self.authorities.index(authority) if authority in self.authorities else None

    def expects(self, catalog: int, authority: str, origin: str) -> bool:
        """Whether the catalog is supposed to hold this origin."""
        carriage = self.carried[catalog].get(authority)
        return carriage is not None and any(_covers(path, origin) for path in carriage.scope)

    def hops(self, catalog: int, authority: str) -> int:
        """How many links lie between the authority and the catalog; many where none do."""
        carriage = self.carried[catalog].get(authority)
        return carriage.hops if carriage else len(self.names)


def topology_of(catalogs: Sequence[Catalog]) -> Topology:
    """What follows from the links that the catalogs report, relays included."""
    places = _places(catalogs)
    carried: list[dict[str, Carriage]] = [
        {catalog.authority: Carriage(EVERYTHING, 0)} for catalog in catalogs
    ]
    links = [link for catalog in catalogs for link in catalog.links]
    while any(_carry(link, places, catalogs, carried) for link in links):
        pass
    return Topology(
        names=tuple(catalog.name for catalog in catalogs),
        authorities=tuple(catalog.authority for catalog in catalogs),
        carried=tuple(carried),
    )


def _places(catalogs: Sequence[Catalog]) -> dict[str, int]:
    """A catalog is found by the URL that it was given by and by its authority, which is one."""
    by_authority = {_normal(c.authority): place for place, c in enumerate(catalogs)}
    return by_authority | {_normal(c.url): place for place, c in enumerate(catalogs)}


def _normal(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}".lower().rstrip("/")


def _carry(
    link: CatalogLink,
    places: Mapping[str, int],
    catalogs: Sequence[Catalog],
    carried: list[dict[str, Carriage]],
) -> bool:
    """Let one link carry what is known of its source to its target; whether that was news."""
    target = places.get(_normal(link.target))
    if target is None:
        return False
    before = dict(carried[target])
    for authority, brought in _offered(link, places, catalogs, carried).items():
        if authority == catalogs[target].authority:
            continue
        held = carried[target].get(authority, Carriage(frozenset(), brought.hops + 1))
        carried[target][authority] = Carriage(
            held.scope | _within(brought.scope, _scope(link)), min(held.hops, brought.hops + 1)
        )
    return carried[target] != before


def _offered(
    link: CatalogLink,
    places: Mapping[str, int],
    catalogs: Sequence[Catalog],
    carried: Sequence[Mapping[str, Carriage]],
) -> Mapping[str, Carriage]:
    source = places.get(_normal(link.source))
    if source is not None:
        admitted = link.authorities or (catalogs[source].authority,)
        return {
            authority: carriage
            for authority, carriage in carried[source].items()
            if "*" in admitted or authority in admitted
        }
    # What a relay outside the comparison holds is unknown. It is taken to hold what it was
    # asked for, since else two leaves of a hub that is not given would always seem equal.
    admitted = link.authorities or (link.source.rstrip("/"),)
    given = [catalog.authority for catalog in catalogs]
    named: Iterable[str] = given if "*" in admitted else admitted
    return dict.fromkeys(named, Carriage(EVERYTHING, 1))


def _scope(link: CatalogLink) -> Scope:
    return frozenset(path.rstrip("/") for path in link.scope) or EVERYTHING


def _within(scope: Scope, other: Scope) -> Scope:
    """The paths that both scopes hold."""
    inner = {path for path in scope if any(_covers(outer, path) for outer in other)}
    return frozenset(inner | {path for path in other if any(_covers(o, path) for o in scope)})


def _covers(path: str, xid: str) -> bool:
    return xid == path or xid.startswith(path + "/")
