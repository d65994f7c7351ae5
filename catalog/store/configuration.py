"""Reads and writes the configuration, and reads the groups and resources of a type."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.model.entity import Entity
from catalog.store.database import Connection, Database
from catalog.store.entities import read_batches
from catalog.store.queries import Queries, from_json, to_json

CONFIGURATION_CHANNEL = "configuration"
"""Announces a new configuration in force."""
_queries = Queries("configuration")
_BATCH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredConfiguration:
    """The configuration in its stored form.

    `resolved` is the model's source with every `$include` resolved, `None` if the source has none.
    `capabilities` is `None` while every capability of the server is in force.
    """

    modelsource: Mapping[str, Any]
    resolved: Mapping[str, Any] | None
    capabilities: Mapping[str, Any] | None
    revision: int


async def read_stored(database: Database) -> StoredConfiguration:
    """Read the configuration in force."""
    async with database.acquire() as connection:
        row = await connection.fetchrow(_queries.read)
    return StoredConfiguration(
        modelsource=from_json(row["modelsource"]),
        resolved=from_json(row["resolved"]),
        capabilities=from_json(row["capabilities"]),
        revision=row["revision"],
    )


async def read_revision(connection: Connection) -> int:
    """Read the revision of the configuration in force."""
    return await connection.fetchval(_queries.read_revision)


async def save(connection: Connection, stored: StoredConfiguration) -> None:
    """Put a configuration in force; the caller has locked the whole catalog and commits."""
    await connection.execute(
        _queries.save,
        to_json(dict(stored.modelsource)),
        to_json(stored.resolved and dict(stored.resolved)),
        to_json(stored.capabilities and dict(stored.capabilities)),
        stored.revision,
    )


def groups_of_type(connection: Connection, groups: str) -> AsyncIterator[list[Entity]]:
    """Read every group of a type, in batches; the transaction must not end meanwhile."""
    return read_batches(connection, _BATCH, _queries.groups_of_type, f"/{groups}")


def resources_of_type(
    connection: Connection, groups: str, resources: str
) -> AsyncIterator[list[Entity]]:
    """Read every resource of a type, in batches; the transaction must not end meanwhile."""
    arguments = (f"/{groups}/", f"/{groups}0", resources)
    return read_batches(connection, _BATCH, _queries.resources_of_type, *arguments)


def unchecked_resources(
    connection: Connection, groups: str, resources: str, authority: str
) -> AsyncIterator[list[Entity]]:
    """Read an authority's resources of a type with at least one version that could not be checked.

    Yields batches; the transaction must not end meanwhile.
    """
    arguments = (f"/{groups}/", f"/{groups}0", resources, authority)
    return read_batches(connection, _BATCH, _queries.unchecked_resources, *arguments)
