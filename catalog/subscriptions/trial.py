"""Tells what a subscription would have been sent, from the latest changes of the log."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from aiohttp import web

from catalog.context import CONTEXT
from catalog.model.caller import EVERYTHING
from catalog.model.errors import BadRequest
from catalog.model.xid import group_path
from catalog.operations.subscriptions import TriedSubscription
from catalog.store.accessrules import covered_groups
from catalog.store.changes import position_before
from catalog.store.database import Connection
from catalog.subscriptions.delivery.eventdialects import change_log_for
from catalog.subscriptions.delivery.filters import compile_filters
from catalog.subscriptions.delivery.logtail import LogEntry
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.stored.subscriptions import SubscriptionDefinition, log_of

_MOST_CHANGES = 1000
_MOST_SHOWN = 20
# After so many changes, other requests get a turn; a costly filter examines fewer changes.
_AT_ONCE = 16
_SECONDS = 2.0


async def try_definition(
    request: web.Request, definition: SubscriptionDefinition
) -> TriedSubscription:
    """The events of the latest changes that the caller's subscription would have been sent.

    Raises:
        BadRequest: the subscription is to the log of subscriptions, or to the audit.
    """
    if log_of(definition) != "changes":
        fault = "a dry run is for subscriptions to changes of the catalog"
        raise BadRequest(request.path, error_detail=fault)
    context = request[CONTEXT]
    log = change_log_for(
        definition,
        base=context.public_base,
        names=context.settings.event_names,
        dialects=context.shared.event_dialects,
    )
    async with context.database.snapshot() as connection:
        begin = await position_before(connection, _MOST_CHANGES)
        entries = await log.read(connection, begin, _MOST_CHANGES)
        hidden = await _hidden(request, connection, entries)
    is_wanted = compile_filters(
        definition.filters, types=definition.types, source=definition.source
    )
    found, examined = list[OutgoingEvent](), 0
    end = asyncio.get_running_loop().time() + _SECONDS
    for entry in reversed(entries):
        if examined % _AT_ONCE == 0:
            await asyncio.sleep(0)
            if asyncio.get_running_loop().time() > end:
                break
        examined += 1
        if entry.xid not in hidden:
            found += [each for each in reversed(entry.events) if is_wanted(each.texts)]
    return TriedSubscription(
        changes=examined,
        since=entries[-examined].at if examined else None,
        events=len(found),
        first=[each.structured for each in found[:_MOST_SHOWN]],
    )


async def _hidden(
    request: web.Request, connection: Connection, entries: Sequence[LogEntry]
) -> Collection[str | None]:
    """The entities of changes that the caller may not see."""
    shown = request[CONTEXT].caller.sees
    if shown is EVERYTHING:
        return ()
    xids = {each.xid for each in entries if each.xid not in (None, "/")}
    groups = {xid: group_path(xid) for xid in xids if xid is not None}
    covered = await covered_groups(connection, shown.rules, {*groups.values()})
    return {xid for xid, group in groups.items() if group not in covered}
