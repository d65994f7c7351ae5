"""A catalog in memory, to which documents are applied as a node would.

The catalog has the lookups of the write path and of the domain rules, and collects violations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from catalog.formats.checker import Check
from catalog.formats.families import COMPATIBILITIES, FORMATS
from catalog.lint.declaredentities import entity_of
from catalog.model.caller import node_caller
from catalog.model.capabilities import offered_with
from catalog.model.configuration import Configuration
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.errors import BadRequest, FirstViolations, XRegistryError
from catalog.model.interaction import Interaction
from catalog.model.xid import Xid
from catalog.rules.fault import Subject
from catalog.store.entities import CrossReference
from catalog.store.locks import Touched
from catalog.store.writes import Write
from catalog.writing.decider import Decider
from catalog.writing.validation import DocumentChecker
from catalog.writing.writetransaction import touched_by

HERE = "urn:concord:lint"
# The capabilities of a fresh node.
CAPABILITIES = offered_with(FORMATS, COMPATIBILITIES).initially
_START = datetime(2000, 1, 1, tzinfo=UTC)
# The most attempts to apply a document; each attempt leaves out the entities that were refused.
_MOST_ROUNDS = 20


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


class AcceptingChecker:
    """Accepts every document, for a state that is in force already."""

    async def answers(self, checks: Sequence[Check]) -> Sequence[str]:
        return [""] * len(checks)


@dataclass(slots=True, kw_only=True)
class LintedCatalog:
    """A catalog to which documents are applied in order."""

    configuration: Configuration
    memory: MemoryCatalog = field(default_factory=MemoryCatalog)
    written: set[str] = field(default_factory=set)
    _applied: int = 0
    # The first written spelling of an id, by collection and id in lower case.
    _ids: dict[tuple[str, str], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if "/" not in self.memory.entities:
            self.memory.add(_registry())

    async def apply(
        self, groups: Mapping[str, Any], checker: DocumentChecker
    ) -> list[XRegistryError]:
        """Import a document without the entities that a node would refuse.

        The epochs of the document are ignored, because they are the epochs of another catalog.

        Args:
            groups: the collections of groups of the document, by plural.
            checker: checks documents by formats.

        Returns:
            the violations without repetitions, including violations that appear only when faulty
            entities are removed.
        """
        interaction, found = self._read(groups)
        for _ in range(_MOST_ROUNDS):
            try:
                found += await self._write(interaction, checker)
                break
            except XRegistryError as error:
                violations = error.violations or (error,)
                found += violations
                if not _leave_out(interaction, violations):
                    break
        return list({(each.type, each.subject, each.title): each for each in found}.values())

    def _read(self, groups: Mapping[str, Any]) -> tuple[Interaction, list[XRegistryError]]:
        model, found = self.configuration.model, list[XRegistryError]()
        interaction = Interaction(caller=node_caller(), ignore=frozenset({"epoch"}))
        for plural, collection in groups.items():
            try:
                interaction.post_collections(model, Xid(), {plural: collection})
            except XRegistryError as error:
                found.append(error)
        found += interaction.violations
        interaction.violations = FirstViolations()
        return interaction, found

    async def _write(
        self, interaction: Interaction, checker: DocumentChecker
    ) -> list[XRegistryError]:
        """Write the entities of a document; return the faults that a node's database would find."""
        decider = Decider(
            content=self.memory,
            configuration=self.configuration,
            authority=HERE,
            checker=checker,
            is_exclusive=True,
            is_referred=True,
            has_lived=False,
        )
        self._applied += 1
        before = self.memory.touched(touched_by(interaction, self.configuration.revision))
        now = _START + timedelta(seconds=self._applied)
        outcome = await decider.decide(interaction, before, now)
        self.memory.put(outcome)
        self.written |= outcome.after.keys()
        return [*self._equal_but_for_case(outcome.after)]

    def _equal_but_for_case(self, written: Iterable[str]) -> Iterator[XRegistryError]:
        for xid in written:
            collection, _, id = xid.rpartition("/")
            other = self._ids.setdefault((collection, id.lower()), id)
            if other != id:
                detail = f'the id "{id}" differs from that of "{other}" in case only'
                yield BadRequest(xid, error_detail=detail)


def _registry() -> Entity:
    return Entity(
        xid="/",
        kind="registry",
        authority=HERE,
        origin="/",
        epoch=1,
        attributes={"registryid": "lint"},
        createdat=_START,
        modifiedat=_START,
    ).sealed()


def _leave_out(interaction: Interaction, violations: Sequence[XRegistryError]) -> bool:
    """Remove the resources and groups that violations are about.

    Returns:
        Whether a resource or group was removed.
    """
    found = filter(None, (entity_of(violation.subject) for violation in violations))
    refused = {xid.resource if xid.rid else xid for xid in found}
    size = len(interaction.groups) + len(interaction.resources)
    interaction.groups = [each for each in interaction.groups if each.xid not in refused]
    interaction.resources = [
        each for each in interaction.resources if refused.isdisjoint({each.xid, each.xid.group})
    ]
    return len(interaction.groups) + len(interaction.resources) < size
