"""The plan of a read of the native API: target, flags, and the steps to the answer."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass

from aiohttp import hdrs, web
from multidict import CIMultiDict

from catalog.api.answercache import keep_answer
from catalog.api.entityjson import EntityRenderer
from catalog.api.requestflags import ReadFlags
from catalog.api.requesttarget import RequestTarget
from catalog.api.subtreejson import SubtreeWriter
from catalog.context import CONTEXT, Context
from catalog.http.conditions import names_tag, not_modified, weak_tag
from catalog.http.stream import WHOLE, in_search_time, send, stream_share
from catalog.model.concorderrors import TooManyAtOnce
from catalog.model.configuration import Configuration
from catalog.model.errors import NotFound, ServerBusy
from catalog.model.schema import Model
from catalog.model.xid import Xid
from catalog.reading.entities import Loaded
from catalog.reading.find import find_visible
from catalog.reading.visible import EVERYTHING, Visible
from catalog.store.database import Connection
from catalog.store.subtrees import Snapshot, open_snapshot


@dataclass(slots=True)
class ReadPlan:
    """A read, or the answer to a write.

    `ticket` is taken from the cache before the first read; an answer without a ticket is not
    cached.
    """

    request: web.Request
    configuration: Configuration
    target: RequestTarget
    flags: ReadFlags
    ticket: int | None = None

    @property
    def context(self) -> Context:
        return self.request[CONTEXT]

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
        """Whether the answer is a domain-specific document with metadata in headers."""
        return self.target.is_document and not self.flags.doc

    @property
    def is_read(self) -> bool:
        return self.request.method in (hdrs.METH_GET, hdrs.METH_HEAD)

    @property
    def may_show_documents(self) -> bool:
        """Whether the answer may have a document or inlined documents."""
        kind = self.target.resource_type
        has_documents = kind is not None and kind.hasdocument
        return has_documents and (self.shows_document or bool(self.flags.inline))

    def connection(
        self, *, is_one_query: bool = True
    ) -> contextlib.AbstractAsyncContextManager[Connection]:
        """A connection for reading the entities: a snapshot if one state of the catalog is needed.

        Documents are read after their entities, and a concurrent write may delete or replace both
        in between.

        Args:
            is_one_query: whether a single query selects the entities.
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
        """A snapshot of the catalog for the whole time of the answer.

        Raises:
            TooManyAtOnce: see `stream_share`.
            ServerBusy: see `stream_share`, or a write was applied, but cannot be answered.
        """
        async with contextlib.AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(stream_share(self.request))
            except (TooManyAtOnce, ServerBusy) as refusal:
                if self.is_read:
                    raise
                detail = f"The request was applied, but is not answered: {refusal.title}"
                raise ServerBusy(self.request.path, detail=detail) from refusal
            # Outside of the `try`, so that refusals from the body of the context pass unchanged.
            yield await stack.enter_async_context(open_snapshot(self.context.database))

    async def visible(self, connection: Connection, page: Sequence[str] | None = None) -> Visible:
        """The entities that match the filters; a write shows its target even if excluded.

        Args:
            page: the xids of the members of a collection to which the search is restricted.

        Raises:
            NotFound: the filters exclude the entity that the request reads.
            SearchTooCostly
        """
        filters = self.flags.filters
        if filters is None:
            return EVERYTHING
        # A write is committed already, so its answer must not fail because a search takes long.
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
        """Answer with the pieces of `writer`, or with 304 if the client has the current answer."""
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
        """Cache a whole answer, unless the answer has cross references.

        A write to the target of a cross reference does not invalidate the answer.
        """
        if self.ticket is None or has_cross_references:
            return response
        keep_answer(self.request, response, self.target.place, self.ticket)
        return response
