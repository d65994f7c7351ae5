"""The loaded entities of an answer, with their children, documents and counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from catalog.model.entity import Entity
from catalog.model.errors import DataRetrievalError
from catalog.model.xid import collection_of
from catalog.store.entities import Shown


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
