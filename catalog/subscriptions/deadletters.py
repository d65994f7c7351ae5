"""Shows the events that the sink of a subscription did not take, and has them delivered again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson
from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.responses import json_response
from catalog.model.concorderrors import UnresolvedConflict
from catalog.model.errors import NotFound
from catalog.model.timestamps import format_time
from catalog.model.visibility import visibility
from catalog.model.xid import group_path
from catalog.store.accessrules import covered_groups
from catalog.store.database import Connection
from catalog.store.deadletters import (
    DeadLetter,
    clear_dead_letters,
    count_dead_letters,
    get_dead_letter,
    mark_due,
    page_dead_letters,
    remove,
)
from catalog.store.subscriptioncommands import wake
from catalog.store.subscriptions import Subscription
from catalog.subscriptions.addressed import (
    OVER,
    lock_addressed,
    path_of,
    read_addressed,
    show_counts,
)
from catalog.subscriptions.commandbody import read_time
from catalog.subscriptions.numbered import next_page, number_in_path, read_numbered_page

_WAITING = "Have the earlier ones of its subject delivered again, or delete them."
_REPLACE = "Replace the subscription first (PUT), which makes it active again."


async def list_dead_letters(request: web.Request) -> web.Response:
    """`GET /subscriptions/{id}/deadletters`: an array, in pages, without the events themselves."""
    after, limit = read_numbered_page(request, first=0)
    async with request.app[CONTEXT].database.pool.acquire(timeout=30) as connection:
        subscription = await read_addressed(request, connection)
        found = await page_dead_letters(connection, subscription.id, after, limit + 1)
        shown = await _seen(connection, found[:limit])
    headers = next_page(request, limit, str(found[limit - 1].number)) if len(found) > limit else {}
    return json_response([_show(each) for each in shown], headers=headers)


async def get_one(request: web.Request) -> web.Response:
    """`GET /subscriptions/{id}/deadletters/{number}`: a dead letter with its event."""
    async with request.app[CONTEXT].database.pool.acquire(timeout=30) as connection:
        return json_response(_show_whole(await _addressed(request, connection)))


async def redeliver_some(request: web.Request) -> web.Response:
    """`POST /subscriptions/{id}/deadletters/redeliver`: all of them, or those `since` a time."""
    since = await read_time(request, "since")
    async with request.app[CONTEXT].database.transaction() as connection:
        subscription = await lock_addressed(request, connection)
        return await _redeliver(connection, subscription, since=since)


async def redeliver_one(request: web.Request) -> web.Response:
    """`POST /subscriptions/{id}/deadletters/{number}/redeliver`: it, and what waits behind it."""
    async with request.app[CONTEXT].database.transaction() as connection:
        subscription = await lock_addressed(request, connection)
        found = await _addressed(request, connection)
        if found.state == "waiting":
            fault = "it waits for an earlier event of its subject that was not delivered"
            raise UnresolvedConflict(request.path, error_detail=fault, detail=_WAITING)
        return await _redeliver(connection, subscription, number=found.number)


async def delete_one(request: web.Request) -> web.Response:
    """`DELETE /subscriptions/{id}/deadletters/{number}`: answers with the dead letter."""
    async with request.app[CONTEXT].database.transaction() as connection:
        subscription = await lock_addressed(request, connection)
        found = await _addressed(request, connection)
        if await remove(connection, subscription.id, [found.number]):
            await wake(connection, subscription.id)
    return json_response(_show_whole(found))


async def delete_all(request: web.Request) -> web.Response:
    """`DELETE /subscriptions/{id}/deadletters`: all of them; answers with their number."""
    async with request.app[CONTEXT].database.transaction() as connection:
        subscription = await lock_addressed(request, connection)
        deleted = await clear_dead_letters(connection, subscription.id)
    return json_response({"deleted": deleted})


async def _addressed(request: web.Request, connection: Connection) -> DeadLetter:
    found = await get_dead_letter(connection, request.match_info["id"], number_in_path(request))
    if found is None or not await _seen(connection, [found]):
        raise NotFound(request.path)
    return found


async def _seen(connection: Connection, letters: Sequence[DeadLetter]) -> Sequence[DeadLetter]:
    """Those about what the caller may see now."""
    shown = visibility.get()
    if shown is None:
        return letters
    groups = {each.xid: group_path(each.xid) for each in letters if each.xid not in (None, "/")}
    covered = await covered_groups(connection, shown.rules, {*groups.values()})
    return [each for each in letters if each.xid not in groups or groups[each.xid] in covered]


async def _redeliver(
    connection: Connection,
    subscription: Subscription,
    *,
    number: int | None = None,
    since: datetime | None = None,
) -> web.Response:
    """Have dead letters delivered again; answer with how many, and how many there are then."""
    if subscription.state in OVER:
        fault = f"the subscription is {subscription.state}, and delivers nothing any more"
        raise UnresolvedConflict(path_of(subscription), error_detail=fault, detail=_REPLACE)
    marked = await mark_due(connection, subscription.id, number=number, since=since)
    if marked:
        await wake(connection, subscription.id)
    counts = await count_dead_letters(connection, [subscription.id])
    shown = {"accepted": marked, "deadletters": show_counts(counts[subscription.id])}
    return json_response(shown, status=202)


def _show(found: DeadLetter) -> dict[str, Any]:
    return {
        "number": found.number,
        "eventid": found.eventid,
        "subject": found.subject,
        "at": format_time(found.at),
        "attempts": found.attempts,
        "reason": found.reason,
        "state": found.state,
    }


def _show_whole(found: DeadLetter) -> dict[str, Any]:
    return _show(found) | {"event": orjson.Fragment(found.event)}
