"""Stores the reports of jobs that compare catalogs, and the single findings of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson

from catalog.operations.reconciliations import (
    ComparedCatalog,
    ComparisonFinding,
    FindingsQuery,
    NewReconciliation,
    Reconciliation,
    StoredFinding,
)
from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("reconciliations", package=__package__)

MOST_KEPT = 50
"""Reports of each outcome."""
_JSON = ("findings", "entities", "compared")


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
    return [_report_from(row) for row in await connection.fetch(_queries.list)]


async def find(connection: Connection, run: UUID) -> Reconciliation | None:
    """The report of a comparison."""
    row = await connection.fetchrow(_queries.find, run)
    return None if row is None else _report_from(row)


async def note_compared(
    connection: Connection, run: UUID, compared: Sequence[ComparedCatalog]
) -> bool:
    """Keep the catalogs of a comparison; false if there is no report of the comparison."""
    text = orjson.dumps([each.model_dump(exclude_none=True) for each in compared]).decode()
    return await connection.fetchval(_queries.note_compared, run, text) is not None


async def add_findings(
    connection: Connection, run: UUID, first: int, findings: Sequence[ComparisonFinding]
) -> None:
    """Keep findings, unless findings of the same numbers are kept already.

    Args:
        first: the number of the first finding.
    """
    await connection.execute(
        _queries.add_findings,
        run,
        first,
        [each.finding for each in findings],
        [each.catalog for each in findings],
        [each.origin for each in findings],
        [each.model_dump_json(exclude_none=True) for each in findings],
    )


async def page_of_findings(
    connection: Connection, run: UUID, query: FindingsQuery, limit: int
) -> list[StoredFinding]:
    """Findings of a comparison that meet the conditions of a query, after its place."""
    after = int(query.after) if query.after else -1
    conditions = (query.finding, query.catalog, query.path)
    rows = await connection.fetch(_queries.page_findings, run, after, *conditions, limit)
    return [_finding_from(row) for row in rows]


async def count_findings(connection: Connection, run: UUID, query: FindingsQuery) -> int:
    """The number of kept findings of a comparison that meet the conditions of a query."""
    conditions = (query.finding, query.catalog, query.path)
    return await connection.fetchval(_queries.count_findings, run, *conditions)


async def find_finding(connection: Connection, run: UUID, number: int) -> StoredFinding | None:
    """The finding of a comparison with a number."""
    row = await connection.fetchrow(_queries.find_finding, run, number)
    return None if row is None else _finding_from(row)


def _report_from(row: Mapping[str, Any]) -> Reconciliation:
    return Reconciliation(**dict(row) | {name: orjson.loads(row[name]) for name in _JSON})


def _finding_from(row: Mapping[str, Any]) -> StoredFinding:
    return StoredFinding(**orjson.loads(row["content"]), number=row["number"])
