"""Shows the last attempts to deliver to a subscription."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.responses import json_response
from catalog.model.timestamps import format_time
from catalog.store.deliveryattempts import StoredAttempt, page_attempts
from catalog.subscriptions.addressed import read_addressed
from catalog.subscriptions.numbered import LAST_NUMBER, next_page, read_numbered_page


async def list_attempts(request: web.Request) -> web.Response:
    """`GET /subscriptions/{id}/attempts`: an array, in pages, the last attempt first."""
    before, limit = read_numbered_page(request, first=LAST_NUMBER)
    async with request.app[CONTEXT].database.pool.acquire(timeout=30) as connection:
        subscription = await read_addressed(request, connection)
        found = await page_attempts(connection, subscription.id, before, limit + 1)
    shown = found[:limit]
    headers = next_page(request, limit, str(shown[-1].number)) if len(found) > limit else {}
    return json_response([_show(each) for each in shown], headers=headers)


def _show(attempt: StoredAttempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "at": format_time(attempt.at),
        "events": attempt.events,
        "outcome": attempt.outcome,
        "reason": attempt.reason,
        "milliseconds": attempt.milliseconds,
    }
