"""Finds cross references by what they refer to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from catalog.model.entity import Entity
from catalog.store.database import Connection
from catalog.store.entities import entity_from
from catalog.store.queries import Queries

_queries = Queries("xrefs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A cross reference: its xid, that of the resource it refers to, and its own group."""

    xid: str
    target: str
    group: Entity


async def load_sources(connection: Connection, targets: Iterable[str]) -> list[Source]:
    """All cross references to any of these resources."""
    rows = await connection.fetch(_queries.sources, list(targets))
    return [Source(xid=row["source"], target=row["target"], group=entity_from(row)) for row in rows]
