"""Reads entities as a GET shows them: single entities, members of collections, small subtrees.

With `follows`, cross references are shown as their targets. An entity that does not exist is
`NotFound`, unless several entities are asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from catalog.model.entity import Entity
from catalog.model.errors import DataRetrievalError, NotFound, TooLarge
from catalog.model.schema import Model
from catalog.model.xid import Xid, collection_of
from catalog.store import entities as store
from catalog.store import subtrees
from catalog.store.database import Connection
from catalog.store.entities import Shown

MOST_DOCUMENT_BYTES = 64 * 1024 * 1024
# Of metadata. A page ends at the bound; an answer without pages is refused beyond the bound.
_MOST_PAGE_BYTES = 8 * 1024 * 1024
_MOST_BYTES_AT_ONCE = 64 * 1024 * 1024
# Every page may have this number of resources with their default versions (`MAX_ENTITY_BYTES`).
_ALWAYS_FITTING = 15
_FEWER_AT_ONCE = "Ask for fewer entities at once (`limit`), or for versions page by page."


def check_readable(entity: Entity) -> None:
    """Refuse to show an entity whose stored attributes are unreadable."""
    if entity.damage:
        raise DataRetrievalError(entity.xid, detail=f"{entity.xid} is damaged: {entity.damage}.")


@dataclass(slots=True)
class Loaded:
    """Entities as an answer shows them, by the xids in the answer.

    `stored` has the real xids of versions that are shown through a cross reference;
    `has_cross_references` says whether any entity is a cross reference.
    """

    entities: dict[str, Entity] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    documents: dict[str, bytes] = field(default_factory=dict)
    stored: dict[str, str] = field(default_factory=dict)
    has_cross_references: bool = False
    _children: dict[str, list[Entity]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, entities: Iterable[Entity]) -> Loaded:
        """Load entities, which include everything below each entity."""
        loaded = cls()
        for entity in entities:
            loaded.entities[entity.xid] = entity
            loaded._children[collection_of(entity.path)].append(entity)
        for collection, children in loaded._children.items():
            children.sort(key=lambda child: child.path.id.lower())
            loaded.counts[collection] = len(children)
        return loaded

    @classmethod
    def shown(cls, resources: Iterable[Shown]) -> Loaded:
        """Load resources with their default versions only."""
        loaded = cls()
        for shown in resources:
            loaded.entities[shown.resource.xid] = shown.resource
            loaded.counts[f"{shown.resource.xid}/versions"] = shown.versionscount
            if shown.default is not None:
                loaded.entities[shown.default.xid] = shown.default
        return loaded

    def add_children(self, collection: str, children: Sequence[Entity]) -> None:
        """Add all members of a collection, in order."""
        self._children[collection] = [*children]
        self.counts[collection] = len(children)
        for child in children:
            self.entities[child.xid] = child

    def children(self, collection: str) -> Sequence[Entity]:
        return self._children.get(collection, ())

    def count(self, collection: str) -> int:
        return self.counts.get(collection, 0)

    def default_of(self, resource: Entity) -> Entity | None:
        """The default version of a resource, which may not have been replicated yet."""
        vid = resource.attributes.get("defaultversionid")
        return self.entities.get(f"{resource.xid}/versions/{vid}")

    def document_of(self, version: Entity) -> bytes:
        """The document of a version, empty if it has none; DataRetrievalError if it is lost."""
        if version.document is not None:
            return version.document
        body = self.documents.get(self.stored.get(version.xid, version.xid))
        if body is None and version.document_sha256 is not None:
            raise DataRetrievalError(version.xid, detail=f"The document of {version.xid} is gone.")
        return body or b""

    def see_through(self, source: Entity, target: Entity) -> Entity:
        """Show a cross reference as its target, under the xid of the cross reference."""
        seen = replace(
            source,
            epoch=target.epoch,
            attributes={**target.attributes, "xref": source.attributes["xref"]},
            createdat=target.createdat,
            modifiedat=target.modifiedat,
        )
        self.entities[seen.xid] = seen
        return seen

    def see_version_through(self, source: Entity, version: Entity) -> Entity:
        """Show a version of a cross reference's target as a version of the cross reference."""
        below = f"/versions/{version.path.vid}"
        xid, origin = source.xid + below, source.origin + below
        seen = replace(version, xid=xid, authority=source.authority, origin=origin)
        self.entities[seen.xid] = seen
        self.stored[seen.xid] = version.xid
        return seen


async def read_subtree(connection: Connection, xid: Xid, *, follows: bool = True) -> Loaded:
    """Read an entity with everything below the entity, without documents."""
    rows = await load_subtrees(connection, [str(xid)])
    if not rows or rows[0].xid != str(xid):
        raise NotFound(str(xid))
    loaded = Loaded.of(rows)
    if follows:
        await follow(connection, loaded, versions=True)
    return loaded


async def load_subtrees(connection: Connection, xids: Sequence[str]) -> list[Entity]:
    """Read entities with everything below each entity, parents before their children.

    Raises `TooLarge` if the subtrees are too large to hold at once.
    """
    # The size is measured first, because the rows themselves could exhaust the memory.
    if await store.measure_subtrees(connection, xids) > _MOST_BYTES_AT_ONCE:
        raise TooLarge(xids[0], detail=_FEWER_AT_ONCE)
    return await store.load_subtrees(connection, xids)


async def read_entity(
    connection: Connection, model: Model, xid: Xid, *, follows: bool = True
) -> Loaded:
    """Read an entity with its counts, or with its default version."""
    loaded = await read_entities(connection, model, [xid], follows=follows)
    if str(xid) not in loaded.entities:
        raise NotFound(str(xid))
    return loaded


async def read_entities(
    connection: Connection, model: Model, xids: Sequence[Xid], *, follows: bool = True
) -> Loaded:
    """Read entities of the same kind, each with its counts, or with its default version."""
    kind = xids[0].kind if xids else "registry"
    if kind == "resource":
        return await read_resources(connection, map(str, xids), follows=follows)
    resources = {str(xid.resource) for xid in xids} if kind == "version" else set()
    loaded = Loaded(entities=await store.load(connection, [*map(str, xids), *resources]))
    if kind != "version":
        loaded.counts = await store.count_collections(connection, collections_of(model, xids))
    elif follows:
        await follow(connection, loaded)
        await _follow_versions(connection, loaded, xids)
    return loaded


async def read_resources(
    connection: Connection, xids: Iterable[str], *, follows: bool = True
) -> Loaded:
    """Read resources, each with its default version and its number of versions."""
    loaded = Loaded.shown(await store.load_shown(connection, xids))
    if follows:
        await follow(connection, loaded)
    return loaded


async def _follow_versions(connection: Connection, loaded: Loaded, xids: Iterable[Xid]) -> None:
    """Add the versions that cross references show as their own."""
    wanted: dict[str, Entity] = {}
    for xid in xids:
        resource = loaded.entities.get(str(xid.resource))
        if resource is not None and "xref" in resource.attributes:
            wanted[f"{resource.attributes['xref']}/versions/{xid.vid}"] = resource
    for stored, version in (await store.load(connection, wanted)).items() if wanted else ():
        if "defaultversionid" in wanted[stored].attributes:
            loaded.see_version_through(wanted[stored], version)


async def read_members(
    connection: Connection, model: Model, owner: Xid, xids: Sequence[str], *, follows: bool = True
) -> Loaded:
    """Read members of a collection of `owner`; versions come with the resource that owns them."""
    if owner.gid and not owner.rid:
        return await read_resources(connection, xids, follows=follows)
    if owner.rid and not xids:
        return await read_entity(connection, model, owner, follows=follows)
    loaded = await read_entities(connection, model, [*map(Xid.parse, xids)], follows=follows)
    if owner.rid and str(owner) not in loaded.entities:
        raise NotFound(str(owner))
    return loaded


async def most_fitting(
    connection: Connection, xids: Sequence[str], limit: int | None
) -> int | None:
    """The number of entities that a page may have, given the xids of the next entities.

    Args:
        limit: the most entities of the page, which has fewer if they are large; `None` for all.

    Raises:
        TooLarge: without a limit, the entities are too large to hold at once.
    """
    if len(xids) <= _ALWAYS_FITTING:
        return limit
    most_bytes = _MOST_BYTES_AT_ONCE if limit is None else _MOST_PAGE_BYTES
    fitting = await store.count_fitting(connection, xids, most_bytes)
    if fitting < len(xids) and limit is None:
        raise TooLarge(xids[0], detail=_FEWER_AT_ONCE)
    return limit if fitting == len(xids) else fitting


async def follow(connection: Connection, loaded: Loaded, *, versions: bool = False) -> None:
    """Show every loaded cross reference as its target, one level deep.

    Source: core/spec.md, "Cross Referencing Resources". The target has its default version, or all
    its `versions`.
    """
    # Entities of other kinds may have an extension named `xref`.
    resources = (each for each in loaded.entities.values() if each.kind == "resource")
    sources = [each for each in resources if "xref" in each.attributes]
    if not sources:
        return
    loaded.has_cross_references = True
    xids = {source.attributes["xref"] for source in sources}
    found = await store.load_shown(connection, xids)
    targets = {shown.resource.xid: shown for shown in found}
    below = Loaded.of(await store.load_subtrees(connection, xids)) if versions else Loaded()
    for source in sources:
        target = targets.get(source.attributes["xref"])
        # References are followed once, so that chains and circles cost nothing.
        if target is None or "xref" in target.resource.attributes:
            continue
        seen = loaded.see_through(source, target.resource)
        loaded.counts[f"{seen.xid}/versions"] = target.versionscount
        if versions:
            children = below.children(f"{target.resource.xid}/versions")
            shown = [loaded.see_version_through(seen, version) for version in children]
            loaded.add_children(f"{seen.xid}/versions", shown)
        elif target.default is not None:
            loaded.see_version_through(seen, target.default)


async def load_documents(
    connection: Connection, loaded: Loaded, entities: Iterable[Entity]
) -> None:
    """Load the documents of the versions among the given entities.

    Raises `TooLarge` if the documents are too large to hold at once.
    """
    stored = {
        loaded.stored.get(entity.xid, entity.xid)
        for entity in entities
        if entity.document_sha256 is not None
    }
    if not stored:
        return
    sizes = await subtrees.load_sizes(connection, stored)
    if sum(sizes.values()) > MOST_DOCUMENT_BYTES:
        raise TooLarge(min(stored), detail="Ask for its documents one by one.")
    loaded.documents |= await store.load_documents(connection, stored)


def collections_of(model: Model, owners: Iterable[Xid]) -> list[str]:
    """The paths of all collections of the given registries and groups."""
    return [
        owner.collection(plural)
        for owner in owners
        for plural in (model.groups[owner.groups].resources if owner.gid else model.groups)
    ]
