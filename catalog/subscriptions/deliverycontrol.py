"""Pauses, resumes and replays the delivery of a subscription, and shows its attempts.

The events that the sink did not take are shown, and delivered again; an example event is sent on
request. The delivering process goes on from the row of the subscription, whose revision grows with
each change.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

import orjson
import structlog
from aiohttp import web
from cloudevents.core.v1.event import CloudEvent

from catalog.context import CLIENT, CONTEXT, Context
from catalog.http.flags import next_page, page_limit
from catalog.http.route import model_response
from catalog.http.stream import SINK_TESTS
from catalog.model.caller import EVERYTHING
from catalog.model.concorderrors import UnresolvedConflict
from catalog.model.errors import NotFound
from catalog.operations import deliveries
from catalog.operations.deliveries import LAST_NUMBER
from catalog.store.changes import find_position
from catalog.store.database import Connection
from catalog.subscriptions.answers import (
    OVER,
    answer_write,
    lock_addressed,
    read_addressed,
)
from catalog.subscriptions.delivery.audience import hidden_among
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.sink import SinkAnswer, SinkRefused, Sinks, outcome_of
from catalog.subscriptions.stored import deadletters as store
from catalog.subscriptions.stored import subscriptions
from catalog.subscriptions.stored.deliveryattempts import page_attempts
from catalog.subscriptions.stored.subscriptions import Subscription
from catalog.subscriptions.stored.webhookconsents import is_missing

_MOST_CAUSES = 100
_WAITING = "Have the earlier ones of its subject delivered again, or delete them."
_REPLACE = "Replace the subscription first (PUT), which makes it active again."
_log = structlog.get_logger(__name__)

_TYPE = f"{subscriptions.SUBSCRIPTION_TYPES}test"
_CLOSING_SECONDS = 2.0
_WAIT = "Wait until it has: the status of the subscription says what its sink answered."
_ASK_AGAIN = "Replace the subscription (PUT): its sink is asked again then."
_TEXT = "An example event, sent on request: nothing has changed in the catalog."


async def list_dead_letters(request: web.Request, page: deliveries.DeadLetterQuery) -> web.Response:
    """List the dead letters in pages, without the events themselves."""
    limit = page_limit(request, page.limit)
    async with request[CONTEXT].database.acquire() as connection:
        subscription = await read_addressed(request, connection)
        found = await store.page_dead_letters(
            connection, subscription.id, page.after or 0, limit + 1, page.cause
        )
        hidden = await _hidden(request, connection, found[:limit])
    headers = {}
    if len(found) > limit:
        headers = next_page(request, limit=limit, after=found[limit - 1].number)
    seen = [each for each in found[:limit] if each.xid not in hidden]
    shown = deliveries.DeadLetterAnswers.model_validate(seen, from_attributes=True)
    return model_response(shown, headers=headers)


async def list_dead_letter_causes(request: web.Request) -> deliveries.DeadLetterCauses:
    """Count the dead letters by reason, the most frequent reason first."""
    shown = request[CONTEXT].caller.sees
    async with request[CONTEXT].database.acquire() as connection:
        subscription = await read_addressed(request, connection)
        found = await store.read_causes(
            connection, subscription.id, by_group=shown is not EVERYTHING
        )
        hidden = await hidden_among(connection, shown, [path for path, _ in found])
    merged: dict[str, deliveries.DeadLetterCause] = {}
    for path, cause in found:
        if path not in hidden:
            known = merged.get(cause.reason)
            merged[cause.reason] = cause if known is None else _together(known, cause)
    ranked = sorted(merged.values(), key=lambda each: (-_number_of(each), each.reason))
    return deliveries.DeadLetterCauses(causes=ranked[:_MOST_CAUSES])


def _together(
    one: deliveries.DeadLetterCause, other: deliveries.DeadLetterCause
) -> deliveries.DeadLetterCause:
    return deliveries.DeadLetterCause(
        reason=one.reason,
        dead=one.dead + other.dead,
        waiting=one.waiting + other.waiting,
        due=one.due + other.due,
        first=min(one.first, other.first),
        last=max(one.last, other.last),
    )


def _number_of(cause: deliveries.DeadLetterCause) -> int:
    return cause.dead + cause.waiting + cause.due


async def get_dead_letter(request: web.Request) -> deliveries.WholeDeadLetter:
    """Show a dead letter with its event."""
    async with request[CONTEXT].database.acquire() as connection:
        found = await _addressed(request, connection)
    return deliveries.WholeDeadLetter.model_validate(found, from_attributes=True)


async def redeliver_dead_letters(
    request: web.Request, wanted: deliveries.Redelivery
) -> deliveries.Redelivered:
    """Have dead letters delivered again: several, or one with the events behind it.

    Several are all, or those that failed since a time or for a reason.
    """
    async with request[CONTEXT].database.transaction() as connection:
        subscription = await lock_addressed(request, connection)
        if wanted.number is not None:
            subject = f"{subscription.path}/deadletters/{wanted.number}"
            found = await _find(request, connection, subscription.id, wanted.number, subject)
            if found.state == "waiting":
                fault = "it waits for an earlier event of its subject that was not delivered"
                raise UnresolvedConflict(subject, error_detail=fault, detail=_WAITING)
        if subscription.state in OVER:
            fault = f"the subscription is {subscription.state}, and delivers nothing any more"
            raise UnresolvedConflict(subscription.path, error_detail=fault, detail=_REPLACE)
        marked = await store.mark_due(
            connection,
            subscription.id,
            number=wanted.number,
            since=wanted.since,
            reason=wanted.cause,
        )
        if marked:
            await subscriptions.wake(connection, subscription.id)
        counts = await store.count_dead_letters(connection, [subscription.id])
    return deliveries.Redelivered(accepted=marked, deadletters=counts[subscription.id])


async def delete_dead_letter(request: web.Request) -> deliveries.WholeDeadLetter:
    """Delete a dead letter, and answer with it."""
    async with request[CONTEXT].database.transaction() as connection:
        subscription = await lock_addressed(request, connection)
        found = await _addressed(request, connection)
        if await store.remove(connection, subscription.id, [found.number]):
            await subscriptions.wake(connection, subscription.id)
    return deliveries.WholeDeadLetter.model_validate(found, from_attributes=True)


async def delete_dead_letters(
    request: web.Request, query: deliveries.CauseQuery
) -> deliveries.DeletedDeadLetters:
    """Delete all dead letters, or those of one cause, and answer with their number."""
    async with request[CONTEXT].database.transaction() as connection:
        subscription = await lock_addressed(request, connection)
        deleted, released = await store.clear_dead_letters(connection, subscription.id, query.cause)
        if released:
            await subscriptions.wake(connection, subscription.id)
    return deliveries.DeletedDeadLetters(deleted=deleted)


async def _addressed(request: web.Request, connection: Connection) -> store.DeadLetter:
    text = request.match_info["number"]
    # `int` also reads signs, spaces, underscores and digits of further scripts.
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= LAST_NUMBER):
        raise NotFound(request.path)
    return await _find(request, connection, request.match_info["id"], int(text), request.path)


async def _find(
    request: web.Request, connection: Connection, id: str, number: int, subject: str
) -> store.DeadLetter:
    found = await store.get_dead_letter(connection, id, number)
    if found is None or await _hidden(request, connection, [found]):
        raise NotFound(subject)
    return found


async def _hidden(
    request: web.Request, connection: Connection, letters: Sequence[store.DeadLetter]
) -> Collection[str | None]:
    """The entities of dead letters that the caller may not see at present."""
    sees = request[CONTEXT].caller.sees
    return await hidden_among(connection, sees, [each.xid for each in letters])


_PAUSED = "paused on request"
_ADVICE = {
    "pending": "Wait until its sink has agreed, or replace it (PUT) with another sink.",
    "suspended": "Replace it (PUT): it is yours then, and active again.",
    "expired": "Replace it (PUT) with a later expiresAt, which makes it active again.",
    "ended": "Replace it (PUT), which makes it active again.",
}


async def change_subscription(
    request: web.Request, wanted: deliveries.SubscriptionChanges
) -> web.Response:
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
            stored = await subscriptions.move_cursor(connection, stored.id, position) or stored
        changed = None
        if wanted.paused:
            id, reason = stored.id, wanted.reason or _PAUSED
            changed = await subscriptions.change_state(
                connection, id, "paused", reason, of=["active"]
            )
            changed = changed or await subscriptions.pause_later(connection, id, reason)
        elif wanted.paused is not None:
            changed = await _resume(connection, stored)
        return await answer_write(connection, changed or stored)


async def list_attempts(request: web.Request, page: deliveries.NumberQuery) -> web.Response:
    """List the last attempts to deliver in pages, the last one first."""
    limit = page_limit(request, page.limit)
    async with request[CONTEXT].database.acquire() as connection:
        subscription = await read_addressed(request, connection)
        before = LAST_NUMBER if page.after is None else page.after
        found = await page_attempts(connection, subscription.id, before, limit + 1)
    headers = {}
    if len(found) > limit:
        headers = next_page(request, limit=limit, after=found[limit - 1].number)
    shown = deliveries.DeliveryAttempts.model_validate(found[:limit], from_attributes=True)
    return model_response(shown, headers=headers)


def _check_delivery(stored: Subscription, *, is_moved: bool) -> None:
    """Raise `UnresolvedConflict` for a subscription without delivery.

    A pending subscription can be paused and resumed, but not moved.
    """
    if stored.state in _ADVICE and (is_moved or stored.state != "pending"):
        fault = f"the subscription is {stored.state}, and delivers nothing"
        raise UnresolvedConflict(stored.path, error_detail=fault, detail=_ADVICE[stored.state])


async def _resume(connection: Connection, stored: Subscription) -> Subscription | None:
    changed = await subscriptions.change_state(connection, stored.id, "active", of=["paused"])
    changed = changed or await subscriptions.pause_later(connection, stored.id, None)
    # To resume a subscription that waits after a failure is to try again at once.
    if changed is None and stored.failures:
        await subscriptions.try_now(connection, stored.id)
        return await subscriptions.get(connection, stored.id)
    return changed


async def send_example(request: web.Request) -> deliveries.ExampleAnswer:
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
    outcome, said = outcome_of(answer)
    return deliveries.ExampleAnswer(
        outcome=outcome,
        answer=said,
        milliseconds=milliseconds,
        event=orjson.loads(event.structured),
    )


async def _check_consent(connection: Connection, subscription: Subscription) -> None:
    """Raise `UnresolvedConflict` if the sink has not consented, in every state."""
    is_pending = subscription.state == "pending"
    if is_pending or await is_missing(connection, subscription.id):
        fault = "nothing is sent to a sink that has not consented"
        detail = _WAIT if is_pending else _ASK_AGAIN
        raise UnresolvedConflict(subscription.path, error_detail=fault, detail=detail)


def _example_for(subscription: Subscription, base: str) -> CloudEvent:
    attributes = {
        "id": str(uuid.uuid4()),
        "source": f"{base}{subscriptions.SUBSCRIPTION_SOURCE}",
        "type": _TYPE,
        "subject": subscription.path,
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
