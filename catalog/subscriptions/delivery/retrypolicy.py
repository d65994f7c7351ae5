"""Decides when a delivery goes on after a failure, and when to give an event up."""

from __future__ import annotations

from datetime import timedelta

import structlog

from catalog.model.backoff import Backoff
from catalog.subscriptions.delivery.deliveryrecord import DeliveryRecord
from catalog.subscriptions.sinks.sink import SinkRefused
from catalog.subscriptions.stored.subscriptions import Subscription
from catalog.supervisor import LoopTiming

_log = structlog.get_logger(__name__)


class RetryPolicy:
    """The policy of one subscription, which notes failures in the record of the delivery.

    Each pause is the number of seconds without sending.
    """

    def __init__(
        self,
        subscription: Subscription,
        record: DeliveryRecord,
        *,
        backoff: Backoff,
        timing: LoopTiming,
    ) -> None:
        self._id = subscription.id
        self._retry = subscription.definition.config.retry
        self._record = record
        self._backoff = backoff
        self._timing = timing

    def pause_after(self, answer: SinkRefused, *, is_next: bool = True) -> float:
        """Note a refusal; return the pause. A final refusal only concerns its event: no pause.

        Args:
            is_next: whether the refused event is next in the log.
        """
        now = self._timing.now()
        if answer.is_final:
            self._record.attempt_failed(answer.reason, now)
            return 0.0
        if not self._record.failures:
            _log.warning(
                "subscriber blocked",
                subscription=self._id,
                reason=answer.reason,
                cause=answer.cause,
            )
        if answer.is_withheld:
            self._record.waits(answer.reason, now)
        else:
            self._record.refused(answer.reason, now, is_next=is_next)
        return self._back_off(answer.retry_after)

    def pause_because(self, reason: str) -> float:
        """Note a reason to wait other than a sink's answer; return the pause."""
        self._record.waits(reason, self._timing.now())
        return self._back_off()

    def gives_up(self, answer: SinkRefused) -> bool:
        """Whether the refused next event is not tried again."""
        if answer.is_withheld:
            return False
        return answer.is_final or self._is_exhausted

    @property
    def _is_exhausted(self) -> bool:
        """Whether the event was tried as often, or for as long, as `retry` asks for."""
        retry, since = self._retry, self._record.triedsince
        if retry is None or since is None:
            return False
        if retry.attempts is not None and self._record.tried >= retry.attempts:
            return True
        if retry.seconds is None:
            return False
        return self._timing.now() - since >= timedelta(seconds=retry.seconds)

    def _back_off(self, at_least: float = 0.0) -> float:
        """Return the pause, which ends no later than the time for trying the next event."""
        now, retry, since = self._timing.now(), self._retry, self._record.triedsince
        pause = self._backoff.delay(self._record.failures, self._timing.random, at_least=at_least)
        if retry is not None and retry.seconds is not None and since is not None:
            left = retry.seconds - (now - since).total_seconds()
            pause = min(pause, left) if left > 0 else pause
        self._record.nextattemptat = now + timedelta(seconds=pause)
        return pause
