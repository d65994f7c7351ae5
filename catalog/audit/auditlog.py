"""Reads the audit, for `/audit` and for events, and drops the oldest rows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from aiohttp import web

from catalog.access.identity import identity_of
from catalog.context import CONTEXT, Context
from catalog.http.flags import next_page, page_limit
from catalog.http.route import Route, model_response
from catalog.http.stream import in_search_time
from catalog.model.caller import EVERYTHING
from catalog.model.errors import BadRequest, ServerBusy
from catalog.model.roles import Permission
from catalog.model.xid import group_path
from catalog.operations.audit import READ_AUDIT, AuditEntries, AuditEntry, AuditQuery
from catalog.operations.changes import ChangeAuthor
from catalog.settings import Settings
from catalog.store.auditnotes import place_above
from catalog.store.changes import ChangesDropped, Position
from catalog.store.clockpoints import aged
from catalog.store.database import Connection, Database
from catalog.store.leadership import take_over
from catalog.store.queries import Queries

AUDIT_TYPES = "concord.audit."
"""The prefix of the types of events about rows of the audit."""
AUDIT_SOURCE = "/audit"
"""The end of the source of events about the audit, after the URL of the node."""

_queries = Queries("auditlog")
_OPTIONAL = ("address", "agent", "method", "path")
_OF_DONE = ("interaction", "changed")
_OF_REFUSED = ("status", "reason", "attempts")
_SHOWN_TARGETS = 20
_ADVICE = "Name a path, or a time (`since`, `until`)."
_END = Position.end_of(2**63 - 1)
_PAUSE_SECONDS = 60.0
_SHORT_PAUSE_SECONDS = 0.1
# Large, since each batch beyond the bound counts the rows of every caller again.
_BATCH = 10_000
# Refused clients can cause rows at will, so a separate bound keeps them from displacing the rows
# about writes.
MOST_REFUSED = 100_000


async def read_audit(request: web.Request, query: AuditQuery) -> web.Response:
    """Read the audit in pages, the newest entries first, or with `after` the oldest first."""
    limit, place = page_limit(request, query.limit), _place(request, query)
    scope = identity_of(request).scope_of(Permission.GRANT)
    rules = None if scope is EVERYTHING else scope.rules
    async with in_search_time(request, _ADVICE), request[CONTEXT].database.acquire() as connection:
        found = await _read(connection, place, query, limit + 1, rules=rules)
    entries = [each if rules is None else _for_owner(each) for each in found[:limit]]
    headers = {}
    if len(found) > limit:
        direction = "before" if query.after is None else "after"
        headers = next_page(request, limit=limit, **{direction: entries[-1].sequence})
    return model_response(AuditEntries(audit=entries), headers=headers)


def _place(request: web.Request, query: AuditQuery) -> Position:
    """The position after or before which a page begins."""
    text = query.before if query.after is None else query.after
    if text is None:
        return _END
    try:
        return Position.parse(text)
    except ValueError as error:
        fault = f'"{text[:100]}" is not the sequence of an entry'
        raise BadRequest(request.path, error_detail=fault) from error


routes: Sequence[Route] = (Route(READ_AUDIT, read_audit),)


async def read_audit_log(connection: Connection, after: Position, limit: int) -> list[AuditEntry]:
    """Up to `limit` entries after a position, in the order of the log, without conditions.

    Raises:
        ChangesDropped: entries after the position were dropped.
    """
    row = await connection.fetchrow(_queries.dropped)
    begin = Position(row["txid"], row["seq"])
    if after < begin:
        raise ChangesDropped(begin)
    return await _read(connection, after, AuditQuery(after=str(after)), limit)


async def _read(
    connection: Connection,
    place: Position,
    wanted: AuditQuery,
    limit: int,
    *,
    rules: Sequence[str] | None = None,
) -> list[AuditEntry]:
    """Up to `limit` entries before a position, newest first; with `after`, after it, oldest first.

    An entry after a position is returned only when no earlier entry can appear later, so the
    position of the last entry is a cursor that skips no entry.

    Args:
        rules: only entries and targets in groups that one of the rules names.
    """
    is_after = wanted.after is not None
    about = wanted.since, wanted.until, wanted.identity, wanted.interaction, wanted.outcome
    within = None if rules is None else list(rules)
    arguments = place.txid, place.seq, *about, within, limit
    path = (wanted.path or "").rstrip("/") or None
    place_of_path = None if path is None else place_above(path)
    if place_of_path is not None:
        statement = _queries.after_at if is_after else _queries.before_at
        places = await connection.fetch(statement, *arguments, path, place_of_path)
    else:
        statement = _queries.after if is_after else _queries.before
        places = await connection.fetch(statement, *arguments, path)
    positions = [each["txid"] for each in places], [each["seq"] for each in places]
    rows = await connection.fetch(_queries.told, *positions, path, within, _SHOWN_TARGETS)
    return [_entry(row) for row in rows]


def _for_owner(entry: AuditEntry) -> AuditEntry:
    """An entry for an admin of groups: the author and what happened in these groups alone."""
    groups = {group_path(target.path) for target in entry.targets or ()}
    hidden = ["address", "agent", "changed"]
    if group_path(entry.path or "") not in groups:
        hidden += ["method", "path"]
    return entry.model_copy(update=dict.fromkeys(hidden))


def _entry(row: Mapping[str, Any]) -> AuditEntry:
    members: dict[str, Any] = {name: row[name] or None for name in _OPTIONAL}
    if row["outcome"] == "refused":
        members |= {name: row[name] for name in _OF_REFUSED}
    else:
        targets = zip(row["targets"] or (), row["actions"] or (), strict=True)
        members |= {name: row[name] for name in _OF_DONE}
        members["targets"] = [{"path": path, "action": action} for path, action in targets]
    return AuditEntry(
        sequence=str(Position(row["txid"], row["seq"])),
        time=row["at"],
        outcome=row["outcome"],
        identity=ChangeAuthor(
            kind=row["kind"], name=row["name"] or None, issuer=row["issuer"] or None
        ),
        **members,
    )


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
    """Drop the oldest rows, unless a concurrent process does so; return the number of dropped rows.

    Drops up to a batch of rows by age, a batch of rows about writes beyond the number to keep, and
    a batch of rows about refusals beyond `most_refused`. A caller with fewer rows than an equal
    share of a bound loses no rows to callers with more rows.
    """
    async with (
        database.acquire() as connection,
        take_over(connection, "audit retention") as is_alone,
    ):
        if not is_alone:
            return 0
        before = (await aged(connection, timedelta(days=settings.audit_days))).at
        rows = await connection.fetch(_queries.old, before, _BATCH)
        for outcome, bound in (("done", settings.audit_entries), ("refused", most_refused)):
            if await connection.fetchval(_queries.has_more, outcome, bound):
                rows += await connection.fetch(_queries.surplus, outcome, bound, _BATCH)
        if not rows:
            return 0
        txids, seqs = [row["txid"] for row in rows], [row["seq"] for row in rows]
        return int(await connection.fetchval(_queries.drop, txids, seqs))
