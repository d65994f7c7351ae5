"""A catalog as rows of tables: the contents at the time of a backup, and the load into a database.

A backup has the rows of each table in the text form of COPY, and no statements.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from asyncpg.exceptions import PostgresError

from catalog.store.connections import Connection
from catalog.store.queries import Queries
from catalog.store.schemamigration import (
    AppliedMigration,
    OfAnotherVersion,
    applied_migrations,
    can_go_on_from,
    check_version,
    migrate,
)
from catalog.store.secrets import count_secrets
from catalog.store.servers import connected

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
class BackedUpCatalog:
    """The description of a catalog in a backup.

    `keys` maps the ids of the keys that encrypt the secrets to the numbers of secrets; an empty id
    stands for damaged secrets. `tables` has the columns of each table in the order of the rows'
    values, and `sequences` the last values of the sequences that were used.
    """

    instance: UUID
    authority: str
    at: datetime
    migrations: Sequence[AppliedMigration]
    keys: Mapping[str, int]
    contents: CatalogContents
    tables: Mapping[str, Sequence[str]]
    sequences: Mapping[str, int]


class DatabaseInTheWay(Exception):
    """A backup cannot be made of or restored into a database; the text gives the reason."""


class RowsUnusable(Exception):
    """A backup has contents other than the rows of a catalog; the text describes the fault."""


async def read_catalog(
    dsn: str,
    take: Callable[[str, bytes], None],
    *,
    begin: Callable[[BackedUpCatalog], None],
) -> BackedUpCatalog:
    """Read all rows of a catalog at one moment, while its node runs or not.

    Args:
        dsn: the database.
        take: receives the rows in parts, each with the name of the table; table by table.
        begin: receives the description of the catalog before the first part.

    Raises:
        DatabaseInTheWay: the database has no catalog.
        OfAnotherVersion: the catalog has migrations unknown to this version.
        DatabaseUnusable
    """
    async with (
        connected(dsn) as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        if not (await connection.fetchrow(_queries.relations))["is_catalog"]:
            raise DatabaseInTheWay("there is no catalog in the database")
        if not can_go_on_from(await applied_migrations(connection)):
            raise OfAnotherVersion("another version of Concord has migrated the database")
        # A snapshot does not protect against a migration that rewrites a table.
        await connection.execute(_queries.keep_tables)
        found = await _describe(connection)
        begin(found)
        for table, columns in found.tables.items():

            async def take_rows(rows: bytes, table: str = table) -> None:
                take(table, rows)

            await connection.copy_from_table(
                table, schema_name="public", columns=columns, output=take_rows
            )
    return found


async def _describe(connection: Connection) -> BackedUpCatalog:
    node = await connection.fetchrow(_queries.describe)
    counts = await connection.fetchrow(_queries.count, timeout=_LONG_SECONDS)
    return BackedUpCatalog(
        **node,
        migrations=await applied_migrations(connection),
        keys=await count_secrets(connection),
        contents=CatalogContents(**counts),
        tables=await _tables(connection),
        sequences=dict(await connection.fetch(_queries.sequences)),
    )


async def _tables(connection: Connection) -> dict[str, list[str]]:
    return dict(await connection.fetch(_queries.tables))


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


async def check_target(dsn: str, catalog: BackedUpCatalog, *, replaces: bool) -> None:
    """Refuse a database that a catalog must not be restored into.

    Raises:
        DatabaseInTheWay: the database has other tables, or the catalog of another authority, or a
            catalog that must not be replaced; or a node uses the database.
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


async def load_catalog(
    dsn: str,
    catalog: BackedUpCatalog,
    rows_of: Callable[[str], Iterable[bytes]],
    *,
    awaits_recovery: bool,
) -> None:
    """Replace the contents of a database with the rows of a backup, in one transaction.

    The migrations of the catalog create the schema, and the backup only supplies values of the
    columns that the migrations have made. The catalog gets a new instance id, so that peers compare
    the whole catalog again. With `awaits_recovery`, the catalog takes no writes until the node has
    recovered its own later entities.

    Args:
        rows_of: the rows of a table in parts.

    Raises:
        RowsUnusable: nothing was changed.
        DatabaseUnusable
    """
    async with connected(dsn) as connection, connection.transaction():
        await connection.execute(_queries.keep_nodes_out)
        await connection.execute(_queries.clear)
        await migrate(connection, only={migration.number for migration in catalog.migrations})
        if await _tables(connection) != catalog.tables:
            raise RowsUnusable("its tables are not those that the migrations of its catalog make")
        await connection.execute(_queries.set_aside)
        await connection.execute(_queries.expect, str(catalog.contents))
        try:
            for table, columns in catalog.tables.items():
                await connection.copy_to_table(
                    table, schema_name="public", columns=columns, source=_each(rows_of(table))
                )
            names, values = [*catalog.sequences], [*catalog.sequences.values()]
            await connection.execute(_queries.place_sequences, names, values)
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


async def _each(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
