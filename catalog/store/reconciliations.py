"""Stores what jobs report that compared this catalog with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

import orjson

from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("reconciliations")

MOST_KEPT = 50
"""Reports of each outcome."""

Outcome = Literal["equal", "different", "failed"]
FindingName = Literal[
    "missing", "stale", "ahead", "orphaned", "diverged", "collided", "unsigned", "forged"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """One comparison of catalogs, as it was for this one.

    Args:
        run: the id of the comparison, the same at all catalogs.
        name: that of this catalog in the job.
        catalogs: the names of all that were compared.
        findings: the numbers of differences at this catalog.
        unverifiable: the origins whose authority was not compared.
        repaired: how many origins this catalog was asked to fetch again; `None` if it was not to be
            repaired.
        error: why a comparison failed.
        at: when this node was told, by its own clock.
    """

    run: UUID
    startedat: datetime
    endedat: datetime
    outcome: Outcome
    name: str
    catalogs: Sequence[str]
    findings: Mapping[FindingName, int]
    unverifiable: int = 0
    repaired: int | None = None
    error: str | None = None
    at: datetime | None = None


async def add(connection: Connection, told: Reconciliation) -> None:
    """Keep a report; one that is known stays as it is."""
    await connection.execute(
        _queries.add,
        told.run,
        told.startedat,
        told.endedat,
        told.outcome,
        told.name,
        list(told.catalogs),
        orjson.dumps(dict(told.findings)).decode(),
        told.unverifiable,
        told.repaired,
        told.error,
        MOST_KEPT,
    )


async def read_all(connection: Connection) -> list[Reconciliation]:
    """All reports that are kept, the latest first."""
    rows = await connection.fetch(_queries.list)
    return [Reconciliation(**{**row, "findings": orjson.loads(row["findings"])}) for row in rows]
