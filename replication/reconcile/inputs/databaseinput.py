"""The PostgreSQL database of a node as an input of a comparison."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Thread
from typing import TypeVar
from urllib.parse import urlsplit

import pyarrow as pa

from catalog.store import links as stored_links
from catalog.store import schemaids
from catalog.store.changes import read_head
from catalog.store.connections import Connection, DatabaseUnusable
from catalog.store.monitoring import read_node
from catalog.store.servers import export_snapshot, reading
from replication.links.linkanswers import link_answer
from replication.reconcile.catalogs import ReportedLink, SurveyedCatalog
from replication.reconcile.digestrows import BucketRange, parse_rows
from replication.reconcile.errors import CatalogUnread
from replication.store import digests, reconciliations
from replication.store.loghistory import read_cursor

T = TypeVar("T")

_LINKS_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseInput:
    """The database of a node that may be stopped. All rows show the database at one moment.

    The database may be a standby, and the role may be read-only. The role needs SELECT on the
    tables `entities`, `tombstones`, `documents`, `node`, `links`, `changes`, `incarnations` and
    `reconciliations`.

    Args:
        dsn: the URL of the database, with its secrets.
        snapshot: the snapshot that all readers share, as PostgreSQL names it; "" for the present.
    """

    name: str
    dsn: str = field(repr=False)
    snapshot: str = ""

    @property
    def url(self) -> str:
        parts = urlsplit(self.dsn)
        host = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{host}{parts.path}"

    @contextmanager
    def opened(self, work: Path, progress: Callable[[str], None]) -> Iterator[DatabaseInput]:
        """The input with a snapshot; a connection in a thread keeps the snapshot alive."""
        exported: Future[str] = Future()
        is_over = Event()

        # PostgreSQL keeps an exported snapshot only while the transaction that has exported it is
        # open, and Spark's workers open their own connections later.
        async def export(connection: Connection) -> None:
            exported.set_result(await export_snapshot(connection))
            await asyncio.to_thread(is_over.wait)

        def keep() -> None:
            try:
                self._call(export)
            except CatalogUnread as fault:
                if not exported.done():
                    exported.set_exception(fault)

        thread = Thread(target=keep, name=f"snapshot of {self.name}", daemon=True)
        thread.start()
        try:
            yield replace(self, snapshot=exported.result())
        finally:
            is_over.set()
            thread.join()

    def survey(self) -> SurveyedCatalog:
        return self._call(self._survey)

    async def _survey(self, connection: Connection) -> SurveyedCatalog:
        node = await read_node(connection)
        if node is None:
            raise self._unread("it holds no catalog")
        head = await read_head(connection)
        buckets = await digests.read_buckets(connection)
        links, after = [], ""
        while page := await stored_links.page(connection, after, _LINKS_AT_ONCE):
            links += page
            after = page[-1].id
        return SurveyedCatalog(
            input=self,
            authority=node["authority"],
            instance=str(node["instance"]),
            links=tuple(ReportedLink.of(link_answer(link), node["authority"]) for link in links),
            fingerprints={each.number: (each.count, each.fingerprint) for each in buckets},
            as_of=str(await read_cursor(connection, node["instance"], head.now)),
            told=await reconciliations.read_all(connection),
            schemaids=await schemaids.find_conflicts(connection),
        )

    def read(self, buckets: BucketRange, *, verify: bool, is_signed: bool) -> list[pa.RecordBatch]:
        body = self._call(
            lambda connection: _rows(connection, buckets, verify=verify, is_signed=is_signed)
        )
        return parse_rows(body, buckets, catalog=self.name, is_signed=is_signed)

    def again(self) -> DatabaseInput:
        return replace(self, snapshot="")

    def _call(self, ask: Callable[[Connection], Awaitable[T]]) -> T:
        """The answer of `ask`, from a transaction that reads the snapshot."""

        async def connect() -> T:
            async with reading(self.dsn, self.snapshot) as connection:
                return await ask(connection)

        try:
            return asyncio.run(connect())
        except DatabaseUnusable as error:
            raise self._unread(str(error)) from error

    def _unread(self, reason: str) -> CatalogUnread:
        return CatalogUnread(
            f"Catalog {self.name} could not be read in {self.url}: {reason.rstrip('.')}.",
            "Check the URL of the database, and that its role may read the tables of the node.",
            self.name,
        )


async def _rows(
    connection: Connection, buckets: BucketRange, *, verify: bool, is_signed: bool
) -> bytes:
    """The rows as CSV, with a header."""
    text = io.BytesIO()
    text.write(",".join(digests.SIGNED_COLUMNS if is_signed else digests.COLUMNS).encode() + b"\n")
    if verify:
        async for line in digests.compute_rows(connection, *buckets, is_signed=is_signed):
            text.write(line)
        return text.getvalue()

    async def write(piece: bytes) -> None:
        text.write(piece)

    await digests.copy_rows(connection, *buckets, write, is_signed=is_signed)
    return text.getvalue()
