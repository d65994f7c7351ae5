"""Reads subtrees of any size, in chunks: an entity comes right before all that is below it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass

from catalog.model.entity import Entity
from catalog.model.xid import Kind
from catalog.store.database import Connection, Database
from catalog.store.entities import entity_from
from catalog.store.queries import Queries

_queries = Queries("stream")
_CHUNK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What of a subtree to read: entities of these kinds, of these types of resources.

    `resources` has their plural names; `None` stands for all.
    """

    kinds: Sequence[Kind]
    resources: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A connection on which every statement sees the same state; `name` tells which one.

    States with the same name are the same, in one database.
    """

    connection: Connection
    name: str


@contextlib.asynccontextmanager
async def open_snapshot(database: Database) -> AsyncIterator[Snapshot]:
    """A snapshot of the catalog whose long reads begin to answer at once."""
    async with database.snapshot() as connection:
        row = await connection.fetchrow(_queries.begin)
        yield Snapshot(connection=connection, name=f"{row['txid']}{row['missing']}")


def tree_key(path: str) -> str:
    """What the tree is ordered by: `path` of an entity or a collection."""
    return path.lower().replace("/", "\x01")


async def read_collection(connection: Connection, path: str) -> AsyncIterator[list[Entity]]:
    """A collection without what is below its entities. Needs a transaction."""
    async for chunk in _chunks(connection, _queries.collection, path):
        yield chunk


async def read_range(
    connection: Connection, after: str, before: str, selection: Selection
) -> AsyncIterator[list[Entity]]:
    """What lies between two keys of the tree (see `tree_key`). Needs a transaction."""
    arguments = (after, before, selection.kinds, selection.resources)
    async for chunk in _chunks(connection, _queries.range, *arguments):
        yield chunk


async def read_parts(
    connection: Connection, alone: Sequence[str], whole: Sequence[str], selection: Selection
) -> AsyncIterator[list[Entity]]:
    """Entities `alone`, and others as a `whole` with all below. Needs a transaction.

    No entity may be named twice, nor below one that is a whole.
    """
    arguments = (alone, whole, selection.kinds, selection.resources)
    async for chunk in _chunks(connection, _queries.parts, *arguments):
        yield chunk


async def load_sizes(connection: Connection, xids: Iterable[str]) -> dict[str, int]:
    """How many bytes the documents of these versions have; those that are gone are missing."""
    rows = await connection.fetch(_queries.sizes, list(xids))
    return {row["xid"]: row["size"] for row in rows}


async def _chunks(
    connection: Connection, statement: str, *arguments: object
) -> AsyncIterator[list[Entity]]:
    cursor = await connection.cursor(statement, *arguments)
    while rows := await cursor.fetch(_CHUNK):
        yield [entity_from(row) for row in rows]
