"""Says what was written since a moment, whichever process did it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("recent")
_MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentWrites:
    """That an entity was written, and how."""

    xid: str
    kind: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """What was `written` before `snapshot`; `None` stands for more than can be listed."""

    snapshot: str
    written: Sequence[RecentWrites] | None


async def read_written(connection: Connection, since: str | None) -> Recent:
    """What was committed between the snapshot `since` and now.

    A transaction that was still open then is found whatever its place in the log is.
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
