"""Reads the audit, and drops the oldest rows, by age and by the number of each caller."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from catalog.config import Settings
from catalog.context import Context
from catalog.model.errors import ServerBusy
from catalog.model.timestamps import format_time
from catalog.store.changes import ChangesDropped, Position
from catalog.store.clockpoints import aged
from catalog.store.database import Connection, Database
from catalog.store.leadership import take_over
from catalog.store.queries import Queries

_PAUSE_SECONDS = 60.0
_SHORT_PAUSE_SECONDS = 0.1
# Large, since each batch beyond the bound counts the rows of every caller again.
_BATCH = 10_000
# Refused clients can cause rows at will, so a separate bound keeps them from displacing the rows
# about writes.
MOST_REFUSED = 100_000


async def run_audit_retention(context: Context) -> None:
    """Drop surplus rows for ever, in one process of the node at a time."""
    while True:
        try:
            dropped = await drop_once(context.database, context.settings)
        except (ServerBusy, TimeoutError):
            await context.database.recovered()
        else:
            await asyncio.sleep(_SHORT_PAUSE_SECONDS if dropped >= _BATCH else _PAUSE_SECONDS)


async def drop_once(
    database: Database, settings: Settings, *, most_refused: int = MOST_REFUSED
) -> int:
    """Drop a batch, unless a concurrent process does so; return the number of dropped rows."""
    async with (
        database.acquire() as connection,
        take_over(connection, "audit retention") as is_alone,
    ):
        if not is_alone:
            return 0
        before = (await aged(connection, timedelta(days=settings.audit_days))).at
        most = settings.audit_entries
        return await drop_oldest_of_audit(connection, before, most, most_refused, limit=_BATCH)


AUDIT_TYPES = "concord.audit."
"""The prefix of the types of events about rows of the audit."""
AUDIT_SOURCE = "/audit"
"""The end of the source of events about the audit, after the URL of the node."""

_queries = Queries("auditlog")
_OPTIONAL = ("address", "agent", "method", "path")
_OF_DONE = ("interaction", "changed")
_OF_REFUSED = ("status", "reason", "attempts")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """The conditions that rows have to meet; a member `None` is no condition.

    Args:
        identity: a name, a kind, or both as `KIND:NAME`.
        path: the beginning of the path of the request or of a target.
    """

    since: datetime | None = None
    until: datetime | None = None
    identity: str | None = None
    path: str | None = None
    interaction: str | None = None
    outcome: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """A row of the audit: the position, and the members in the form for clients."""

    position: Position
    at: datetime
    outcome: str
    path: str
    shown: Mapping[str, Any]


async def read_newest_first(
    connection: Connection, wanted: AuditFilter, before: Position, limit: int
) -> list[AuditRow]:
    """Up to `limit` rows before a position, newest first."""
    rows = await connection.fetch(
        _queries.before, before.txid, before.seq, *_columns(wanted, limit)
    )
    return [_entry(row) for row in rows]


async def read_oldest_first(
    connection: Connection, wanted: AuditFilter, after: Position, limit: int
) -> list[AuditRow]:
    """Up to `limit` rows after a position, in the order of the log.

    The query returns a row only when no earlier row can appear later, so the position of the last
    row is a cursor that skips no row.
    """
    rows = await connection.fetch(_queries.after, after.txid, after.seq, *_columns(wanted, limit))
    return [_entry(row) for row in rows]


async def read_audit_log(connection: Connection, after: Position, limit: int) -> list[AuditRow]:
    """Up to `limit` rows after a position, in the order of the log, without conditions.

    Raises:
        ChangesDropped: rows after the position were dropped.
    """
    row = await connection.fetchrow(_queries.dropped)
    begin = Position(row["txid"], row["seq"])
    if after < begin:
        raise ChangesDropped(begin)
    return await read_oldest_first(connection, AuditFilter(), after, limit)


async def drop_oldest_of_audit(
    connection: Connection, before: datetime, most: int, most_refused: int, *, limit: int
) -> int:
    """Delete the oldest rows by age and by number; return the number of deleted rows.

    Deletes up to `limit` rows from before a time, up to `limit` rows about writes beyond `most`,
    and up to `limit` rows about refusals beyond `most_refused`. A caller with fewer rows than an
    equal share of a bound loses no rows to callers with more rows.
    """
    rows = await connection.fetch(_queries.old, before, limit)
    for outcome, bound in (("done", most), ("refused", most_refused)):
        if await connection.fetchval(_queries.has_more, outcome, bound):
            rows += await connection.fetch(_queries.surplus, outcome, bound, limit)
    if not rows:
        return 0
    txids, seqs = [row["txid"] for row in rows], [row["seq"] for row in rows]
    return int(await connection.fetchval(_queries.drop, txids, seqs))


def _columns(wanted: AuditFilter, limit: int) -> tuple[Any, ...]:
    return (
        *(wanted.since, wanted.until, wanted.identity, wanted.path),
        *(wanted.interaction, wanted.outcome, limit),
    )


def _entry(row: Mapping[str, Any]) -> AuditRow:
    position = Position(row["txid"], row["seq"])
    identity = {name: row[name] for name in ("kind", "name", "issuer") if row[name]}
    shown: dict[str, Any] = {
        "sequence": str(position),
        "time": format_time(row["at"]),
        "outcome": row["outcome"],
        "identity": identity,
        **{name: row[name] for name in _OPTIONAL if row[name]},
    }
    if row["outcome"] == "refused":
        shown |= {name: row[name] for name in _OF_REFUSED}
    else:
        shown |= {name: row[name] for name in _OF_DONE if row[name] is not None}
        shown["targets"] = _targets(row["targets"], row["actions"])
    return AuditRow(
        position=position, at=row["at"], outcome=row["outcome"], path=row["path"], shown=shown
    )


def _targets(targets: list[str], actions: list[str] | None) -> list[dict[str, str]]:
    if actions is None:
        return [{"path": target} for target in targets]
    pairs = zip(targets, actions, strict=True)
    return [{"path": target, "action": action} for target, action in pairs]
