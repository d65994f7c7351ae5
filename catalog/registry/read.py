"""Reads for clients: an entity, a page of a collection, or a whole subtree, in few queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from catalog.model.entity import Entity
from catalog.model.errors import NotFound
from catalog.model.schema import Model
from catalog.model.xid import Xid, collection_of
from catalog.store import entities as store
from catalog.store.database import Connection
from catalog.store.entities import Shown


@dataclass(slots=True)
class Known:
    """The entities that one answer can show, and what is known of collections' sizes."""

    entities: dict[str, Entity] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    _children: dict[str, list[Entity]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, entities: Iterable[Entity]) -> Known:
        """Everything about these entities, which include all that is below each of them."""
        known = cls()
        for entity in entities:
            known.entities[entity.xid] = entity
            known._children[collection_of(entity.path)].append(entity)
        for collection, children in known._children.items():
            children.sort(key=lambda child: child.path.id.lower())
            known.counts[collection] = len(children)
        return known

    @classmethod
    def shown(cls, resources: Iterable[Shown]) -> Known:
        """Resources with their default versions only."""
        known = cls()
        for shown in resources:
            known.entities[shown.resource.xid] = shown.resource
            known.counts[f"{shown.resource.xid}/versions"] = shown.versionscount
            if shown.default is not None:
                known.entities[shown.default.xid] = shown.default
        return known

    def deepened(self, entities: Iterable[Entity]) -> Known:
        """The same with all that is below, which `entities` has whole."""
        known = Known.of(entities)
        known.entities = self.entities | known.entities
        return known

    def children(self, collection: str) -> Sequence[Entity]:
        return self._children.get(collection, ())

    def count(self, collection: str) -> int:
        return self.counts.get(collection, 0)

    def default_of(self, resource: Entity) -> Entity | None:
        """The default version of a resource; for a moment a replica may lack it."""
        vid = resource.attributes.get("defaultversionid")
        return self.entities.get(f"{resource.xid}/versions/{vid}")


async def read_subtree(connection: Connection, xid: Xid) -> Known:
    """An entity with everything below it and all documents.

    Raises:
        NotFound
    """
    rows = await store.load_subtrees(connection, [str(xid)], documents=True)
    if not rows or rows[0].xid != str(xid):
        raise NotFound(str(xid))
    return Known.of(rows)


async def read_entity(connection: Connection, model: Model, xid: Xid) -> Known:
    """An entity with what its own representation needs: counts, or its default version.

    Raises:
        NotFound
    """
    known = await read_entities(connection, model, [xid])
    if str(xid) not in known.entities:
        raise NotFound(str(xid))
    return known


async def read_entities(connection: Connection, model: Model, xids: Sequence[Xid]) -> Known:
    """Entities of one kind, each with what its own representation needs."""
    kind = xids[0].kind if xids else "registry"
    if kind == "resource":
        return Known.shown(await store.load_shown(connection, map(str, xids)))
    resources = {str(xid.resource) for xid in xids} if kind == "version" else set()
    known = Known(entities=await store.load(connection, [*map(str, xids), *resources]))
    if kind != "version":
        known.counts = await store.count_collections(connection, _collections(model, xids))
    return known


async def read_page(
    connection: Connection, model: Model, owner: Xid, plural: str, after: str, limit: int
) -> tuple[Known, list[str]]:
    """A page of a collection, and its entities' xids in order.

    Raises:
        NotFound: the owner does not exist.
    """
    collection = f"{str(owner).rstrip('/')}/{plural}"
    if owner.rid:
        entities = await store.page(connection, collection, after, limit)
        known = Known.of([*entities, *(await store.load(connection, [str(owner)])).values()])
    elif owner.gid:
        shown = await store.page_resources(connection, collection, after, limit)
        known, entities = Known.shown(shown), [s.resource for s in shown]
    else:
        entities = await store.page(connection, collection, after, limit)
        known = await read_entities(connection, model, [entity.path for entity in entities])
    if not entities and not await store.load(connection, [str(owner)]):
        raise NotFound(str(owner))
    return known, [entity.xid for entity in entities]


def _collections(model: Model, owners: Iterable[Xid]) -> list[str]:
    """The paths of all collections that these registries and groups have."""
    return [
        f"{str(owner).rstrip('/')}/{plural}"
        for owner in owners
        for plural in (model.groups[owner.groups].resources if owner.gid else model.groups)
    ]
