"""What the versions of an interaction hold: their documents, and whether these are new."""

from __future__ import annotations

from collections.abc import Iterable

from catalog.model.schema import ResourceType
from catalog.writing.content import CatalogContent
from catalog.writing.draft import Draft


class DraftDocuments:
    """The documents of drafts, read where they are kept if they are not new."""

    def __init__(self, holdings: CatalogContent) -> None:
        self._holdings = holdings
        self._loaded: dict[str, bytes] = {}

    async def load(self, drafts: Iterable[Draft]) -> None:
        """Read what `of` will be asked for."""
        wanted = {
            str(draft.xid)
            for draft in drafts
            if draft.document is None and draft.document_sha256 is not None
        }
        if missing := wanted - self._loaded.keys():
            self._loaded |= await self._holdings.load_documents(missing)

    def of(self, draft: Draft) -> bytes:
        """A version's document; no document is the same as an empty one."""
        if draft.document is not None:
            return draft.document
        if draft.document_sha256 is None:
            return b""
        return self._loaded[str(draft.xid)]


def has_new_content(draft: Draft, kind: ResourceType) -> bool:
    """Whether a version's document, or how it is to be understood, differs from before."""
    before = draft.before
    if before is None:
        return True
    names = ("format", f"{kind.singular}url")
    if any(before.attributes.get(name) != draft.attributes.get(name) for name in names):
        return True
    return draft.content_sha256 != before.document_sha256
