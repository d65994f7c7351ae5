"""Changes the course of a subscription's delivery: pause, resume, replay.

The process that delivers goes on from the row, whose revision each of these raises.
"""

from __future__ import annotations

from aiohttp import web

from catalog.context import CONTEXT
from catalog.model.concorderrors import UnresolvedConflict
from catalog.model.errors import InvalidAttribute, RequiredAttributeMissing
from catalog.store.database import Connection
from catalog.store.logpositions import check_position, find_position
from catalog.store.subscriptioncommands import try_now
from catalog.store.subscriptions import (
    State,
    Subscription,
    change_state,
    get,
    move_cursor,
    pause_later,
)
from catalog.subscriptions.addressed import answer_write, lock_addressed, path_of
from catalog.subscriptions.commandbody import read_members, read_text

_PAUSED = "paused on request"
_ADVICE = {
    "pending": "Wait until its sink has agreed, or replace it (PUT) with another sink.",
    "suspended": "Replace it (PUT): it is yours then, and active again.",
    "expired": "Replace it (PUT) with a later expiresAt, which makes it active again.",
    "ended": "Replace it (PUT), which makes it active again.",
}


async def pause(request: web.Request) -> web.Response:
    """`POST /subscriptions/{id}/pause`: delivers nothing until it is resumed; keeps its place.

    The body may have a `reason`, which its status shows. One whose sink has yet to consent is
    answered 202, and is paused after the consent.
    """
    reason = await read_text(request, "reason")
    async with request.app[CONTEXT].database.transaction() as connection:
        stored = await lock_addressed(request, connection)
        _check_course(stored, also="pending")
        reason = reason or _PAUSED
        changed = await change_state(connection, stored.id, "paused", reason, of=["active"])
        changed = changed or await pause_later(connection, stored.id, reason)
        return await answer_write(connection, changed or stored)


async def resume(request: web.Request) -> web.Response:
    """`POST /subscriptions/{id}/resume`: delivers again from where it was paused.

    One that waits after a failure tries again at once. One whose sink has yet to consent is
    answered 202, and delivers after the consent.
    """
    await read_members(request, frozenset())
    async with request.app[CONTEXT].database.transaction() as connection:
        stored = await lock_addressed(request, connection)
        _check_course(stored, also="pending")
        changed = await change_state(connection, stored.id, "active", of=["paused"])
        changed = changed or await pause_later(connection, stored.id, None)
        if changed is None and stored.failures:
            changed = await _tried_now(connection, stored.id)
        return await answer_write(connection, changed or stored)


async def replay(request: web.Request) -> web.Response:
    """`POST /subscriptions/{id}/replay`: delivers again `from` a position, a time, or `earliest`.

    `now` leaves out what has not been delivered yet.
    """
    text = await read_text(request, "from")
    if text is None:
        raise RequiredAttributeMissing(request.path, list="from")
    try:
        check_position(text)
    except ValueError as error:
        raise InvalidAttribute(request.path, name="from", error_detail=str(error)) from error
    async with request.app[CONTEXT].database.transaction() as connection:
        stored = await lock_addressed(request, connection)
        _check_course(stored)
        position = await find_position(
            connection, text, stored.log, subject=request.path, name="from"
        )
        changed = await move_cursor(connection, stored.id, position)
        return await answer_write(connection, changed or stored)


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
