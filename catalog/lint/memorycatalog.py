"""A catalog in memory, with the lookups of the write path and of the domain rules."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.xid import Xid
from catalog.rules import Subject
from catalog.store.crossreferences import CrossReference
from catalog.store.locks import Touched
from catalog.store.writes import Write


@dataclass(slots=True)
class MemoryCatalog:
    """Entities by xid: a `CatalogContent` without deletions and tombstones."""

    entities: dict[str, Entity] = field(default_factory=dict)
    _documents: dict[str, bytes] = field(default_factory=dict)
    _below: dict[str, set[str]] = field(default_factory=dict)

    def put(self, write: Write) -> None:
        """Store the entities of an interaction that deletes nothing."""
        for xid in write.dropped_documents:
            self._documents.pop(xid, None)
        for entity in write.entities:
            self.add(entity)

    def add(self, entity: Entity) -> None:
        if entity.document is not None:
            self._documents[entity.xid] = entity.document
        self.entities[entity.xid] = replace(entity, document=None)
        path = entity.path
        for owner in (path.group, path.resource) if path.rid else ():
            self._below.setdefault(str(owner), set()).add(entity.xid)

    def copy(self) -> MemoryCatalog:
        below = {owner: set(xids) for owner, xids in self._below.items()}
        return MemoryCatalog(dict(self.entities), dict(self._documents), below)

    def touched(self, touched: Touched) -> dict[str, Entity]:
        """The registry, and the named groups and resources with their versions."""
        xids = {"/", *touched.groups, *touched.resources}
        xids |= {xid for owner in touched.resources for xid in self._below.get(owner, ())}
        return {xid: self.entities[xid] for xid in xids if xid in self.entities}

    def version(self, xid: Xid) -> Entity | None:
        """An entity; for a resource, the default version of the resource or of its xref target."""
        found = self.entities.get(str(xid))
        if found is not None and xid.kind == "resource":
            owner = self.entities.get(found.attributes.get("xref", ""), found)
            vid = owner.attributes.get("defaultversionid")
            return self.entities.get(f"{owner.xid}/versions/{vid}")
        return found

    def document(self, xid: str) -> bytes:
        return self._documents.get(xid, b"")

    async def load(self, xids: Iterable[str]) -> dict[str, Entity]:
        return {xid: self.entities[xid] for xid in xids if xid in self.entities}

    async def load_subtrees(self, xids: Iterable[str]) -> list[Entity]:
        wanted = {xid for root in xids for xid in (root, *self._below.get(root, ()))}
        found = (self.entities[xid] for xid in wanted if xid in self.entities)
        return sorted(found, key=lambda entity: entity.xid.count("/"))

    async def load_documents(self, xids: Iterable[str]) -> dict[str, bytes]:
        return {xid: self._documents[xid] for xid in xids if xid in self._documents}

    async def load_sources(self, targets: Iterable[str]) -> list[CrossReference]:
        wanted = set(targets)
        return [
            CrossReference(xid=xid, target=xref, group=self.entities[str(entity.path.group)])
            for xid, entity in self.entities.items()
            if (xref := entity.attributes.get("xref", "")) in wanted and entity.kind == "resource"
        ]

    async def load_tombstones(self, origins: Iterable[Origin]) -> dict[Origin, Tombstone]:
        return {}

    async def numbers_of_deleted_versions(
        self, authority: str, resources: Sequence[str]
    ) -> dict[str, list[range]]:
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEntities:
    """The entities of documents and of the base of the comparison.

    Args:
        memory: the catalog after the import of the documents.
        declared: the xids in the documents, including entities that a catalog would refuse.
        groups: the xids of completely known groups: entities missing from these groups are absent.
        gone: the xids of entities that only the former state of the documents had.
        bases: the URLs of the catalog's root, without a trailing slash.
    """

    memory: MemoryCatalog
    declared: Collection[str]
    groups: frozenset[str]
    gone: Collection[str] = frozenset()
    bases: Sequence[str] = ()

    def find(self, xid: Xid) -> Subject | None:
        found = None if self._is_gone(xid) else self.memory.version(xid)
        return Subject(xid=found.path, attributes=found.attributes) if found is not None else None

    def is_absent(self, xid: Xid) -> bool:
        if self._is_gone(xid):
            return True
        is_here = str(xid) in self.declared or str(xid) in self.memory.entities
        return not is_here and str(xid.group) in self.groups

    def _is_gone(self, xid: Xid) -> bool:
        above = (xid, xid.resource, xid.group) if xid.rid else (xid,)
        return any(str(each) in self.gone for each in above)
