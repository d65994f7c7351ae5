"""The consent of the sinks of web hooks before the first delivery: asked for, taken and awaited.

Source: http-webhook.md 4.
"""

from __future__ import annotations

import asyncio
import math
import re
import secrets
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from urllib.parse import urlsplit

import aiohttp
import structlog
from aiohttp import web

from catalog.audit.audittrail import author_of
from catalog.context import CONTEXT, Context
from catalog.http.clientconnections import client_address, source_of
from catalog.http.tokenendpoint import why_unanswered
from catalog.load.limiter import Rate, rate_in_a_minute
from catalog.model.concorderrors import TooManyAttempts
from catalog.model.errors import BadRequest, NotFound, ServerBusy
from catalog.model.masking import described
from catalog.model.sinkterms import SinkConsent, origin_of
from catalog.operations.deliveries import ConsentQuery
from catalog.operations.subscriptions import State
from catalog.settings.settings import Settings
from catalog.settings.settingtypes import is_loopback
from catalog.store.database import Connection, wait_for
from catalog.subscriptions.stored import webhookconsents
from catalog.subscriptions.stored.subscriptions import SubscriptionDefinition
from catalog.subscriptions.stored.webhookconsents import DueConsent
from catalog.supervisor import LoopTiming, backoff_from

# The protocols whose sinks have to consent.
_WEB_HOOKS = frozenset({"HTTP", "HTTPS"})
# The requests in a minute that a sink is asked to allow: a hundred in a second.
WANTED_RATE = 6000

_log = structlog.get_logger(__name__)

_RATE = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_ANY = "*"
_MOST_AT_ONCE = 32
_MOST_OF_ORIGIN = 4
_SECRET_BYTES = 32
_LONGEST_WAIT_SECONDS = 5.0
# A sink that is slow to consent is not asked every few minutes.
_CAP_SECONDS = 3600.0
_THANKS = "Events will be sent to this sink.\n"
_HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


class UnreadableRate(ValueError):
    """A rate that is neither a positive integer nor a star."""


class ConsentMissing(Exception):
    """The answer of the sink gives no consent; the sink may still consent by the callback.

    `reason` and `cause` are as in `SinkRefused`.
    """

    def __init__(self, reason: str, cause: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.cause = cause


def needs_consent(definition: SubscriptionDefinition, settings: Settings) -> bool:
    """Whether events may be sent to a sink only after the sink has consented."""
    host = urlsplit(definition.sink).hostname
    is_hook = settings.validate_sinks and definition.protocol in _WEB_HOOKS
    return is_hook and host is not None and not is_loopback(host)


async def first_state(
    connection: Connection, settings: Settings, id: str, definition: SubscriptionDefinition
) -> tuple[State, str | None]:
    """The state and the reason of a subscription that the caller writes in the same transaction.

    The subscription is pending while its sink has yet to consent. A consent holds for the origin of
    the sink: a change of the path needs no further consent.
    """
    if not needs_consent(definition, settings):
        await webhookconsents.forget(connection, id)
        return "active", None
    now = datetime.now(UTC)
    until = now + timedelta(hours=settings.consent_hours)
    if await webhookconsents.seek(connection, id, origin_of(definition.sink), now=now, until=until):
        return "pending", webhookconsents.AWAITS_CONSENT
    return "active", None


def parse_allowed_rate(value: str | None) -> int | None:
    """The most requests in a minute that a sink allows; `None` for no limit.

    A sink that names no rate allows `WANTED_RATE`. Raises `UnreadableRate`.
    """
    if value is None:
        return WANTED_RATE
    text = value.strip()
    if text == _ANY:
        return None
    if not _RATE.fullmatch(text):
        raise UnreadableRate
    return int(text)


async def ask_for_consent(
    session: aiohttp.ClientSession, sink: str, *, origin: str, callback: str
) -> int | None:
    """Send one validation request; return the rate that the sink allows, as `parse_allowed_rate`.

    The request carries neither the credential nor the headers of the subscription: a sink that has
    not consented receives no secrets. Only the headers of the answer are read.

    Args:
        origin: the host name of the node.
        callback: a URL of this node at which the sink may consent later.

    Raises:
        ConsentMissing
    """
    headers = {
        "WebHook-Request-Origin": origin,
        "WebHook-Request-Callback": callback,
        "WebHook-Request-Rate": str(WANTED_RATE),
    }
    try:
        # A redirect would ask a host that is not the sink.
        async with session.options(sink, headers=headers, allow_redirects=False) as response:
            # The body is not read: a sink could send a body without end.
            response.close()
            return _allowed_rate(response, origin)
    except (aiohttp.ClientError, OSError) as error:
        reason = f"the sink {why_unanswered(error, 'OPTIONS')}"
        raise ConsentMissing(reason, described(error)) from error


def _allowed_rate(response: aiohttp.ClientResponse, origin: str) -> int | None:
    """The rate that an answer allows, or `ConsentMissing`; the status says nothing (4.2)."""
    origins = {each.strip() for each in response.headers.getall("WebHook-Allowed-Origin", [])}
    if not origins:
        raise ConsentMissing(
            f"waits for the sink's consent: it answered OPTIONS with {response.status}, "
            "and without WebHook-Allowed-Origin"
        )
    if len(origins) > 1 or origins.pop().lower() not in (_ANY, origin.lower()):
        raise ConsentMissing(
            f"the sink refused: its WebHook-Allowed-Origin is neither {origin} nor *"
        )
    rates = {each.strip() for each in response.headers.getall("WebHook-Allowed-Rate", [])}
    try:
        if len(rates) > 1:
            raise UnreadableRate
        return parse_allowed_rate(next(iter(rates), None))
    except UnreadableRate:
        raise ConsentMissing(
            "waits for the sink's consent: its WebHook-Allowed-Rate is neither a positive "
            "integer nor *"
        ) from None


class SinkValidation:
    """Seeks missing consents, with a bound on concurrent requests.

    Sinks that were never asked come first, and each origin has no more than a few requests, so that
    unresponsive sinks do not hold back further sinks. The schedule is in the database: after a
    restart, or in place of a failed process, a process goes on from the schedule.

    Args:
        session: a guarded session, as `open_session` returns.
    """

    def __init__(
        self, context: Context, session: aiohttp.ClientSession, timing: LoopTiming
    ) -> None:
        self._context = context
        self._session = session
        self._timing = timing
        usual = backoff_from(context.settings)
        self._backoff = replace(usual, cap=max(_CAP_SECONDS, usual.cap))
        self._is_due = asyncio.Event()
        self._busy: Counter[str] = Counter()

    def wake(self) -> None:
        """Look soon for sinks that are to be asked."""
        self._is_due.set()

    async def run(self) -> None:
        """Ask for ever; return at once if consents are no longer needed."""
        if not self._context.settings.validate_sinks:
            async with self._context.database.transaction() as connection:
                await webhookconsents.release(connection)
            return
        async with asyncio.TaskGroup() as group:
            while True:
                self._is_due.clear()
                try:
                    for due in await self.claim_once():
                        group.create_task(self._ask(due))
                    await wait_for(self._is_due, await self._pause())
                except (ServerBusy, TimeoutError):
                    await self._context.database.recovered()

    async def claim_once(self) -> list[DueConsent]:
        """Claim the due sinks, as many as may be asked at the same time."""
        free = _MOST_AT_ONCE - self._busy.total()
        if free <= 0:
            return []
        now = self._timing.now()
        # An attempt takes no longer than one request, and a few statements.
        until = now + timedelta(seconds=2 * self._context.settings.delivery_timeout_seconds + 30)
        async with self._context.database.transaction() as connection:
            found = await webhookconsents.claim(
                connection,
                now=now,
                until=until,
                most=free,
                busy=[*+self._busy],
                most_of_origin=_MOST_OF_ORIGIN,
            )
        self._busy.update(due.sinkorigin for due in found)
        return [*found]

    async def _pause(self) -> float:
        if self._busy.total() >= _MOST_AT_ONCE:
            return _LONGEST_WAIT_SECONDS
        async with self._context.database.acquire() as connection:
            at = await webhookconsents.next_at(connection)
        seconds = 0.0 if at is None else (at - self._timing.now()).total_seconds()
        # Due but unclaimed sinks wait for a busy origin.
        return min(_LONGEST_WAIT_SECONDS, seconds) if seconds > 0 else _LONGEST_WAIT_SECONDS

    async def _ask(self, due: DueConsent) -> None:
        try:
            await self.ask_once(due)
        except (ServerBusy, TimeoutError):
            # The sink is due again when the claim ends.
            await self._context.database.recovered()
        except Exception:
            _log.exception("a sink could not be asked for its consent", subscription=due.id)
        finally:
            self._busy[due.sinkorigin] -= 1
            self.wake()

    async def ask_once(self, due: DueConsent) -> None:
        """Ask one sink, and store the outcome."""
        context, secret = self._context, secrets.token_urlsafe(_SECRET_BYTES)
        # Stored before the request: the sink may call back before answering.
        async with context.database.transaction() as connection:
            if not await webhookconsents.offer(connection, due, secret):
                return
        origin = request_origin(context)
        callback = f"{context.public_base}/subscriptions/{due.id}/consent?key={secret}"
        try:
            rate = await ask_for_consent(self._session, due.sink, origin=origin, callback=callback)
        except ConsentMissing as missing:
            await self._note_missing(due, missing)
            return
        consent = SinkConsent(at=self._timing.now(), origin=origin, rate=rate)
        async with context.database.transaction() as connection:
            if await webhookconsents.grant(connection, due, consent):
                _log.info("sink consented", subscription=due.id, rate=rate)

    async def _note_missing(self, due: DueConsent, missing: ConsentMissing) -> None:
        """Ask a sink again later; after the last time, end the subscription."""
        now, reason = self._timing.now(), missing.reason
        if due.attempts == 1:
            _log.info(
                "sink has not consented", subscription=due.id, reason=reason, cause=missing.cause
            )
        again = now + timedelta(seconds=self._backoff.delay(due.attempts, self._timing.random))
        async with self._context.database.transaction() as connection:
            if now < due.endsat:
                # A callback may still come until the end.
                await webhookconsents.postpone(connection, due, reason, min(again, due.endsat))
            else:
                hours = self._context.settings.consent_hours
                ended = f"there was no consent of the sink in {hours:g} hours: {reason}"
                await webhookconsents.give_up(connection, due, ended)


def request_origin(context: Context) -> str:
    """The host name by which sinks know this node (http-webhook.md 4.1.2)."""
    return urlsplit(context.public_base).hostname or "localhost"


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
        if not await webhookconsents.grant_by_callback(connection, id, secret, consent):
            raise NotFound(request.path)
    return web.Response(text=_THANKS, headers=_HEADERS)


async def post_consent(request: web.Request, query: ConsentQuery) -> web.Response:
    """Take the consent of a sink that calls back."""
    return await take_consent(request, query)
