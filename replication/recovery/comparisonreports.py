"""Keeps what jobs that compare catalogs report: the numbers of differences, and single findings."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode
from uuid import UUID

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.flags import page_limit
from catalog.http.route import Route, model_response
from catalog.model.errors import NotFound
from catalog.operations.reconciliations import (
    LIST_FINDINGS,
    LIST_RECONCILIATIONS,
    SHOW_FINDING,
    TELL_FINDINGS,
    TELL_RECONCILIATION,
    FindingQuery,
    FindingSides,
    FindingsQuery,
    KeptFindings,
    NewFindings,
    NewReconciliation,
    Reconciliation,
    Reconciliations,
    StoredFindings,
)
from catalog.store.database import Connection
from replication.recovery.findingsides import sides_of
from replication.store import reconciliations as store

_LONGEST_NUMBER = 9


async def list_reconciliations(request: web.Request) -> Reconciliations:
    """List the latest reports of each outcome."""
    async with request[CONTEXT].database.acquire() as connection:
        return Reconciliations(reconciliations=await store.read_all(connection))


async def post_reconciliation(request: web.Request, told: NewReconciliation) -> None:
    """Store the report of a comparison; a repeated report is kept once."""
    async with request[CONTEXT].database.transaction() as connection:
        await store.add(connection, told)


async def post_findings(request: web.Request, told: NewFindings) -> KeptFindings:
    """Store findings of a comparison that was reported; repeated findings are kept once."""
    context, run = request[CONTEXT], _run_of(request)
    room = max(0, context.settings.comparison_findings - told.first)
    kept = told.findings[:room]
    async with context.database.transaction() as connection:
        if not await store.note_compared(connection, run, told.compared):
            raise NotFound(request.path)
        await store.add_findings(connection, run, told.first, kept)
    return KeptFindings(kept=len(kept), wanted=room - len(kept))


async def list_findings(request: web.Request, query: FindingsQuery) -> web.Response:
    """List the kept findings of a comparison in pages."""
    context, limit = request[CONTEXT], page_limit(request, query.limit)
    async with context.database.snapshot() as connection:
        report = await _existing(connection, request)
        found = await store.page_of_findings(connection, report.run, query, limit + 1)
        count = await store.count_findings(connection, report.run, query)
    headers = {}
    if len(found) > limit:
        following = query.model_dump(include={"finding", "catalog", "path"}, exclude_none=True)
        page = urlencode(following | {"limit": limit, "after": found[limit - 1].number})
        headers["Link"] = f"<{context.base_url(request)}{request.path}?{page}>;rel=next"
    return model_response(StoredFindings(findings=found[:limit], count=count), headers=headers)


async def show_finding(request: web.Request, query: FindingQuery) -> FindingSides:
    """Show a finding with both sides as they are now, and the attributes that differ."""
    context, number = request[CONTEXT], request.match_info["number"]
    is_number = number.isascii() and number.isdigit() and len(number) <= _LONGEST_NUMBER
    async with context.database.acquire() as connection:
        report = await _existing(connection, request)
        finding = None
        if is_number:
            finding = await store.find_finding(connection, report.run, int(number))
    if finding is None:
        raise NotFound(request.path)
    return await sides_of(context, report, finding, asks=query.ask)


async def _existing(connection: Connection, request: web.Request) -> Reconciliation:
    """The report of the comparison that a request addresses.

    Raises:
        NotFound
    """
    report = await store.find(connection, _run_of(request))
    if report is None:
        raise NotFound(request.path)
    return report


def _run_of(request: web.Request) -> UUID:
    try:
        return UUID(request.match_info["run"])
    except ValueError:
        raise NotFound(request.path) from None


routes: Sequence[Route] = (
    Route(LIST_RECONCILIATIONS, list_reconciliations),
    Route(TELL_RECONCILIATION, post_reconciliation),
    Route(LIST_FINDINGS, list_findings),
    Route(TELL_FINDINGS, post_findings),
    Route(SHOW_FINDING, show_finding),
)
