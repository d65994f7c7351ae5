"""Takes the consent of a sink that calls back (http-webhook.md 4.1.3)."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from datetime import UTC, datetime

from aiohttp import web

from catalog.access.audittrail import author_of
from catalog.context import CONTEXT
from catalog.events.sinkvalidation import request_origin
from catalog.http.clientaddress import client_address, source_of
from catalog.model.author import author
from catalog.model.concorderrors import TooManyAttempts
from catalog.model.errors import BadRequest, NotFound
from catalog.model.sinkconsent import SinkConsent
from catalog.model.tokenbucket import TokenBucket
from catalog.sinks.consent import UnreadableRate, parse_allowed_rate
from catalog.store.sinkconsents import grant_by_callback

_PER_MINUTE = 600
_MOST_CLIENTS = 4096
_THANKS = "Events will be sent to this sink.\n"
_HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


class CallbackRates:
    """Bounds the callbacks of each client, whether their keys are right or not."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def take(self, client: str, path: str, now: float) -> None:
        """Count a callback.

        Raises:
            TooManyAttempts
        """
        bucket = self._buckets.pop(client, None) or TokenBucket(_PER_MINUTE)
        self._buckets[client] = bucket
        if len(self._buckets) > _MOST_CLIENTS:
            self._buckets.popitem(last=False)
        if (delay := bucket.delay(now)) > 0:
            raise TooManyAttempts(path, seconds=math.ceil(delay))
        bucket.take(now)


CALLBACK_RATES: web.AppKey[CallbackRates] = web.AppKey("callback_rates", CallbackRates)


async def take_consent(request: web.Request) -> web.Response:
    """`GET` or `POST /subscriptions/{id}/consent?key=…`.

    A wrong key, one that was used or has ended, and a subscription that is not there are the same
    404, so that nobody learns anything who does not have the key.
    """
    context, now = request.app[CONTEXT], asyncio.get_running_loop().time()
    request.app[CALLBACK_RATES].take(source_of(client_address(request)), request.path, now)
    try:
        given = request.headers.get("WebHook-Allowed-Rate")
        rate = parse_allowed_rate(given, context.settings.sink_rate)
    except UnreadableRate:
        fault = "WebHook-Allowed-Rate needs to be a positive integer or *"
        raise BadRequest(request.path, error_detail=fault) from None
    consent = SinkConsent(at=datetime.now(UTC), origin=request_origin(context), rate=rate)
    id, secret = request.match_info["id"], request.query.get("key", "")
    # A GET writes here.
    author.set(author_of(request))
    async with context.database.transaction() as connection:
        if not await grant_by_callback(connection, id, secret, consent):
            raise NotFound(request.path)
    return web.Response(text=_THANKS, headers=_HEADERS)
