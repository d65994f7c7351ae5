"""Reads the content of a catalog for the rules of interactions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from catalog.formats.checker import CheckedDocument
from catalog.model.caller import Caller
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.xid import group_path, resource_of
from catalog.store import entities
from catalog.store.connections import seen_by
from catalog.store.database import Connection
from catalog.store.entities import CrossReference
from catalog.writing.drafts import Draft


class CatalogContent(Protocol):
    """Reads a catalog's content; results leave out xids that do not exist."""

    async def load(self, xids: Iterable[str]) -> dict[str, Entity]: ...

    async def load_subtrees(self, xids: Iterable[str]) -> list[Entity]:
        """The given entities with every entity below, parents before children."""
        ...

    async def load_documents(self, xids: Iterable[str]) -> dict[str, bytes]: ...

    async def load_sources(self, targets: Iterable[str]) -> list[CrossReference]:
        """The cross references to the given resources."""
        ...

    async def load_tombstones(self, origins: Iterable[Origin]) -> dict[Origin, Tombstone]: ...

    async def numbers_of_deleted_versions(
        self, authority: str, resources: Sequence[str]
    ) -> dict[str, list[range]]:
        """The numbers that were ids of deleted versions, by resource."""
        ...


@dataclass(frozen=True, slots=True)
class StoredContent:
    """The content of a database as visible to a caller, read in one transaction.

    `read` has the xids of the groups and resources that were read, `read_whole` the xids of groups
    whose whole content was read: a plan on the content holds until one of these changes.
    """

    connection: Connection
    caller: Caller
    read: set[str] = field(default_factory=set)
    read_whole: set[str] = field(default_factory=set)

    def _noted(self, xids: Iterable[str]) -> list[str]:
        noted = list(xids)
        self.read.update(map(group_path, noted), map(resource_of, noted))
        return noted

    async def load(self, xids: Iterable[str]) -> dict[str, Entity]:
        async with seen_by(self.connection, self.caller):
            return await entities.load(self.connection, self._noted(xids))

    async def load_subtrees(self, xids: Iterable[str]) -> list[Entity]:
        roots = self._noted(xids)
        self.read_whole.update(xid for xid in roots if xid == group_path(xid))
        async with seen_by(self.connection, self.caller):
            return await entities.load_subtrees(self.connection, roots)

    async def load_documents(self, xids: Iterable[str]) -> dict[str, bytes]:
        return await entities.load_documents(self.connection, self._noted(xids))

    async def load_sources(self, targets: Iterable[str]) -> list[CrossReference]:
        # A group's rules also apply to resources shown by cross reference. The rules must not bind
        # a writer of the target who does not see the group: a refusal would reveal the group.
        async with seen_by(self.connection, self.caller):
            sources = await entities.load_sources(self.connection, targets)
        self._noted(source.xid for source in sources)
        return sources

    async def load_tombstones(self, origins: Iterable[Origin]) -> dict[Origin, Tombstone]:
        return await entities.load_tombstones(self.connection, origins)

    async def numbers_of_deleted_versions(
        self, authority: str, resources: Sequence[str]
    ) -> dict[str, list[range]]:
        return await entities.numbers_of_deleted_versions(self.connection, authority, resources)


class DraftDocuments:
    """The documents of drafts: new documents, or else stored documents."""

    def __init__(self, content: CatalogContent) -> None:
        self._content = content
        self._documents: dict[str, CheckedDocument] = {}

    async def load(self, drafts: Iterable[Draft]) -> None:
        """Read the stored documents that `of` will return."""
        stored = (d for d in drafts if d.document is None and d.document_sha256 is not None)
        if missing := {str(draft.xid) for draft in stored} - self._documents.keys():
            loaded = await self._content.load_documents(missing)
            self._documents |= {xid: CheckedDocument.of(content) for xid, content in loaded.items()}

    def of(self, draft: Draft) -> CheckedDocument:
        """The document of a version; empty for a version without a document."""
        xid = str(draft.xid)
        is_stored = draft.document is None and draft.document_sha256 is not None
        if not is_stored and xid not in self._documents:
            self._documents[xid] = CheckedDocument.of(draft.document or b"")
        return self._documents[xid]
