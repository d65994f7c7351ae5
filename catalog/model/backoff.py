"""The wait after a failure: by a policy, or as the other side asks with Retry-After."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random

MAX_RETRY_AFTER_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential, capped and jittered.

    Args:
        initial: seconds to wait after the first failure.
        factor: what each further failure multiplies the wait with, at least 1.
        cap: the longest wait, in seconds.
        jitter: the share of a wait, 0 to 1, that chance may take away, so that those who
            failed together do not come back together.
    """

    initial: float
    factor: float
    cap: float
    jitter: float

    def delay(self, failures: int, random: Random) -> float:
        """Seconds to wait after `failures` failures in a row; none is no wait."""
        if failures <= 0:
            return 0.0
        try:
            longest = min(self.cap, self.initial * self.factor ** (failures - 1))
        except OverflowError:
            longest = self.cap
        return longest * (1 - self.jitter * random.random())


def parse_retry_after(value: str | None, now: datetime) -> float:
    """The seconds that a Retry-After header asks to wait, from 0 to the longest allowed.

    Both forms are read, a number of seconds and a date; anything else asks for nothing.
    """
    if value is None:
        return 0.0
    text = value.strip()
    if text.isascii() and text.isdigit():
        seconds = float(text)
    else:
        try:
            moment = parsedate_to_datetime(text)
        except ValueError:
            return 0.0
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)
