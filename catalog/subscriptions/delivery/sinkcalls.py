"""Calls the sink of one subscription, within limits of time and rate, and records the attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog

from catalog.load.limiter import rate_in_a_minute
from catalog.model.errors import ServerBusy
from catalog.model.tracecontext import TRACEPARENT, TRACESTATE, TraceContext
from catalog.operations.deliveries import AttemptOutcome
from catalog.subscriptions.delivery.deliveryslots import DeliverySlots, host_of
from catalog.subscriptions.delivery.progress import ProgressWriter
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.sink import Delivered, Sink, SinkAnswer, SinkGone, SinkRefused
from catalog.subscriptions.stored.deliveryattempts import Attempt
from catalog.subscriptions.stored.subscriptions import Subscription
from catalog.supervisor import LoopTiming
from catalog.telemetry.tracing import Tracing

_log = structlog.get_logger(__name__)

_UNTOLD = Tracing()
# Recorded successes are at least so far apart; every failure is recorded.
_BETWEEN_SUCCESSES = timedelta(seconds=10)
_LONGEST_REASON = 500
# The slowest rate is one request in a minute.
_LONGEST_PAUSE = 60.0


class SinkCalls:
    """Sends events to one sink; a time-out or an error counts as an answer."""

    def __init__(
        self,
        subscription: Subscription,
        sink: Sink,
        *,
        slots: DeliverySlots,
        progress: ProgressWriter,
        timing: LoopTiming,
        timeout_seconds: float,
        tracing: Tracing = _UNTOLD,
    ) -> None:
        self._tracing = tracing
        self._id = subscription.id
        consent = subscription.consent
        allowed = None if consent is None else consent.rate
        self._rate = None
        if allowed is not None:
            self._rate = rate_in_a_minute(
                allowed,
                longest_delay=_LONGEST_PAUSE,
                clock=lambda: timing.now().timestamp(),
            )
        self._host = host_of(subscription.definition.sink)
        self._sink = sink
        self._slots = slots
        self._progress = progress
        self._timing = timing
        self._timeout_seconds = timeout_seconds
        self._is_proven = subscription.deliveredat is not None and not subscription.failures
        self._success_due: datetime | None = None

    @property
    def most_events(self) -> int:
        return self._sink.most_events

    async def send(self, events: Sequence[OutgoingEvent]) -> tuple[int, SinkAnswer]:
        """Send events, or the first of the events, as far as one call of the sink goes.

        Returns:
            the number of first events that were accepted, and the last answer.
        """
        # The rate is awaited without a slot, which other sinks can use in the meantime.
        if self._rate is not None:
            await self._rate.turn(sleep=self._timing.sleep)
        async with self._slots.hold(self._host, is_proven=self._is_proven):
            at, loop = self._timing.now(), asyncio.get_running_loop()
            began = loop.time()
            answers = await self._traced_call(events)
            milliseconds = round((loop.time() - began) * 1000)
        accepted = sum(isinstance(each, Delivered) for each in answers)
        answer = answers[-1]
        self._is_proven = isinstance(answer, Delivered)
        sent = accepted if self._is_proven else len(events)
        self._note(answer, sent, at, milliseconds)
        return accepted, answer

    async def close(self) -> None:
        await self._sink.close()

    async def _traced_call(self, events: Sequence[OutgoingEvent]) -> Sequence[SinkAnswer]:
        """Call the sink in a span of each trace of the events."""
        traces = [
            trace
            for each in events
            if (parent := each.texts.get(TRACEPARENT))
            and (trace := TraceContext.parse(parent, each.texts.get(TRACESTATE)))
        ]
        if not traces:
            return await self._call(events)
        told = {"concord.subscription": self._id, "server.address": self._host}
        with self._tracing.spans_in("deliver", traces, kind="client", attributes=told) as spans:
            answers = await self._call(events)
            outcome, reason = _outcome(answers[-1])
            spans.note({"concord.outcome": outcome, "concord.reason": reason[:_LONGEST_REASON]})
            if outcome != "delivered":
                spans.error = outcome
        return answers

    async def _call(self, events: Sequence[OutgoingEvent]) -> Sequence[SinkAnswer]:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._sink.send(events)
        except TimeoutError:
            return [SinkRefused(reason="the sink did not answer in time")]
        except ServerBusy:
            raise
        # An error caused by an event counts as an attempt, or the event would be sent for ever.
        except Exception as error:
            _log.exception("sink failed unexpectedly", subscription=self._id)
            return [SinkRefused(reason=f"internal error: {type(error).__name__}")]

    def _note(self, answer: SinkAnswer, events: int, at: datetime, milliseconds: int) -> None:
        outcome, reason = _outcome(answer)
        if outcome == "delivered":
            if self._success_due is not None and at < self._success_due:
                return
            self._success_due = at + _BETWEEN_SUCCESSES
        else:
            self._success_due = None
        self._progress.attempted(
            Attempt(
                subscription=self._id,
                at=at,
                events=events,
                outcome=outcome,
                reason=reason[:_LONGEST_REASON],
                milliseconds=milliseconds,
                refusedtoken=answer.refusedtoken if isinstance(answer, SinkRefused) else None,
            )
        )


def _outcome(answer: SinkAnswer) -> tuple[AttemptOutcome, str]:
    match answer:
        case Delivered():
            return "delivered", answer.detail
        case SinkRefused():
            return "refused", answer.reason
        case SinkGone():
            return "gone", answer.reason
