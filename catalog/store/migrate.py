"""Brings a database to the newest schema: numbered files, forward only, one at a time."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files

import asyncpg

from catalog.store.queries import Queries

_FILE_NAME = re.compile(r"(\d{4})_(\w+)\.sql")
_queries = Queries("migrate")


class MigrationError(Exception):
    """The database is not one that this version of Concord can bring up to date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> bytes:
        return hashlib.sha256(self.sql.encode()).digest()


def migrations() -> list[Migration]:
    """Every migration of this version, in order."""
    found = [
        Migration(number=int(match[1]), name=match[2], sql=file.read_text())
        for file in (files("catalog.store") / "migrations").iterdir()
        if (match := _FILE_NAME.fullmatch(file.name))
    ]
    return sorted(found, key=lambda migration: migration.number)


async def migrate(connection: asyncpg.Connection) -> list[str]:
    """Apply what is not applied yet, in one transaction, and answer with the names.

    Processes that start together wait for each other on an advisory lock.

    Raises:
        MigrationError: the database was migrated by a newer version, or an applied file
            has changed since.
    """
    async with connection.transaction():
        await connection.execute(_queries.lock)
        await connection.execute(_queries.create_table)
        applied = {row["number"]: row for row in await connection.fetch(_queries.applied)}
        known = migrations()
        for migration in known:
            row = applied.pop(migration.number, None)
            if row is not None and row["checksum"] != migration.checksum:
                raise MigrationError(
                    f"migration {migration.number:04}_{migration.name} differs from the one that "
                    "was applied to this database: run the version of Concord that created it"
                )
        if applied:
            raise MigrationError(
                "this database was migrated by a newer version of Concord: run that one"
            )
        return [
            migration.name for migration in known if await _apply_missing(connection, migration)
        ]


async def _apply_missing(connection: asyncpg.Connection, migration: Migration) -> bool:
    if await connection.fetchval(_queries.is_applied, migration.number):
        return False
    await connection.execute(migration.sql)
    await connection.execute(_queries.record, migration.number, migration.name, migration.checksum)
    return True
