"""Reads subtrees of any size, in chunks: an entity comes right before the entities below."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass

from catalog.model.entity import Entity
from catalog.model.xid import Kind
from catalog.store.database import Connection, Database
from catalog.store.entities import read_batches
from catalog.store.queries import Queries

_queries = Queries("subtrees")
# Entities have up to 272 KiB, and a stream holds a chunk of entities.
_CHUNK = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The entities of a subtree to read, by kind and by type of resource.

    `resources` has the plural names of the types; `None` stands for all types.
    """

    kinds: Sequence[Kind]
    resources: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A connection on which every statement sees the same state, named `name`.

    In the same database, equal names mean equal states.
    """

    connection: Connection
    name: str


@contextlib.asynccontextmanager
async def open_snapshot(database: Database) -> AsyncIterator[Snapshot]:
    """Open a snapshot for a stream, planned for long reads whose first rows come at once."""
    async with database.snapshot(database.pools.streams) as connection:
        row = await connection.fetchrow(_queries.begin)
        yield Snapshot(connection=connection, name=f"{row['txid']}{row['missing']}")


def tree_key(path: str) -> str:
    """The key that orders the tree, for the path of an entity or a collection."""
    # Ids have only characters above \x01, so an entity sorts right before everything below.
    return path.lower().replace("/", "\x01")


def read_collection(connection: Connection, path: str) -> AsyncIterator[list[Entity]]:
    """Read the entities of a collection, without the entities below. Needs a transaction."""
    return read_batches(connection, _CHUNK, _queries.collection, path)


def read_range(
    connection: Connection, after: str, before: str, selection: Selection
) -> AsyncIterator[list[Entity]]:
    """Read the entities between two keys (see `tree_key`). Needs a transaction."""
    arguments = (after, before, selection.kinds, selection.resources)
    return read_batches(connection, _CHUNK, _queries.range, *arguments)


def read_parts(
    connection: Connection, alone: Sequence[str], whole: Sequence[str], selection: Selection
) -> AsyncIterator[list[Entity]]:
    """Read the entities `alone`, and the entities `whole` with everything below.

    Needs a transaction. No entity may be named twice, nor lie below an entity of `whole`.
    """
    arguments = (alone, whole, selection.kinds, selection.resources)
    return read_batches(connection, _CHUNK, _queries.parts, *arguments)


async def load_sizes(connection: Connection, xids: Iterable[str]) -> dict[str, int]:
    """The sizes in bytes of the documents of the given versions, without deleted versions."""
    rows = await connection.fetch(_queries.sizes, list(xids))
    return {row["xid"]: row["size"] for row in rows}
