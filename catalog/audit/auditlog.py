"""Reads the audit, for `/audit` and for events, and drops the oldest rows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from catalog.access.identity import identity_of
from catalog.context import CONTEXT, Context
from catalog.http.flags import page_limit
from catalog.http.route import Route, model_response
from catalog.http.stream import in_search_time
from catalog.model.caller import EVERYTHING
from catalog.model.errors import BadRequest, ServerBusy
from catalog.model.roles import Permission
from catalog.model.timestamps import format_time
from catalog.model.xid import group_path
from catalog.operations.audit import READ_AUDIT, AuditEntries, AuditEntry, AuditQuery
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
_PLACES = ("after", "before", "limit")
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
    limit = page_limit(request, query.limit)
    after, before = (_position(request, name) for name in ("after", "before"))
    scope = identity_of(request).scope_of(Permission.GRANT)
    rules = None if scope is EVERYTHING else scope.rules
    database = request[CONTEXT].database
    async with in_search_time(request, _ADVICE), database.acquire() as connection:
        if after is None:
            place = before or _END
            found = await _read(connection, place, query, limit + 1, rules=rules)
        else:
            found = await _read(connection, after, query, limit + 1, is_after=True, rules=rules)
    shown = [each.shown if rules is None else _for_owner(each.shown) for each in found[:limit]]
    entries = [AuditEntry.model_validate(each) for each in shown]
    headers = {}
    if len(found) > limit:
        # The next page is under the same conditions.
        kept = {name: value for name, value in request.query.items() if name not in _PLACES}
        name = "before" if after is None else "after"
        following = urlencode({**kept, "limit": limit, name: entries[-1].sequence})
        headers["Link"] = f"<{request[CONTEXT].base_url(request)}/audit?{following}>;rel=next"
    return model_response(AuditEntries(audit=entries), headers=headers)


def _position(request: web.Request, name: str) -> Position | None:
    text = request.query.get(name)
    try:
        return None if text is None else Position.parse(text)
    except ValueError as error:
        fault = f'"{name}" needs to be the sequence of an entry'
        raise BadRequest(request.path, error_detail=fault) from error


routes: Sequence[Route] = (Route(READ_AUDIT, read_audit),)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """A row of the audit: the position, and the members in the form for clients."""

    position: Position
    at: datetime
    outcome: str
    path: str
    shown: Mapping[str, Any]


async def read_audit_log(connection: Connection, after: Position, limit: int) -> list[AuditRow]:
    """Up to `limit` rows after a position, in the order of the log, without conditions.

    Raises:
        ChangesDropped: rows after the position were dropped.
    """
    row = await connection.fetchrow(_queries.dropped)
    begin = Position(row["txid"], row["seq"])
    if after < begin:
        raise ChangesDropped(begin)
    return await _read(connection, after, AuditQuery(), limit, is_after=True)


async def _read(
    connection: Connection,
    place: Position,
    wanted: AuditQuery,
    limit: int,
    *,
    is_after: bool = False,
    rules: Sequence[str] | None = None,
) -> list[AuditRow]:
    """Up to `limit` rows before a position, newest first, or after a position, oldest first.

    A row after a position is returned only when no earlier row can appear later, so the position
    of the last row is a cursor that skips no row.

    Args:
        rules: only rows and targets in groups that one of the rules names.
    """
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


def _for_owner(shown: Mapping[str, Any]) -> dict[str, Any]:
    """An entry for an admin of groups: the author and what happened in these groups alone."""
    groups = {group_path(target["path"]) for target in shown["targets"]}
    hidden = {"address", "agent", "changed"}
    if group_path(shown.get("path", "")) not in groups:
        hidden |= {"method", "path"}
    return {name: value for name, value in shown.items() if name not in hidden}


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
        targets = zip(row["targets"] or (), row["actions"] or (), strict=True)
        shown["targets"] = [
            {"path": target} if action is None else {"path": target, "action": action}
            for target, action in targets
        ]
    return AuditRow(
        position=position, at=row["at"], outcome=row["outcome"], path=row["path"], shown=shown
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
