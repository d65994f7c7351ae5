"""One request to read: what it addresses, how it wants its answer, and under which model."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass

from aiohttp import hdrs, web
from multidict import CIMultiDict

from catalog.api.entityjson import EntityRenderer
from catalog.api.readflags import ReadFlags
from catalog.api.requesttarget import RequestTarget
from catalog.api.scope import UNFILTERED, Scope
from catalog.api.subtreejson import SubtreeWriter
from catalog.context import Context
from catalog.http.deadline import in_search_time
from catalog.http.etag import names_tag, not_modified, weak_tag
from catalog.http.stream import SNAPSHOTS, WHOLE, send
from catalog.model.configuration import Configuration
from catalog.model.errors import NotFound
from catalog.model.schema import Model
from catalog.model.xid import Xid
from catalog.reading.find import find_visible
from catalog.reading.loaded import Loaded
from catalog.store.database import Connection
from catalog.store.subtrees import Snapshot, open_snapshot


@dataclass(slots=True, kw_only=True)
class ReadPlan:
    """A request to read; `is_lasting` turns false when its answer can change unnoticed."""

    request: web.Request
    context: Context
    configuration: Configuration
    target: RequestTarget
    query: ReadFlags
    is_lasting: bool = True

    @property
    def model(self) -> Model:
        return self.configuration.model

    @property
    def xid(self) -> Xid:
        return self.target.xid

    @property
    def follows(self) -> bool:
        """Whether cross references are shown as their targets (core/spec.md, "Doc Flag")."""
        return not self.query.doc

    @property
    def _is_read(self) -> bool:
        return self.request.method in (hdrs.METH_GET, hdrs.METH_HEAD)

    def renderer(self, known: Loaded, scope: Scope = UNFILTERED) -> EntityRenderer:
        self.note(known)
        return EntityRenderer(
            self.configuration,
            known,
            base=self.context.base_url(self.request),
            authority=self.context.database.node.authority,
            root=self.target.path if self.query.doc else None,
            is_binary=self.query.binary,
            scope=scope,
        )

    @contextlib.asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Snapshot]:
        """One state of the catalog, however long the answer takes."""
        async with (
            self.request.app[SNAPSHOTS],
            open_snapshot(self.context.database) as snapshot,
        ):
            yield snapshot

    async def scope(self, connection: Connection, page: Sequence[str] | None = None) -> Scope:
        """What the filters leave over; an entity that was just written is always among that.

        Args:
            page: of a collection, the xids of the only entities that matter.

        Raises:
            NotFound: an entity is to be read, and it is not among that.
            SearchTooCostly
        """
        filters = self.query.filters
        if filters is None:
            return UNFILTERED
        # What was written is done, however long it takes to say what of it is to be shown.
        bound = in_search_time(self.request) if self._is_read else contextlib.nullcontext()
        async with bound:
            visible = await find_visible(
                connection, self.xid, filters, self.target.plural, only=page
            )
        if visible.is_empty and self.target.kind != "collection" and self._is_read:
            raise NotFound(self.target.path)
        return Scope(visible)

    async def send(
        self,
        snapshot: Snapshot,
        writer: SubtreeWriter,
        pieces: AsyncGenerator[bytes],
        headers: CIMultiDict[str],
        *,
        status: int = 200,
    ) -> web.StreamResponse:
        """Answer with what `writer` writes, unless the client has an answer of this state."""
        tag = self._tag(snapshot)
        if self._is_read and names_tag(self.request, tag):
            return not_modified(CIMultiDict(headers, **{hdrs.ETAG: tag}))
        response = await send(
            self.request, pieces, headers, status=status, tag=tag if self._is_read else ""
        )
        self.is_lasting &= not writer.has_cross_references
        return response

    def note(self, known: Loaded) -> None:
        """What is shown through a cross reference changes where nobody looks for it."""
        if known.has_cross_references:
            self.is_lasting = False

    def _tag(self, snapshot: Snapshot) -> str:
        """The tag of whatever this request is answered with from a snapshot."""
        return weak_tag(
            (
                snapshot.name,
                self.context.database.node.instance,
                self.configuration.revision,
                self.context.base_url(self.request),
                self.request.raw_path,
                self.request.get(WHOLE, ""),
            )
        )
