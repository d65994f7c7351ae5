"""Pauses, resumes and replays the delivery of a subscription, and shows its attempts.

The delivering process goes on from the row, whose revision grows with each change.
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
    SubscriptionChanges,
)
from catalog.store.database import Connection
from catalog.store.logpositions import find_position
from catalog.subscriptions.addressed import (
    answer_write,
    lock_addressed,
    next_page,
    path_of,
    read_addressed,
)
from catalog.subscriptions.stored.deliveryattempts import page_attempts
from catalog.subscriptions.stored.subscriptioncommands import try_now
from catalog.subscriptions.stored.subscriptions import (
    Subscription,
    change_state,
    get,
    move_cursor,
    pause_later,
)

_PAUSED = "paused on request"
_ADVICE = {
    "pending": "Wait until its sink has agreed, or replace it (PUT) with another sink.",
    "suspended": "Replace it (PUT): it is yours then, and active again.",
    "expired": "Replace it (PUT) with a later expiresAt, which makes it active again.",
    "ended": "Replace it (PUT), which makes it active again.",
}


async def change_subscription(request: web.Request, wanted: SubscriptionChanges) -> web.Response:
    """Pause or resume the delivery of a subscription, or move its place in the log.

    The answer for a subscription whose sink has yet to consent is 202; the pause, or the delivery,
    follows the consent.
    """
    async with request[CONTEXT].database.transaction() as connection:
        stored = await lock_addressed(request, connection)
        _check_delivery(stored, is_moved=wanted.cursor is not None)
        if wanted.cursor is not None:
            position = await find_position(
                connection, wanted.cursor, stored.log, subject=request.path, name="cursor"
            )
            stored = await move_cursor(connection, stored.id, position) or stored
        changed = None
        if wanted.paused:
            changed = await _pause(connection, stored.id, wanted.reason or _PAUSED)
        elif wanted.paused is not None:
            changed = await _resume(connection, stored)
        return await answer_write(connection, changed or stored)


async def list_attempts(request: web.Request, page: NumberQuery) -> web.Response:
    """List the last attempts to deliver in pages, the last one first."""
    limit = page_limit(request, page.limit)
    async with request[CONTEXT].database.acquire() as connection:
        subscription = await read_addressed(request, connection)
        before = LAST_NUMBER if page.after is None else page.after
        found = await page_attempts(connection, subscription.id, before, limit + 1)
    headers = next_page(request, limit, found[limit - 1].number) if len(found) > limit else {}
    shown = DeliveryAttempts.model_validate(found[:limit], from_attributes=True)
    return model_response(shown, headers=headers)


def _check_delivery(stored: Subscription, *, is_moved: bool) -> None:
    """Refuse to pause, resume or replay a subscription without delivery.

    A pending subscription can be paused and resumed, but not moved.

    Raises:
        UnresolvedConflict
    """
    if stored.state in _ADVICE and (is_moved or stored.state != "pending"):
        fault = f"the subscription is {stored.state}, and delivers nothing"
        raise UnresolvedConflict(path_of(stored), error_detail=fault, detail=_ADVICE[stored.state])


async def _pause(connection: Connection, id: str, reason: str) -> Subscription | None:
    changed = await change_state(connection, id, "paused", reason, of=["active"])
    return changed or await pause_later(connection, id, reason)


async def _resume(connection: Connection, stored: Subscription) -> Subscription | None:
    changed = await change_state(connection, stored.id, "active", of=["paused"])
    changed = changed or await pause_later(connection, stored.id, None)
    # To resume a subscription that waits after a failure is to try again at once.
    if changed is None and stored.failures:
        await try_now(connection, stored.id)
        return await get(connection, stored.id)
    return changed
