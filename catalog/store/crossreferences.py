"""Reads cross references: resources that show a target resource."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from catalog.model.entity import Entity
from catalog.store.database import Connection
from catalog.store.entities import entity_from
from catalog.store.queries import Queries

_queries = Queries("crossreferences")
_BATCH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossReference:
    """A cross reference: its xid, the xid of the target, and the group of the cross reference."""

    xid: str
    target: str
    group: Entity


async def load_sources(connection: Connection, targets: Iterable[str]) -> list[CrossReference]:
    """Read the cross references to the given resources."""
    rows = await connection.fetch(_queries.sources, list(targets))
    return [
        CrossReference(xid=row["source"], target=row["target"], group=entity_from(row))
        for row in rows
    ]


async def all_references(connection: Connection) -> AsyncIterator[list[tuple[str, str]]]:
    """Read the xid of every cross reference and of its target, in batches.

    The transaction must not end meanwhile.
    """
    cursor = await connection.cursor(_queries.all_references)
    while rows := await cursor.fetch(_BATCH):
        yield [(row["xid"], row["target"]) for row in rows]
