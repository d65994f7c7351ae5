"""The state of one delivery in memory, including unsaved progress."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from catalog.operations.subscriptions import State
from catalog.store.changes import Position
from catalog.subscriptions.delivery.logtail import LogEntry
from catalog.subscriptions.stored.deliveryprogress import Progress
from catalog.subscriptions.stored.subscriptions import Subscription


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
            delivered=unsaved.delivered,
            deliveredat=unsaved.deliveredat,
            failed=unsaved.failed,
            failedattempts=unsaved.failedattempts,
            failedat=unsaved.failedat,
            failedcause=unsaved.failedcause,
            lostat=unsaved.lostat,
        )
        return progress, is_due
