"""A catalog as a dump: what it had when it was made, and how it comes into a database again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from catalog.store.bareconnection import connected
from catalog.store.connections import Connection
from catalog.store.keyrotation import count_secrets
from catalog.store.postgrestools import PostgresTools
from catalog.store.queries import Queries
from catalog.store.schemamigration import AppliedMigration, applied_migrations

_LONG_SECONDS = 3600.0
_queries = Queries("backups")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogContents:
    """The numbers of what a catalog has, and the fingerprint of all its entities."""

    entities: int
    fingerprint: int
    documents: int
    tombstones: int
    changes: int
    links: int
    subscriptions: int
    tokens: int

    def __str__(self) -> str:
        return ",".join(str(getattr(self, name)) for name in self.__slots__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedCatalog:
    """The catalog that is dumped: its identity, what it has, and what made it.

    `server` is the major version of PostgreSQL. `keys` are the ids of the keys that its secrets
    are encrypted with, with the numbers of secrets; an empty id stands for damaged ones.
    """

    instance: UUID
    authority: str
    server: int
    at: datetime
    migrations: tuple[AppliedMigration, ...]
    keys: Mapping[str, int]
    contents: CatalogContents


class DatabaseInTheWay(Exception):
    """A database is not one that a backup can be restored into; the text says why."""


async def dump(
    dsn: str, take: Callable[[bytes], None], *, begin: Callable[[DumpedCatalog], None]
) -> DumpedCatalog:
    """Dump a catalog as it is now, while its node runs or not; return what was dumped.

    Args:
        dsn: the database.
        take: is given the parts of the dump.
        begin: is told before what will be dumped.

    Raises:
        DatabaseInTheWay: there is no catalog.
        DatabaseUnusable, ToolFailed
    """
    async with connected(dsn) as connection:
        relations = await connection.fetchrow(_queries.relations)
        if not relations["is_catalog"]:
            raise DatabaseInTheWay("there is no catalog in the database")
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            snapshot = await connection.fetchval(_queries.export_snapshot)
            found = await _describe(connection)
            begin(found)
            tools = PostgresTools.for_server(found.server)
            await tools.dump(dsn, snapshot, take)
    return found


async def check_target(dsn: str, catalog: DumpedCatalog, *, replaces: bool) -> None:
    """Refuse a database that a catalog must not, or cannot, be restored into.

    Raises:
        DatabaseInTheWay: there is something else than the same catalog, or a node uses it.
        DatabaseUnusable
    """
    async with connected(dsn) as connection:
        relations = await connection.fetchrow(_queries.relations)
        if relations["number"]:
            if not relations["is_catalog"]:
                raise DatabaseInTheWay("the database has tables of something else than a catalog")
            authority = (await connection.fetchrow(_queries.describe) or {}).get("authority")
            if authority not in (None, catalog.authority):
                raise DatabaseInTheWay(f"the database has the catalog of {authority}")
            if not replaces:
                raise DatabaseInTheWay("the database has a catalog, which --replace would drop")
        if await connection.fetchval(_queries.users):
            raise DatabaseInTheWay("a node uses the database: stop all its processes")
        server = await connection.fetchval(_queries.server)
        if server < catalog.server:
            raise DatabaseInTheWay(
                f"the server is PostgreSQL {server}, and the backup is of {catalog.server}"
            )


async def load(
    dsn: str, chunks: Iterable[bytes], catalog: DumpedCatalog, *, awaits_recovery: bool
) -> None:
    """Load a dump in one transaction in place of what the database has.

    The catalog is another instance then, so that its peers compare everything with it anew. One
    that `awaits_recovery` takes no writes until it has its own later entities back.

    Raises:
        ToolFailed: nothing was changed.
    """
    ending = _queries.await_recovery if awaits_recovery else _queries.take_writes
    async with connected(dsn) as connection:
        server = await connection.fetchval(_queries.server)
    await PostgresTools.for_server(server).load(
        dsn,
        chunks,
        before=[_queries.keep_nodes_out, _queries.clear],
        after=[
            _queries.find_own_names,
            _queries.verify,
            _queries.be_another,
            _queries.forget_recovery,
            ending,
        ],
        settings={"concord.contents": str(catalog.contents)},
    )


async def _describe(connection: Connection) -> DumpedCatalog:
    row: Mapping[str, Any] = await connection.fetchrow(_queries.describe)
    counts = await connection.fetchrow(_queries.count, timeout=_LONG_SECONDS)
    return DumpedCatalog(
        instance=row["instance"],
        authority=row["authority"],
        server=row["server"],
        at=row["at"],
        migrations=tuple(await applied_migrations(connection)),
        keys=dict(await count_secrets(connection)),
        contents=CatalogContents(**counts),
    )
