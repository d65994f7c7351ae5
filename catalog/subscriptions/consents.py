"""The consent of a sink: the resulting state of a subscription, and the call of the sink.

Source: http-webhook.md 4.1.3.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from aiohttp import web

from catalog.audit.audittrail import author_of
from catalog.context import CONTEXT
from catalog.http.clientconnections import client_address, source_of
from catalog.load.limiter import Rate, rate_in_a_minute
from catalog.model.concorderrors import TooManyAttempts
from catalog.model.errors import BadRequest, NotFound
from catalog.model.sinkterms import SinkConsent, origin_of
from catalog.operations.deliveries import ConsentQuery
from catalog.operations.subscriptions import State
from catalog.settings import Settings
from catalog.store.database import Connection
from catalog.subscriptions.delivery.sinkvalidation import (
    UnreadableRate,
    needs_consent,
    parse_allowed_rate,
    request_origin,
)
from catalog.subscriptions.stored import sinkconsents
from catalog.subscriptions.stored.subscriptions import SubscriptionDefinition

_THANKS = "Events will be sent to this sink.\n"
_HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


async def first_state(
    connection: Connection, settings: Settings, id: str, definition: SubscriptionDefinition
) -> tuple[State, str | None]:
    """The state and the reason of a subscription that the caller writes in the same transaction.

    The subscription is pending while its sink has yet to consent. A consent holds for the origin of
    the sink: a change of the path needs no further consent.
    """
    if not needs_consent(definition, settings):
        await sinkconsents.forget(connection, id)
        return "active", None
    now = datetime.now(UTC)
    until = now + timedelta(hours=settings.consent_hours)
    if await sinkconsents.seek(connection, id, origin_of(definition.sink), now=now, until=until):
        return "pending", sinkconsents.AWAITS_CONSENT
    return "active", None


CALLBACK_RATE: web.AppKey[Rate] = web.AppKey("callback_rate", Rate)


def callback_rate() -> Rate:
    """The rate of callbacks of each address, with right and wrong keys alike."""
    return rate_in_a_minute(600)


async def take_consent(request: web.Request, query: ConsentQuery) -> web.Response:
    """Take the consent of a sink that calls back.

    The answer is the same 404 for a wrong, used or ended key and for a missing subscription, so
    that callers without the key learn nothing.
    """
    # Counted before the key is checked, so that keys cannot be guessed at a high rate.
    quota = request.app[CALLBACK_RATE].take(source_of(client_address(request)))
    if quota.delay > 0:
        raise TooManyAttempts(request.path, seconds=math.ceil(quota.delay))
    try:
        rate = parse_allowed_rate(request.headers.get("WebHook-Allowed-Rate"))
    except UnreadableRate:
        fault = "WebHook-Allowed-Rate needs to be a positive integer or *"
        raise BadRequest(request.path, error_detail=fault) from None
    context = request[CONTEXT]
    consent = SinkConsent(at=datetime.now(UTC), origin=request_origin(context), rate=rate)
    id, secret = request.match_info["id"], query.key
    # A GET writes here; the author of reads would be the node.
    caller = replace(context.caller, make_author=partial(author_of, request))
    async with context.shared.for_caller(caller).database.transaction() as connection:
        if not await sinkconsents.grant_by_callback(connection, id, secret, consent):
            raise NotFound(request.path)
    return web.Response(text=_THANKS, headers=_HEADERS)


async def post_consent(request: web.Request, query: ConsentQuery) -> web.Response:
    """Take the consent of a sink that calls back."""
    return await take_consent(request, query)
