"""Stores the reports of jobs that compare catalogs."""

from __future__ import annotations

import orjson

from catalog.operations.reconciliations import NewReconciliation, Reconciliation
from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("reconciliations", package=__package__)

MOST_KEPT = 50
"""Reports of each outcome."""


async def add(connection: Connection, told: NewReconciliation) -> None:
    """Keep a report, unless the report of the same run is kept already."""
    await connection.execute(
        _queries.add,
        told.run,
        told.startedat,
        told.endedat,
        told.outcome,
        told.name,
        told.catalogs,
        orjson.dumps(told.findings).decode(),
        told.unverifiable,
        told.repaired,
        told.error,
        MOST_KEPT,
        orjson.dumps(told.entities).decode(),
    )


async def read_all(connection: Connection) -> list[Reconciliation]:
    """Every kept report, latest first."""
    rows = await connection.fetch(_queries.list)
    return [
        Reconciliation(**row | {name: orjson.loads(row[name]) for name in ("findings", "entities")})
        for row in map(dict, rows)
    ]
