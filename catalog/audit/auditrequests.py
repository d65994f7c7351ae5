"""Handler of `/audit`: the authors of changes, and the refused requests."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from aiohttp import web

from catalog.audit.auditlog import AuditFilter, read_newest_first, read_oldest_first
from catalog.context import CONTEXT
from catalog.http.flags import page_limit
from catalog.http.route import Route, model_response
from catalog.model.errors import BadRequest
from catalog.operations import audit
from catalog.operations.audit import AuditEntries, AuditEntry, AuditQuery
from catalog.store.changes import Position

_END = Position.end_of(2**63 - 1)


async def read_audit(request: web.Request, query: AuditQuery) -> web.Response:
    """Read the audit in pages, the newest entries first, or with `after` the oldest first."""
    limit = page_limit(request, query.limit)
    after, before = (_position(request, name) for name in ("after", "before"))
    wanted = AuditFilter(
        since=query.since,
        until=query.until,
        identity=query.identity,
        path=query.path,
        interaction=query.interaction,
        outcome=query.outcome,
    )
    async with request[CONTEXT].database.acquire() as connection:
        if after is None:
            found = await read_newest_first(connection, wanted, before or _END, limit + 1)
        else:
            found = await read_oldest_first(connection, wanted, after, limit + 1)
    entries = [AuditEntry.model_validate(entry.shown) for entry in found[:limit]]
    headers = {}
    if len(found) > limit:
        name = "before" if after is None else "after"
        headers["Link"] = _next_page(request, limit, name, entries[-1].sequence)
    return model_response(AuditEntries(audit=entries), headers=headers)


def _position(request: web.Request, name: str) -> Position | None:
    text = request.query.get(name)
    try:
        return None if text is None else Position.parse(text)
    except ValueError as error:
        fault = f'"{name}" needs to be the sequence of an entry'
        raise BadRequest(request.path, error_detail=fault) from error


def _next_page(request: web.Request, limit: int, name: str, sequence: str) -> str:
    """The link to the page after an entry, under the same conditions."""
    kept = {each: value for each, value in request.query.items() if each not in _PLACES}
    query = urlencode({**kept, "limit": limit, name: sequence})
    return f"<{request[CONTEXT].base_url(request)}/audit?{query}>;rel=next"


_PLACES = ("after", "before", "limit")

routes: Sequence[Route] = (Route(audit.READ_AUDIT, read_audit),)
