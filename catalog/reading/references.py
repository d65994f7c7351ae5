"""What refers to an entity, and what it refers to, directly and through others.

References are read from the entities themselves; the search index only finds the entities. A
reference of a copy is meant in the catalog of the copy's authority, and leads to the copy here of
its target.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal
from urllib.parse import unquote

from catalog.indexing.references import EntityReference, references_of
from catalog.messages.definition import reference_targets
from catalog.model.entity import Entity, Origin
from catalog.model.record import record
from catalog.model.xid import Xid, resource_of
from catalog.store.database import Connection
from catalog.store.entities import load, load_by_origin
from catalog.store.linksources import read_bases
from catalog.store.searchindex import find_referring, load_referring

Direction = Literal["to", "from"]

MOST_EDGES = 1000
"""The number of references that an answer has."""
# Entities that are followed at a time.
_MOST_FOLLOWED = 200
# Addresses of another API that are looked up for an answer.
_MOST_ADDRESSES = 200


@record
class ReferenceEdge:
    """The references of a group, resource or version to one target.

    Args:
        source: the xid of what refers; a resource stands for its default version.
        target: the xid of the target here; `None` if the target is not here.
        text: the reference as written.
        places: where the references are: JSON pointers of attributes, or `document`.
        direction: whether the edge leads to or from the entity that was asked about.
        depth: 1 for a direct reference.
    """

    source: str
    target: str | None
    text: str
    places: tuple[str, ...]
    direction: Direction
    depth: int


@record
class ReferenceEdges:
    """Edges between entities; `are_complete` if the bounds of a search left no edge out."""

    edges: Sequence[ReferenceEdge]
    are_complete: bool


@record
class _Seen:
    """A reference that was resolved."""

    source: str
    target: str | None
    reference: EntityReference


@record
class SchemaAddresses:
    """The addresses by which another API names schemas, within one snapshot.

    Args:
        root: the path below which the API has its addresses.
        find: the version here that a path names at the catalog of an authority, if there is one.
        of_schema: the paths below which the API has the versions of a schema of an authority, here
            and there, each percent-encoded as clients write it.
    """

    root: str
    find: Callable[[str, str], Awaitable[Xid | None]]
    of_schema: Callable[[Xid, str], Awaitable[Sequence[str]]]


class ReferenceReader:
    """Follows references within one snapshot, of a node with the authority `own` and root URLs."""

    def __init__(
        self,
        connection: Connection,
        own: str,
        bases: Sequence[str],
        addresses: SchemaAddresses | None,
    ) -> None:
        self._connection = connection
        self._own = own
        self._bases = [*dict.fromkeys([own, *bases])]
        self._authority_bases: dict[str, str] = {}
        self._addresses = addresses
        self._looked_up: dict[tuple[str, str], str | None] = {}
        self._are_all_looked_up = True

    async def read(self, of: Entity, directions: Iterable[Direction], depth: int) -> ReferenceEdges:
        """The references to an entity, or from an entity, breadth first."""
        edges: list[ReferenceEdge] = []
        are_complete = True
        for direction in directions:
            step = self._to if direction == "to" else self._from
            reached, frontier = {of.xid}, [of.xid]
            known: set[tuple[str, str]] = set()
            for level in range(1, depth + 1):
                found, is_whole = await step(frontier)
                are_complete = are_complete and is_whole
                edges += _edges(found, known, direction, level)
                ends = [each.source if direction == "to" else each.target for each in found]
                frontier = [xid for xid in dict.fromkeys(ends) if xid and xid not in reached]
                reached.update(frontier)
                if not frontier or level == depth or len(edges) > MOST_EDGES:
                    break
                are_complete = are_complete and len(frontier) <= _MOST_FOLLOWED
                frontier = frontier[:_MOST_FOLLOWED]
        are_complete = are_complete and self._are_all_looked_up and len(edges) <= MOST_EDGES
        return ReferenceEdges(edges=edges[:MOST_EDGES], are_complete=are_complete)

    async def _to(self, xids: Sequence[str]) -> tuple[list[_Seen], bool]:
        """The references to entities, to what is below them, and to what they are in."""
        above = {"/".join(xid.split("/", 5)[:depth]) for xid in xids for depth in (3, 5)}
        targets = await load(self._connection, {*xids, *above})
        await self._know({each.authority for each in targets.values()})
        keys: set[str] = set()
        groups: set[str] = set()
        for xid, each in targets.items():
            # Of a group that was not asked for, other members would use up the bound.
            is_above = each.kind == "group" and xid not in xids
            urls = {f"{root}{each.origin}" for root in self._roots(each.authority)}
            (groups if is_above else keys).update({each.xid, each.origin, *urls})
            keys |= await self._address_keys(each)
        sources = await find_referring(self._connection, keys, groups, MOST_EDGES + 1)
        # A key may mean an entity of another catalog, too, so each reference is resolved first.
        wanted = {*xids, *above}
        found = [
            each
            for each in await self._resolved(sources, ())
            if each.target is not None
            and (each.target in wanted or any(each.target.startswith(f"{x}/") for x in xids))
        ]
        return found, len(sources) <= MOST_EDGES

    async def _from(self, xids: Sequence[str]) -> tuple[list[_Seen], bool]:
        """The references of entities, and of what is below them."""
        sources = await load_referring(self._connection, xids, MOST_EDGES + 1)
        return await self._resolved(sources, xids), len(sources) <= MOST_EDGES

    async def _address_keys(self, entity: Entity) -> set[str]:
        """The keys of the addresses by which references may name the versions of a schema."""
        if self._addresses is None or entity.kind != "resource":
            return set()
        paths = await self._addresses.of_schema(entity.path, entity.authority)
        roots = self._roots(entity.authority) | self._roots(self._own)
        return {*map(unquote, paths), *(f"{root}{path}" for root in roots for path in paths)}

    def _roots(self, authority: str) -> set[str]:
        """The URLs of the root of an authority's catalog, without a trailing slash."""
        roots = {authority, self._authority_bases.get(authority, authority)}
        if authority == self._own:
            roots.update(self._bases)
        return {root.rstrip("/") for root in roots if "://" in root}

    async def _know(self, authorities: Iterable[str]) -> None:
        unknown = {*authorities} - self._authority_bases.keys() - {self._own}
        if unknown:
            self._authority_bases |= dict.fromkeys(unknown, "")
            self._authority_bases |= await read_bases(self._connection, unknown)

    async def _resolved(self, sources: Sequence[Entity], asked: Sequence[str]) -> list[_Seen]:
        """Every reference of entities, with the target here."""
        await self._know({each.authority for each in sources})
        possible = [
            (source, reference, self._places(source, reference))
            for source in sources
            for reference in references_of(source)
        ]
        places = {place for _, _, each in possible for place in each}
        origins = [place for place in places if isinstance(place, Origin)]
        xids = [place for place in places if isinstance(place, str)]
        here = (await load(self._connection, xids)).keys()
        by_origin = await load_by_origin(self._connection, origins) if origins else {}
        return [
            _Seen(
                # A resource stands for its default version, unless the version was asked for.
                source=source.xid if source.xid in asked else resource_of(source.xid),
                target=_first_here(each, here, by_origin)
                or await self._addressed(source, reference),
                reference=reference,
            )
            for source, reference, each in possible
        ]

    async def _addressed(self, source: Entity, reference: EntityReference) -> str | None:
        """The version that a reference names by an address of another API."""
        addresses = self._addresses
        if addresses is None or f"{addresses.root}/" not in reference.text:
            return None
        text = reference.text.removeprefix("#").partition("#")[0]
        root, _, rest = text.partition(f"{addresses.root}/")
        authority = source.authority
        if root:
            known = {self._own, *self._authority_bases}
            authority = next((each for each in known if root in self._roots(each)), root)
        asked = (f"{addresses.root}/{rest}", authority)
        if asked not in self._looked_up:
            if len(self._looked_up) >= _MOST_ADDRESSES:
                self._are_all_looked_up = False
                return None
            found = await addresses.find(*asked)
            self._looked_up[asked] = None if found is None else str(found)
        return self._looked_up[asked]

    def _places(self, source: Entity, reference: EntityReference) -> list[str | Origin]:
        """The xids here and the origins that a reference may mean, likeliest first."""
        key = reference.key
        if key.startswith("/"):
            paths = _paths(key)
            # The target of a cross reference is stored as its xid here.
            if source.authority == self._own or source.kind == "resource":
                return [*paths]
            return [*(Origin(source.authority, path) for path in paths), *paths]
        for base in self._bases:
            if key.startswith(f"{base}/"):
                return [*_paths(key.removeprefix(base))]
        found: list[str | Origin] = []
        by_base = {base: authority for authority, base in self._authority_bases.items() if base}
        start = key.find("://") + 3
        while (start := key.find("/", start)) >= 0:
            root = key[:start]
            paths = _paths(key[start:])
            for authority in {root, f"{root}/", by_base.get(root, root)}:
                found += [Origin(authority, path) for path in paths]
            start += 1
        return found


# Many entities refer to the same target.
@lru_cache(maxsize=1024)
def _paths(key: str) -> Sequence[str]:
    """The xids that a path may mean, likeliest first."""
    found = [str(target.xid) for target in reference_targets(key, ())]
    try:
        xid = Xid.parse(key)
    except ValueError:
        return found
    return found or ([key] if xid.kind == "group" else [])


def _first_here(
    places: Iterable[str | Origin], here: Collection[str], by_origin: Mapping[Origin, Entity]
) -> str | None:
    for place in places:
        if isinstance(place, Origin):
            if place in by_origin:
                return by_origin[place].xid
        elif place in here:
            return place
    return None


def _edges(
    found: Iterable[_Seen], known: set[tuple[str, str]], direction: Direction, depth: int
) -> list[ReferenceEdge]:
    """One edge for the references of a source to one target, unless the edge is known already."""
    merged: dict[tuple[str, str], list[_Seen]] = {}
    for each in found:
        ends = (each.source, each.target or each.reference.text)
        if ends not in known:
            merged.setdefault(ends, []).append(each)
    known.update(merged)
    return [
        ReferenceEdge(
            source=same[0].source,
            target=same[0].target,
            text=same[0].reference.text,
            places=tuple(dict.fromkeys(each.reference.place for each in same)),
            direction=direction,
            depth=depth,
        )
        for same in merged.values()
    ]
