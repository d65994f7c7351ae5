"""Changes the course of a subscription's delivery: pause, resume, replay; shows its attempts.

The process that delivers goes on from the row, whose revision each of these raises.
"""

from __future__ import annotations

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.flags import page_limit
from catalog.http.route import model_response
from catalog.model.concorderrors import UnresolvedConflict
from catalog.operations.deliveries import (
    LAST_NUMBER,
    DeliveryAttempts,
    NumberQuery,
    Pause,
    Replay,
    Resumption,
)
from catalog.operations.subscriptions import State
from catalog.store.database import Connection
from catalog.store.deliveryattempts import page_attempts
from catalog.store.logpositions import find_position
from catalog.store.subscriptioncommands import try_now
from catalog.store.subscriptions import Subscription, change_state, get, move_cursor, pause_later
from catalog.subscriptions.addressed import (
    answer_write,
    lock_addressed,
    next_page,
    path_of,
    read_addressed,
)

_PAUSED = "paused on request"
_ADVICE = {
    "pending": "Wait until its sink has agreed, or replace it (PUT) with another sink.",
    "suspended": "Replace it (PUT): it is yours then, and active again.",
    "expired": "Replace it (PUT) with a later expiresAt, which makes it active again.",
    "ended": "Replace it (PUT), which makes it active again.",
}


async def pause_subscription(request: web.Request, wanted: Pause) -> web.Response:
    """Deliver nothing until the subscription is resumed; it keeps its place.

    One whose sink has yet to consent is answered 202, and is paused after the consent.
    """
    async with request.app[CONTEXT].database.transaction() as connection:
        stored = await lock_addressed(request, connection)
        _check_course(stored, also="pending")
        reason = wanted.reason or _PAUSED
        changed = await change_state(connection, stored.id, "paused", reason, of=["active"])
        changed = changed or await pause_later(connection, stored.id, reason)
        return await answer_write(connection, changed or stored)


async def resume_subscription(request: web.Request, _: Resumption) -> web.Response:
    """Deliver again from where the subscription was paused.

    One that waits after a failure tries again at once. One whose sink has yet to consent is
    answered 202, and delivers after the consent.
    """
    async with request.app[CONTEXT].database.transaction() as connection:
        stored = await lock_addressed(request, connection)
        _check_course(stored, also="pending")
        changed = await change_state(connection, stored.id, "active", of=["paused"])
        changed = changed or await pause_later(connection, stored.id, None)
        if changed is None and stored.failures:
            changed = await _tried_now(connection, stored.id)
        return await answer_write(connection, changed or stored)


async def replay_subscription(request: web.Request, wanted: Replay) -> web.Response:
    """Deliver again `from` a position, a time, or `earliest`.

    `now` leaves out what has not been delivered yet.
    """
    async with request.app[CONTEXT].database.transaction() as connection:
        stored = await lock_addressed(request, connection)
        _check_course(stored)
        position = await find_position(
            connection, wanted.start, stored.log, subject=request.path, name="from"
        )
        changed = await move_cursor(connection, stored.id, position)
        return await answer_write(connection, changed or stored)


async def list_attempts(request: web.Request, page: NumberQuery) -> web.Response:
    """List the last attempts to deliver in pages, the last one first."""
    limit = page_limit(request, page.limit)
    async with request.app[CONTEXT].database.pool.acquire(timeout=30) as connection:
        subscription = await read_addressed(request, connection)
        before = LAST_NUMBER if page.after is None else page.after
        found = await page_attempts(connection, subscription.id, before, limit + 1)
    headers = next_page(request, limit, found[limit - 1].number) if len(found) > limit else {}
    shown = DeliveryAttempts.model_validate(found[:limit], from_attributes=True)
    return model_response(shown, headers=headers)


def _check_course(stored: Subscription, *, also: State | None = None) -> None:
    """Refuse to change the course of a delivery that has none.

    Args:
        also: a state in which the command has a meaning nevertheless.

    Raises:
        UnresolvedConflict
    """
    if stored.state in _ADVICE and stored.state != also:
        fault = f"the subscription is {stored.state}, and delivers nothing"
        raise UnresolvedConflict(path_of(stored), error_detail=fault, detail=_ADVICE[stored.state])


async def _tried_now(connection: Connection, id: str) -> Subscription | None:
    await try_now(connection, id)
    return await get(connection, id)
