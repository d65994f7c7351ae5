"""Calls the sinks of subscriptions within limits of time, rate and number; records attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import structlog

from catalog.http.allowedaddresses import split_hosts
from catalog.load.limiter import Share, rate_in_a_minute
from catalog.model.errors import ServerBusy
from catalog.model.tracecontext import TRACEPARENT, TRACESTATE, TraceContext
from catalog.subscriptions.delivery.progress import ProgressWriter
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.sink import Delivered, Sink, SinkAnswer, SinkRefused, outcome_of
from catalog.subscriptions.stored.deliveryattempts import Attempt
from catalog.subscriptions.stored.subscriptions import Subscription
from catalog.supervisor import LoopTiming
from catalog.telemetry.tracing import Tracing

# Sending a request and reading its answer takes a fraction of a millisecond each. With a few
# requests at a time, clients of the same process wait a few milliseconds at most.
_SLOTS = 4
# An eighth of the default connections: a host in trouble leaves most of the connections free.
_PER_HOST = 32
_HOLD_SECONDS = 0.005
_log = structlog.get_logger(__name__)

_UNTOLD = Tracing()
# Recorded successes are at least so far apart; every failure is recorded.
_BETWEEN_SUCCESSES = timedelta(seconds=10)
_LONGEST_REASON = 500
# The slowest rate is one request in a minute.
_LONGEST_PAUSE = 60.0


class DeliverySlots:
    """Limits the requests to sinks that are in flight.

    Each request takes a connection, out of `connections` in all and `per_host` for the host.
    Unproven sinks, whose last answer was not an acceptance or which have not answered yet, take at
    most half of either limit, so that unresponsive sinks never hold back sinks that accept events.

    Only a few requests at a time are being sent or have their answers read, so that clients of the
    process wait less. A request releases its slot as soon as the sink has answered, or after a few
    milliseconds without an answer: waiting for a sink costs only a connection.

    Args:
        connections: the largest number of requests in flight.
        per_host: the largest number of requests in flight to one host.
        count: the number of slots.
        hold_seconds: the longest time in a slot.
    """

    def __init__(
        self,
        connections: int,
        *,
        per_host: int = _PER_HOST,
        count: int = _SLOTS,
        hold_seconds: float = _HOLD_SECONDS,
    ) -> None:
        self.connections = Share(connections, per_key=per_host)
        self.unproven = Share(max(1, connections // 2), per_key=max(1, per_host // 2))
        self.slots = Share(count)
        self.hold_seconds = hold_seconds

    def hold(self, host: str, *, is_proven: bool) -> _Held:
        """A context to enter when a connection to a host, by `host_of`, and a slot are free.

        A proven sink accepted the last events.
        """
        return _Held(self, host, is_proven=is_proven)


class _Held:
    """A connection and a slot; the slot may be released before the connection.

    The context is entered for each event and each sink: nested contexts of contextlib take several
    times as long.
    """

    __slots__ = ("_early", "_has_slot", "_host", "_shares", "_slots", "_taken")

    def __init__(self, slots: DeliverySlots, host: str, *, is_proven: bool) -> None:
        self._slots = slots
        self._host = host
        # The bound of unproven sinks comes first: a sink that waits for it takes no connection.
        own = () if is_proven else (slots.unproven,)
        self._shares = (*own, slots.connections)
        self._taken = 0
        self._has_slot = False

    async def __aenter__(self) -> None:
        slots = self._slots
        try:
            for share in self._shares:
                await share.take(self._host)
                self._taken += 1
            await slots.slots.take()
        except BaseException:
            self._give_connection_back()
            raise
        self._has_slot = True
        loop = asyncio.get_running_loop()
        self._early = loop.call_later(slots.hold_seconds, self._give_slot_back)

    async def __aexit__(self, *_: object) -> None:
        self._early.cancel()
        self._give_slot_back()
        self._give_connection_back()

    def _give_connection_back(self) -> None:
        for share in self._shares[: self._taken]:
            share.give_back(self._host)

    def _give_slot_back(self) -> None:
        if self._has_slot:
            self._has_slot = False
            self._slots.slots.give_back()


def host_of(url: str) -> str:
    """The host and port of a sink's URL, to which requests count: the first host of several."""
    return urlsplit(split_hosts(url)[0]).netloc.rpartition("@")[2].lower()


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
                allowed, longest_delay=_LONGEST_PAUSE, clock=lambda: timing.now().timestamp()
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
            outcome, reason = outcome_of(answers[-1])
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
        outcome, reason = outcome_of(answer)
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
