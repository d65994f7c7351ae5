"""Tells what a subscription would be sent, and which subscriptions would be sent a change."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from aiohttp import web

from catalog.access.creatorrights import CreatorRights
from catalog.access.rolerules import known_rules
from catalog.context import CONTEXT, Context
from catalog.http.stream import in_search_time
from catalog.model.change import Change
from catalog.model.entity import Entity
from catalog.model.errors import BadRequest, NotFound
from catalog.model.xid import Xid
from catalog.operations.subscriptions import TriedSubscription
from catalog.store.changes import LoggedChange, Position, position_before
from catalog.store.database import Connection
from catalog.store.entities import load
from catalog.subscriptions.answers import OVER
from catalog.subscriptions.delivery.audience import Audience, hidden_among
from catalog.subscriptions.delivery.eventdialects import ChangeLogReader, change_log_for
from catalog.subscriptions.delivery.filters import Predicate, compile_filters
from catalog.subscriptions.delivery.logtail import LogEntry
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.stored.subscriptions import (
    Subscription,
    SubscriptionDefinition,
    log_of,
    page,
)

_MOST_CHANGES = 1000
_MOST_SHOWN = 20
# After so many changes, other requests get a turn; a costly filter examines fewer changes.
_AT_ONCE = 16
_SECONDS = 2.0
_MOST_CANDIDATES = 200
_BEGIN = Position(0, 0)
_ADVICE = "Ask for fewer subscriptions at once (`limit`)."


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
    log, is_wanted = _wanted_by(context, definition)
    async with context.database.snapshot() as connection:
        begin = await position_before(connection, _MOST_CHANGES)
        entries = await log.read(connection, begin, _MOST_CHANGES)
        xids = [entry.xid for entry in entries]
        hidden = await hidden_among(connection, context.caller.sees, xids)
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


async def page_about(
    request: web.Request, about: str, after: str, limit: int, *, createdby: str | None
) -> list[Subscription]:
    """Read up to `limit` subscriptions, after an id, to changes of the entity `about`.

    Subscriptions that are over, and those whose creators may not see the entity, are left out.

    Args:
        createdby: the principal of an owner, to read only the subscriptions of that owner.

    Raises:
        BadRequest: `about` is no xid.
        NotFound: the caller sees no such entity.
        SearchTooCostly
    """
    context = request[CONTEXT]
    rights = CreatorRights(context.settings, known_rules(context.database.shared))
    found = list[Subscription]()
    async with in_search_time(request, _ADVICE):
        changes = await _changes_of(request, about)
        while True:
            async with context.database.acquire() as connection:
                candidates = await page(connection, after, _MOST_CANDIDATES, createdby=createdby)
                wanted = [
                    (each, entries)
                    for each in candidates
                    if (entries := await _wanted(context, connection, each, changes))
                ]
            for each, entries in wanted:
                audience = Audience(each, rights=rights, database=context.database)
                if any(entry.events for entry in await audience.told(entries)):
                    found.append(each)
                    if len(found) == limit:
                        return found
            if len(candidates) < _MOST_CANDIDATES:
                return found
            after = candidates[-1].id


async def _changes_of(request: web.Request, about: str) -> list[LoggedChange]:
    """A change of each kind that an entity, and the default version of a resource, may have."""
    try:
        xid = Xid.parse(about)
    except ValueError as error:
        fault = '"about" needs to be an xid, as /schemagroups/g/schemas/s'
        raise BadRequest(request.path, error_detail=fault) from error
    async with request[CONTEXT].database.acquire() as connection:
        entity = (await load(connection, [str(xid)])).get(str(xid))
        if entity is None:
            raise NotFound(str(xid))
        version = xid.version(str(entity.attributes.get("defaultversionid", "")))
        below = await load(connection, [str(version)]) if entity.kind == "resource" else {}
    return [each for found in (entity, *below.values()) for each in _changes(found)]


def _changes(entity: Entity) -> list[LoggedChange]:
    created = Change(
        xid=entity.xid,
        kind=entity.kind,
        action="created",
        authority=entity.authority,
        origin=entity.origin,
        epoch=entity.epoch,
        digest=entity.digest,
    )
    deprecated = replace(created, action="updated", deprecation=("effective",))
    changes = [created, deprecated, replace(created, action="deleted")]
    return [
        LoggedChange(position=_BEGIN, interaction="example", at=entity.modifiedat, change=each)
        for each in changes
    ]


async def _wanted(
    context: Context,
    connection: Connection,
    subscription: Subscription,
    changes: Sequence[LoggedChange],
) -> list[LogEntry]:
    """The changes with an event that a subscription asks for."""
    definition = subscription.definition
    if subscription.state in OVER or log_of(definition) != "changes":
        return []
    # Other requests get a turn.
    await asyncio.sleep(0)
    log, is_wanted = _wanted_by(context, definition)
    entries = await log.entries(connection, changes)
    return [each for each in entries if any(is_wanted(event.texts) for event in each.events)]


def _wanted_by(
    context: Context, definition: SubscriptionDefinition
) -> tuple[ChangeLogReader, Predicate]:
    """The reader of the log for a subscription, and the test of its filters."""
    wanted = compile_filters(definition.filters, types=definition.types, source=definition.source)
    return change_log_for(definition, context.shared), wanted
