"""Handler of `/audit`: who changed what, and who was refused."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from urllib.parse import urlencode

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.deadline import bounded
from catalog.http.etag import NEVER_KEPT
from catalog.http.flags import read_page
from catalog.http.responses import json_response
from catalog.model.errors import BadRequest
from catalog.model.timestamps import parse_time
from catalog.store.auditlog import AuditFilter, read_newest_first, read_oldest_first
from catalog.store.changes import Position

_CONDITIONS = ("since", "until", "identity", "path", "interaction", "outcome")
_KNOWN = frozenset({*_CONDITIONS, "after", "before", "limit"})
OUTCOMES = ("done", "refused")
_LONGEST = 1000
_END = Position.end_of(2**63 - 1)


async def get_audit(request: web.Request) -> web.Response:
    """`GET /audit`: its entries, the newest first, in pages; for admins.

    `since`, `until`, `identity`, `path` (a prefix), `interaction` and `outcome` choose some.
    With `after`, the `sequence` of an entry, the answer has what came after it, the oldest first.
    """
    wanted = _read_filter(request)
    _, limit = read_page(request)
    after, before = (_read_position(request, name) for name in ("after", "before"))
    async with request.app[CONTEXT].database.pool.acquire(timeout=30) as connection:
        if after is None:
            found = await read_newest_first(connection, wanted, before or _END, limit + 1)
        else:
            found = await read_oldest_first(connection, wanted, after, limit + 1)
    shown = [entry.shown for entry in found[:limit]]
    headers = {"Cache-Control": NEVER_KEPT}
    if len(found) > limit:
        name = "before" if after is None else "after"
        headers["Link"] = _next_page(request, limit, name, shown[-1]["sequence"])
    return json_response({"audit": shown}, headers=headers)


def _read_filter(request: web.Request) -> AuditFilter:
    for name, value in request.query.items():
        if name not in _KNOWN:
            raise BadRequest(request.path, error_detail=f'"{name[:100]}" is no condition')
        if len(value) > _LONGEST:
            fault = f'"{name}" has more than {_LONGEST} characters'
            raise BadRequest(request.path, error_detail=fault)
    outcome = request.query.get("outcome")
    if outcome not in (None, *OUTCOMES):
        fault = f'"outcome" needs to be {" or ".join(OUTCOMES)}'
        raise BadRequest(request.path, error_detail=fault)
    return AuditFilter(
        since=_read_time(request, "since"),
        until=_read_time(request, "until"),
        identity=request.query.get("identity"),
        path=request.query.get("path"),
        interaction=request.query.get("interaction"),
        outcome=outcome,
    )


def _read_time(request: web.Request, name: str) -> datetime | None:
    text = request.query.get(name)
    try:
        return None if text is None else parse_time(text)
    except ValueError as error:
        fault = f'"{name}" needs to be an RFC 3339 timestamp, as 2030-12-19T06:00:00Z'
        raise BadRequest(request.path, error_detail=fault) from error


def _read_position(request: web.Request, name: str) -> Position | None:
    text = request.query.get(name)
    try:
        return None if text is None else Position.parse(text)
    except ValueError as error:
        fault = f'"{name}" needs to be the sequence of an entry'
        raise BadRequest(request.path, error_detail=fault) from error


def _next_page(request: web.Request, limit: int, name: str, sequence: str) -> str:
    given = {each: request.query[each] for each in _CONDITIONS if each in request.query}
    query = urlencode({**given, "limit": limit, name: sequence})
    return f"<{request.app[CONTEXT].base_url(request)}/audit?{query}>;rel=next"


routes: Sequence[web.RouteDef] = (web.get("/audit", bounded(get_audit)),)
