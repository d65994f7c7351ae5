"""Reads the writes of all processes since a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("recent")
_MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentWrites:
    """A write of one entity."""

    xid: str
    kind: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """The writes before `snapshot`; `None` if there are too many to list."""

    snapshot: str
    written: Sequence[RecentWrites] | None


async def read_written(connection: Connection, since: str | None) -> Recent:
    """Read the writes that were committed between the snapshot `since` and now.

    Those of transactions that were open at `since` are included, wherever the log has them.
    """
    first = int(since.partition(":")[0]) if since is not None else 0
    rows = await connection.fetch(_queries.written, since, first, _MOST_ROWS + 1)
    is_complete = since is not None and len(rows) <= _MOST_ROWS
    written = [
        RecentWrites(xid=row["xid"], kind=row["kind"], action=row["action"])
        for row in rows
        if row["xid"] is not None
    ]
    return Recent(snapshot=rows[0]["snapshot"], written=written if is_complete else None)
