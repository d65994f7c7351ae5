"""Asks the sinks of pending subscriptions for their consent, and asks again later."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from datetime import timedelta
from urllib.parse import urlsplit

import aiohttp
import structlog

from catalog.context import Context
from catalog.model.backoff import Backoff
from catalog.model.errors import ServerBusy
from catalog.model.sinkterms import SinkConsent
from catalog.store.database import wait_for
from catalog.subscriptions.sinks.consent import (
    WANTED_RATE,
    ConsentGiven,
    ConsentMissing,
    ConsentRequest,
    ask_for_consent,
)
from catalog.subscriptions.stored.sinkconsents import (
    DueConsent,
    claim,
    give_up,
    grant,
    next_at,
    offer,
    postpone,
    release,
)
from catalog.supervisor import LoopTiming

_log = structlog.get_logger(__name__)

_MOST_AT_ONCE = 32
_MOST_OF_ORIGIN = 4
_SECRET_BYTES = 32
_LONGEST_WAIT_SECONDS = 5.0
# A sink that is slow to consent is not asked every few minutes.
_CAP_SECONDS = 3600.0


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
        self._backoff = Backoff(
            initial=context.settings.backoff_initial_seconds,
            factor=2.0,
            cap=max(_CAP_SECONDS, context.settings.backoff_cap_seconds),
            jitter=0.5,
        )
        self._is_due = asyncio.Event()
        self._busy: Counter[str] = Counter()

    def wake(self) -> None:
        """Look soon for sinks that are to be asked."""
        self._is_due.set()

    async def run(self) -> None:
        """Ask for ever; return at once if consents are no longer needed."""
        if not self._context.settings.validate_sinks:
            async with self._context.database.transaction() as connection:
                await release(connection)
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
            found = await claim(
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
            at = await next_at(connection)
        if at is None:
            return _LONGEST_WAIT_SECONDS
        # Due but unclaimed sinks wait for a busy origin.
        seconds = (at - self._timing.now()).total_seconds()
        return _LONGEST_WAIT_SECONDS if seconds <= 0 else min(_LONGEST_WAIT_SECONDS, seconds)

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
            if not await offer(connection, due, secret):
                return
        origin = request_origin(context)
        answer = await ask_for_consent(
            self._session,
            ConsentRequest(
                sink=due.sink,
                origin=origin,
                callback=f"{context.public_base}/subscriptions/{due.id}/consent?key={secret}",
                rate=WANTED_RATE,
            ),
        )
        now = self._timing.now()
        async with context.database.transaction() as connection:
            if isinstance(answer, ConsentGiven):
                consent = SinkConsent(at=now, origin=origin, rate=answer.rate)
                if await grant(connection, due, consent):
                    _log.info("sink consented", subscription=due.id, rate=answer.rate)
                return
            if due.attempts == 1:
                _log.info(
                    "sink has not consented",
                    subscription=due.id,
                    reason=answer.reason,
                    cause=answer.cause,
                )
            again = now + timedelta(seconds=self._backoff.delay(due.attempts, self._timing.random))
            if again < due.endsat:
                await postpone(connection, due, answer.reason, again)
            elif now < due.endsat:
                # A callback may still come until the end.
                await postpone(connection, due, answer.reason, due.endsat)
            else:
                await give_up(connection, due, _ended(answer, context.settings.consent_hours))


def _ended(answer: ConsentMissing, hours: float) -> str:
    return f"there was no consent of the sink in {hours:g} hours: {answer.reason}"


def request_origin(context: Context) -> str:
    """The host name by which sinks know this node (http-webhook.md 4.1.2)."""
    return urlsplit(context.public_base).hostname or "localhost"
