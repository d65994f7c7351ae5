"""The plan of a read of the native API: its target, its flags, and the way to its answer."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from aiohttp import hdrs, web
from multidict import CIMultiDict

from catalog.api.answercache import ANSWERS, CachedAnswer
from catalog.api.entityjson import EntityRenderer
from catalog.api.requestflags import ReadFlags
from catalog.api.requesttarget import RequestTarget
from catalog.api.subtreejson import SubtreeWriter
from catalog.context import Context
from catalog.http.conditions import names_tag, not_modified, tag, weak_tag
from catalog.http.stream import WHOLE, in_search_time, send, stream_share
from catalog.model.concorderrors import TooManyAtOnce
from catalog.model.configuration import Configuration
from catalog.model.errors import NotFound, ServerBusy
from catalog.model.record import record
from catalog.model.schema import Model
from catalog.model.xid import Xid
from catalog.reading.find import find_visible
from catalog.reading.loaded import Loaded
from catalog.reading.visible import EVERYTHING, Visible
from catalog.store.database import Connection
from catalog.store.subtrees import Snapshot, open_snapshot


@record
class ReadPlan:
    """A read, or the answer to a write.

    `ticket` is the cache's of the time before anything is read; without one, the answer is
    not cached.
    """

    request: web.Request
    context: Context
    configuration: Configuration
    target: RequestTarget
    flags: ReadFlags
    ticket: int | None = None

    @property
    def model(self) -> Model:
        return self.configuration.model

    @property
    def xid(self) -> Xid:
        return self.target.xid

    @property
    def follows(self) -> bool:
        """Whether cross references are shown as their targets (core/spec.md, "Doc Flag")."""
        return not self.flags.doc

    @property
    def shows_document(self) -> bool:
        """Whether the answer is a domain-specific document, with its metadata in headers."""
        return self.target.is_document and not self.flags.doc

    @property
    def is_read(self) -> bool:
        return self.request.method in (hdrs.METH_GET, hdrs.METH_HEAD)

    @property
    def may_show_documents(self) -> bool:
        """Whether the answer has a document, or documents that a resource or versions inline."""
        kind = self.target.resource_type
        has_documents = kind is not None and kind.hasdocument
        return has_documents and (self.shows_document or bool(self.flags.inline))

    def connection(
        self, *, is_one_query: bool = True
    ) -> contextlib.AbstractAsyncContextManager[Connection]:
        """A connection to read the entities on: a snapshot, if they need one state of the catalog.

        Documents are read after the entities that they belong to, and other clients may delete
        or replace both in between.

        Args:
            is_one_query: one query selects the entities.
        """
        database = self.context.database
        if self.may_show_documents or not is_one_query:
            return database.snapshot()
        return database.acquire()

    def renderer(self, loaded: Loaded, visible: Visible = EVERYTHING) -> EntityRenderer:
        return EntityRenderer(
            configuration=self.configuration,
            loaded=loaded,
            base=self.context.base_url(self.request),
            authority=self.context.database.node.authority,
            root=self.target.path if self.flags.doc else None,
            is_binary=self.flags.binary,
            visible=visible,
            has_details=not self.shows_document,
        )

    @contextlib.asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Snapshot]:
        """One state of the catalog, however long the answer takes.

        Raises:
            TooManyAtOnce: see `stream_share`.
            ServerBusy: see `stream_share`, or the request was applied, but not answered.
        """
        async with contextlib.AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(stream_share(self.request))
            except (TooManyAtOnce, ServerBusy) as refusal:
                if self.is_read:
                    raise
                detail = f"The request was applied, but is not answered: {refusal.title}"
                raise ServerBusy(self.request.path, detail=detail) from refusal
            yield await stack.enter_async_context(open_snapshot(self.context.database))

    async def visible(self, connection: Connection, page: Sequence[str] | None = None) -> Visible:
        """The entities that the filters leave over; one that was just written is among them.

        Args:
            page: of a collection, the xids of the only entities that matter.

        Raises:
            NotFound: an entity is read that the filters exclude.
            SearchTooCostly
        """
        filters = self.flags.filters
        if filters is None:
            return EVERYTHING
        # A write is done by now, however long it takes to find the part of it to show.
        bound = in_search_time(self.request) if self.is_read else contextlib.nullcontext()
        async with bound:
            visible = await find_visible(
                connection, self.xid, filters, self.target.plural, only=page
            )
        if visible.is_empty and self.target.kind != "collection" and self.is_read:
            raise NotFound(self.target.path)
        return visible

    async def send(
        self,
        snapshot: Snapshot,
        writer: SubtreeWriter,
        pieces: AsyncGenerator[bytes],
        headers: CIMultiDict[str],
        *,
        status: int = 200,
    ) -> web.StreamResponse:
        """Answer with the pieces of `writer`, unless the client has the answer of this state."""
        if not self.is_read:
            return await send(self.request, pieces, headers, status=status)
        parts = (
            snapshot.name,
            self.context.database.node.instance,
            self.configuration.revision,
            self.context.base_url(self.request),
            self.request.raw_path,
            self.request.get(WHOLE, ""),
        )
        etag = weak_tag(parts)
        if names_tag(self.request, etag):
            return not_modified(CIMultiDict(headers, **{hdrs.ETAG: etag}))
        response = await send(self.request, pieces, headers, status=status, tag=etag)
        if isinstance(response, web.Response) and response.status == status:
            self.cache(response, has_cross_references=writer.has_cross_references)
        return response

    def cache(self, response: web.Response, *, has_cross_references: bool) -> web.Response:
        """Cache a whole answer.

        One with cross references is not: a write to their targets does not invalidate it.
        """
        if self.ticket is None or has_cross_references:
            return response
        tag(response)
        answer = CachedAnswer(
            place=self.target.place,
            status=response.status,
            headers=response.headers.copy(),
            body=response.body if isinstance(response.body, bytes) else b"",
        )
        base = self.context.base_url(self.request)
        key = (base, self.request.raw_path, self.configuration.revision)
        self.request.app[ANSWERS].put(key, answer, self.ticket)
        return response
