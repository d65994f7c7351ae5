"""Handlers for the reports of jobs that compared this catalog with others."""

from __future__ import annotations

from dataclasses import asdict

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.responses import json_response
from catalog.model.timestamps import format_time
from catalog.store import reconciliations
from catalog.store.reconciliations import Reconciliation
from replication.wire import ReconciliationBody, read_request


async def list_reconciliations(request: web.Request) -> web.Response:
    """`GET /replication/reconciliations`: the latest reports of each outcome."""
    async with request.app[CONTEXT].database.pool.acquire(timeout=30) as connection:
        found = await reconciliations.read_all(connection)
    return json_response({"reconciliations": [_show(each) for each in found]})


async def post_reconciliation(request: web.Request) -> web.Response:
    """`POST /replication/reconciliations`: tells what a comparison found here.

    A report that comes twice is kept once.
    """
    body = await read_request(request, ReconciliationBody)
    async with request.app[CONTEXT].database.transaction() as connection:
        await reconciliations.add(connection, body.to_reconciliation())
    return web.Response(status=204)


def _show(told: Reconciliation) -> dict[str, object]:
    return {
        **asdict(told),
        "run": str(told.run),
        "startedat": format_time(told.startedat),
        "endedat": format_time(told.endedat),
        "at": None if told.at is None else format_time(told.at),
    }
