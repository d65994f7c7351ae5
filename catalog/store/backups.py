"""A catalog as a dump: its contents at the time of the dump, and the load into a database."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from asyncpg.exceptions import PostgresError

from catalog.store.bareconnection import connected
from catalog.store.connections import Connection
from catalog.store.dumpedrows import KnownRelations, RowsUnusable, load_rows
from catalog.store.keyrotation import count_secrets
from catalog.store.postgrestools import PostgresTools
from catalog.store.queries import Queries
from catalog.store.schemamigration import (
    AppliedMigration,
    OfAnotherVersion,
    applied_migrations,
    can_go_on_from,
    check_version,
    migrate,
)

_LONG_SECONDS = 3600.0
_queries = Queries("backups")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogContents:
    """The counts of a catalog's contents, and the fingerprint of all entities."""

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
    """The catalog in a dump: its identity, contents and migrations.

    `server` is the major version of PostgreSQL. `keys` maps the ids of the keys that encrypt the
    secrets to the numbers of secrets; an empty id stands for damaged secrets.
    """

    instance: UUID
    authority: str
    server: int
    at: datetime
    migrations: tuple[AppliedMigration, ...]
    keys: Mapping[str, int]
    contents: CatalogContents


class DatabaseInTheWay(Exception):
    """A backup cannot be made of or restored into a database; the text gives the reason."""


async def dump(
    dsn: str, take: Callable[[bytes], None], *, begin: Callable[[DumpedCatalog], None]
) -> DumpedCatalog:
    """Dump the current catalog, while its node runs or not; return a description of the dump.

    Args:
        dsn: the database.
        take: receives the parts of the dump.
        begin: receives the description before the first part.

    Raises:
        DatabaseInTheWay: the database has no catalog.
        OfAnotherVersion: the catalog has migrations unknown to this version.
        DatabaseUnusable, ToolFailed
    """
    async with connected(dsn) as connection:
        relations = await connection.fetchrow(_queries.relations)
        if not relations["is_catalog"]:
            raise DatabaseInTheWay("there is no catalog in the database")
        # `pg_dump` reads the same snapshot, so the counts of the description fit the rows of the
        # dump.
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            snapshot = await connection.fetchval(_queries.export_snapshot)
            if not can_go_on_from(await applied_migrations(connection)):
                raise OfAnotherVersion("another version of Concord has migrated the database")
            found = await _describe(connection)
            begin(found)
            tools = PostgresTools.for_server(found.server)
            await tools.dump(dsn, snapshot, take)
    return found


async def note_backup(dsn: str, at: datetime) -> None:
    """Tell a node that a complete backup shows the node's catalog as of a time.

    A database at the schema of another version stays unchanged, as the schema may lack the column.

    Raises:
        DatabaseUnusable
    """
    async with connected(dsn) as connection:
        with contextlib.suppress(OfAnotherVersion):
            await check_version(connection)
            await connection.execute(_queries.note_backup, at)


async def check_target(dsn: str, catalog: DumpedCatalog, *, replaces: bool) -> None:
    """Refuse a database that a catalog must not, or cannot, be restored into.

    Raises:
        DatabaseInTheWay: the database has other tables, or the catalog of another authority, or a
            catalog that must not be replaced; or a node uses the database; or the server is older
            than the server of the backup.
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
    """Replace the contents of a database with the rows of a dump, in one transaction.

    The migrations of the catalog create the schema, so no statement of the dump is executed: the
    dump only supplies rows, and a role that may only add rows inserts them. The catalog gets a new
    instance id, so that peers compare the whole catalog again. With `awaits_recovery`, the catalog
    takes no writes until the node has recovered its own later entities.

    Raises:
        RowsUnusable, ToolFailed: nothing was changed.
        DatabaseUnusable
    """
    async with connected(dsn) as connection, connection.transaction():
        await connection.execute(_queries.keep_nodes_out)
        await connection.execute(_queries.clear)
        await migrate(connection, only={migration.number for migration in catalog.migrations})
        known = KnownRelations(
            tables=frozenset(await connection.fetchval(_queries.tables)),
            sequences=frozenset(await connection.fetchval(_queries.sequences)),
        )
        await connection.execute(_queries.set_aside)
        server = await connection.fetchval(_queries.server)
        tools = PostgresTools.for_server(server)
        async with _adding_only(connection), tools.rows_of(chunks) as script:
            await load_rows(connection, script, known)
        await connection.execute(_queries.expect, str(catalog.contents))
        try:
            await connection.execute(_queries.put_back)
            await connection.execute(_queries.verify)
        except PostgresError as error:
            raise RowsUnusable(f"its rows are not those of a whole catalog: {error}") from error
        for statement in (
            _queries.be_another,
            _queries.forget_recovery,
            _queries.await_recovery if awaits_recovery else _queries.take_writes,
        ):
            await connection.execute(statement)


@contextlib.asynccontextmanager
async def _adding_only(connection: Connection) -> AsyncIterator[None]:
    """Run a context in a role that may only add rows, if the user is a superuser."""
    if not await connection.fetchval(_queries.is_superuser):
        yield
        return
    # A failure in the context rolls back the transaction, and the role with it.
    await connection.execute(_queries.become_adder)
    yield
    await connection.execute(_queries.be_oneself)


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
