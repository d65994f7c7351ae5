"""Handlers for the reports of jobs that compare catalogs."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.route import Route
from catalog.operations.reconciliations import (
    LIST_RECONCILIATIONS,
    TELL_RECONCILIATION,
    NewReconciliation,
    Reconciliations,
)
from replication.store import reconciliations


async def list_reconciliations(request: web.Request) -> Reconciliations:
    """List the latest reports of each outcome."""
    async with request[CONTEXT].database.acquire() as connection:
        return Reconciliations(reconciliations=await reconciliations.read_all(connection))


async def post_reconciliation(request: web.Request, told: NewReconciliation) -> None:
    """Store the report of a comparison; a repeated report is kept once."""
    async with request[CONTEXT].database.transaction() as connection:
        await reconciliations.add(connection, told)


routes: Sequence[Route] = (
    Route(LIST_RECONCILIATIONS, list_reconciliations),
    Route(TELL_RECONCILIATION, post_reconciliation),
)
