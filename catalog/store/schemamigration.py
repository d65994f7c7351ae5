"""Migrates a database to the newest schema: numbered SQL files, applied in order, never undone."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from importlib.resources import files

import orjson

from catalog.model.configuration import model_of
from catalog.model.errors import XRegistryError
from catalog.store.connections import Connection, DatabaseUnusable
from catalog.store.queries import Queries

_FILE_NAME = re.compile(r"(\d{4})_(\w+)\.sql")
_queries = Queries("schemamigration")


class MigrationError(DatabaseUnusable):
    """Another version of Concord has migrated the database."""


class ModelUnfit(DatabaseUnusable):
    """A catalog's model breaks a rule of this version; the text has the rule and the remedy."""


class OfAnotherVersion(DatabaseUnusable):
    """A database does not have the schema of this version; the text names the difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> bytes:
        return hashlib.sha256(self.sql.encode()).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedMigration:
    """A migration in a database; the checksum distinguishes migrations of the same number."""

    number: int
    name: str
    checksum: bytes


def migrations() -> list[Migration]:
    """Every migration of this version, in order."""
    found = [
        Migration(number=int(match[1]), name=match[2], sql=file.read_text())
        for file in (files("catalog.store") / "migrations").iterdir()
        if (match := _FILE_NAME.fullmatch(file.name))
    ]
    return sorted(found, key=lambda migration: migration.number)


async def applied_migrations(connection: Connection) -> list[AppliedMigration]:
    """The migrations that a catalog's database has, in order."""
    rows = await connection.fetch(_queries.applied)
    return [AppliedMigration(**row) for row in rows]


def can_go_on_from(applied: Iterable[AppliedMigration]) -> bool:
    """Whether this version knows every applied migration, and can therefore add its own."""
    known = {migration.number: migration.checksum for migration in migrations()}
    return all(known.get(one.number) == one.checksum for one in applied)


async def check_version(connection: Connection) -> None:
    """Return if a database has the schema of this version.

    Raises:
        OfAnotherVersion
    """
    if not await connection.fetchval(_queries.is_there):
        raise OfAnotherVersion("it has no catalog yet")
    applied = await applied_migrations(connection)
    if not can_go_on_from(applied):
        raise OfAnotherVersion(
            "another version of Concord has migrated it, which is newer or not a release"
        )
    if missing := len(migrations()) - len(applied):
        raise OfAnotherVersion(f"it is of an older version: it lacks {missing} migrations")


async def migrate(connection: Connection, *, only: Collection[int] | None = None) -> list[str]:
    """Apply the missing migrations, or `only` some, in one transaction, and return their names.

    Processes that start together wait for each other on an advisory lock. An error leaves the
    database unchanged.

    Raises:
        MigrationError: a newer version migrated the database, or an applied file has changed since.
        ModelUnfit: this version cannot serve the model.
    """
    async with connection.transaction():
        # CREATE TABLE IF NOT EXISTS can fail if two processes run it at once: the lock comes first.
        await connection.execute(_queries.lock)
        await connection.execute(_queries.create_table)
        checksums = {
            row["number"]: row["checksum"] for row in await connection.fetch(_queries.applied)
        }
        missing = []
        for migration in migrations():
            if only is not None and migration.number not in only:
                continue
            checksum = checksums.pop(migration.number, None)
            if checksum is None:
                missing.append(migration)
            elif checksum != migration.checksum:
                raise MigrationError(
                    "another version of Concord created it, with a different migration "
                    f"{migration.number:04}_{migration.name}: run that version, or use it to "
                    "export the entities and import them into an empty database"
                )
        if checksums:
            raise MigrationError("a newer version of Concord has migrated it: run that version")
        if missing and 1 not in {migration.number for migration in missing}:
            await _check_model(connection)
        for migration in missing:
            await connection.execute(migration.sql)
            await connection.execute(
                _queries.record, migration.number, migration.name, migration.checksum
            )
        return [migration.name for migration in missing]


async def _check_model(connection: Connection) -> None:
    """Refuse a model that this version would not take, such as one with a path of its own.

    Raises:
        ModelUnfit
    """
    row = await connection.fetchrow(_queries.model)
    if row is None:
        return
    resolved = row["resolved"]
    try:
        model_of(orjson.loads(row["modelsource"]), resolved and orjson.loads(resolved))
    except XRegistryError as error:
        raise ModelUnfit(
            f"this version cannot serve its model. {error} Nothing was changed: correct the model "
            "with the version in use (`concord model --help`), and upgrade again"
        ) from error
