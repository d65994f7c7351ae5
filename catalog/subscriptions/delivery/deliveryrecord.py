"""The state of one delivery in memory, with its unsaved progress, and the policy of retries."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

import structlog

from catalog.model.backoff import Backoff
from catalog.operations.subscriptions import State
from catalog.store.changes import Position
from catalog.subscriptions.delivery.logtail import LogEntry
from catalog.subscriptions.sinks.sink import SinkRefused
from catalog.subscriptions.stored.subscriptions import Progress, Subscription
from catalog.supervisor import LoopTiming

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Unsaved:
    """The counts since the last save, with the meaning of `Progress`."""

    delivered: int = 0
    deliveredat: datetime | None = None
    failed: int = 0
    failedattempts: int = 0
    failedat: datetime | None = None
    failedcause: str | None = None
    lostat: datetime | None = None


class DeliveryRecord:
    """The position and the failures of a delivery.

    `settled` is the number of events of the change after the cursor that need no more delivery; the
    remaining members are members of `Subscription`. `delivered` includes unsaved deliveries.
    """

    def __init__(self, subscription: Subscription) -> None:
        self._id = subscription.id
        self._revision = subscription.revision
        self._course = subscription.course
        self.cursor = subscription.cursor
        self.initial = subscription.initial
        self.settled = 0
        self.state: State = subscription.state
        self.reason = subscription.reason
        self.delivered = subscription.delivered
        self.failures = subscription.failures
        self.failingsince = subscription.failingsince
        self.error = subscription.error
        self.nextattemptat = subscription.nextattemptat
        self.tried = subscription.tried
        self.triedsince = subscription.triedsince
        self._unsaved = _Unsaved()
        self._is_due = False

    def continue_from(self, earlier: DeliveryRecord) -> None:
        """Take over the unsaved progress of an earlier delivery of the subscription."""
        self.delivered = max(self.delivered, earlier.delivered)
        # A command moved the cursor in between, so the earlier position no longer counts.
        if self._course != earlier._course:
            return
        self.cursor = max(self.cursor, earlier.cursor)
        if earlier.initial is None or (self.initial is not None and earlier.initial > self.initial):
            self.initial = earlier.initial

    def pass_entry(self, entry: LogEntry) -> None:
        """Move on past an entry without undelivered events."""
        self.settled = 0
        if entry.initial is None:
            self.cursor = entry.position
        else:
            self.initial = entry.initial

    def finish_initial(self) -> None:
        """Note that every initial event has been delivered."""
        self.initial = None
        self._is_due = True

    def accepted(self, count: int, now: datetime, *, is_next: bool = True) -> None:
        """Note that the sink accepted events.

        Args:
            count: the number of events.
            is_next: whether the events were next in the log, so that the following event is
                untried.
        """
        self.delivered += count
        self._unsaved.delivered += count
        self._unsaved.deliveredat = now
        self.failures, self.failingsince, self.error, self.nextattemptat = 0, None, None, None
        if is_next:
            self.tried, self.triedsince = 0, None
        self._is_due = True

    def refused(self, cause: str, now: datetime, *, is_next: bool = True) -> None:
        """Note that an attempt failed and will be repeated.

        Args:
            is_next: whether the attempt was with the next event of the log.
        """
        self.waits(cause, now)
        self.attempt_failed(cause, now)
        if is_next:
            self.tried += 1
            self.triedsince = self.triedsince or now

    def attempt_failed(self, cause: str, now: datetime) -> None:
        """Note a failed attempt for which further events of the sink need not wait."""
        self._unsaved.failedattempts += 1
        self._unsaved.failedat, self._unsaved.failedcause = now, cause
        self._is_due = True

    def waits(self, cause: str, now: datetime) -> None:
        """Note the cause of a pause in sending."""
        self.failures += 1
        self.failingsince = self.failingsince or now
        self.error = cause
        self._is_due = True

    def gave_up(self, count: int) -> None:
        """Note that events became dead letters; the following event has not been tried."""
        self._unsaved.failed += count
        self.tried, self.triedsince = 0, None
        self._is_due = True

    def lost(self, begin: Position, now: datetime) -> None:
        """Go on where the log begins; earlier changes are lost without delivery."""
        self.cursor, self.settled = begin, 0
        self._unsaved.lostat = now
        self._is_due = True

    def end(self, reason: str) -> None:
        """Note that the subscription has ended."""
        self.state, self.reason = "ended", reason
        self._is_due = True

    def take(self) -> tuple[Progress, bool]:
        """The progress since the last call, and whether to save it soon."""
        is_due, self._is_due = self._is_due, False
        unsaved, self._unsaved = self._unsaved, _Unsaved()
        progress = Progress(
            id=self._id,
            revision=self._revision,
            course=self._course,
            cursor=self.cursor,
            initial=self.initial,
            state=self.state,
            reason=self.reason,
            failures=self.failures,
            failingsince=self.failingsince,
            error=self.error,
            nextattemptat=self.nextattemptat,
            tried=self.tried,
            triedsince=self.triedsince,
            **asdict(unsaved),
        )
        return progress, is_due


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
