"""Sends an example event to a subscription's sink, and shows the sink's answer."""

from __future__ import annotations

import asyncio
import time
import uuid
from datetime import UTC, datetime

import orjson
import structlog
from aiohttp import web
from cloudevents.core.v1.event import CloudEvent

from catalog.context import CLIENT, CONTEXT, Context
from catalog.http.stream import SINK_TESTS
from catalog.model.concorderrors import UnresolvedConflict
from catalog.operations.deliveries import AttemptOutcome, ExampleAnswer
from catalog.store.database import Connection
from catalog.subscriptions.addressed import path_of, read_addressed
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.protocols import Sinks
from catalog.subscriptions.sinks.sink import Delivered, SinkAnswer, SinkGone, SinkRefused
from catalog.subscriptions.stored.sinkconsents import is_missing
from catalog.subscriptions.stored.subscriptions import (
    SUBSCRIPTION_SOURCE,
    SUBSCRIPTION_TYPES,
    Subscription,
)

_log = structlog.get_logger(__name__)

_TYPE = f"{SUBSCRIPTION_TYPES}test"
_CLOSING_SECONDS = 2.0
_WAIT = "Wait until it has: the status of the subscription says what its sink answered."
_ASK_AGAIN = "Replace the subscription (PUT): its sink is asked again then."
_TEXT = "An example event, sent on request: nothing has changed in the catalog."


async def send_example(request: web.Request) -> ExampleAnswer:
    """Send an example event now, and show the sink's answer.

    The subscription stays the same, regardless of the answer.
    """
    context = request[CONTEXT]
    async with request.app[SINK_TESTS].hold(request[CLIENT], wait_seconds=0, path=request.path):
        async with context.database.acquire() as connection:
            subscription = await read_addressed(request, connection)
            await _check_consent(connection, subscription)
        event = OutgoingEvent(_example_for(subscription, context.public_base))
        began = time.monotonic()
        answer = await _answer_to(event, subscription, context)
    milliseconds = round((time.monotonic() - began) * 1000)
    outcome, said = _told(answer)
    return ExampleAnswer(
        outcome=outcome,
        answer=said,
        milliseconds=milliseconds,
        event=orjson.loads(event.structured),
    )


async def _check_consent(connection: Connection, subscription: Subscription) -> None:
    """Refuse to send events to a sink without consent, in every state of the subscription.

    Raises:
        UnresolvedConflict
    """
    is_pending = subscription.state == "pending"
    if is_pending or await is_missing(connection, subscription.id):
        fault = "nothing is sent to a sink that has not consented"
        detail = _WAIT if is_pending else _ASK_AGAIN
        raise UnresolvedConflict(path_of(subscription), error_detail=fault, detail=detail)


def _example_for(subscription: Subscription, base: str) -> CloudEvent:
    attributes = {
        "id": str(uuid.uuid4()),
        "source": f"{base}{SUBSCRIPTION_SOURCE}",
        "type": _TYPE,
        "subject": path_of(subscription),
        "time": datetime.now(UTC),
        "datacontenttype": "application/json",
    }
    return CloudEvent(attributes, {"text": _TEXT})


async def _answer_to(
    event: OutgoingEvent, subscription: Subscription, context: Context
) -> SinkAnswer:
    """Send an event through a separate sink, within the time limit of a delivery."""
    settings = context.settings
    seconds = min(settings.delivery_timeout_seconds, settings.request_timeout_seconds / 2)
    try:
        async with (
            # Bounds the closing as well, which the sink could delay.
            asyncio.timeout(seconds + _CLOSING_SECONDS),
            Sinks(settings, context.keys) as sinks,
        ):
            sink = sinks.open(subscription)
            try:
                async with asyncio.timeout(seconds):
                    [answer] = await sink.send([event])
            finally:
                await sink.close()
    except TimeoutError:
        return SinkRefused(reason="the sink did not answer in time")
    if isinstance(answer, SinkRefused):
        _log.info(
            "example event refused",
            subscription=subscription.id,
            reason=answer.reason,
            cause=answer.cause,
        )
    return answer


def _told(answer: SinkAnswer) -> tuple[AttemptOutcome, str]:
    match answer:
        case Delivered(detail=detail):
            return "delivered", detail
        case SinkGone(reason=reason):
            return "gone", reason
        case SinkRefused(reason=reason):
            return "refused", reason
