"""The wait after a failure: exponential back-off, and the header Retry-After."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random

MAX_RETRY_AFTER_SECONDS = 3600.0
_LONGEST_DATE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential back-off, capped and jittered.

    Args:
        initial: seconds to wait after the first failure.
        factor: the multiplier of the wait for each further failure, at least 1.
        cap: the longest wait, in seconds.
        jitter: the largest share of a wait, 0 to 1, that is subtracted at random, so that clients
            that failed together do not retry together.
    """

    initial: float
    factor: float
    cap: float
    jitter: float

    def delay(self, failures: int, random: Random, *, at_least: float = 0.0) -> float:
        """Seconds to wait after `failures` failures in a row.

        The cap does not bound `at_least`, the pause in seconds that the peer asks for.
        """
        if failures <= 0:
            return at_least
        try:
            longest = min(self.cap, self.initial * self.factor ** (failures - 1))
        except OverflowError:
            # Many failures exceed the range of a float.
            longest = self.cap
        return max(at_least, longest * (1 - self.jitter * random.random()))


def parse_retry_after(value: str | None, now: datetime) -> float:
    """The seconds to wait by a header Retry-After, from 0 to `MAX_RETRY_AFTER_SECONDS`.

    The header holds a number of seconds or a date; an invalid value gives 0.
    """
    if value is None:
        return 0.0
    text = value.strip()
    try:
        if text.isascii() and text.isdigit():
            seconds = float(text)
        elif len(text) > _LONGEST_DATE:
            return 0.0
        else:
            date = parsedate_to_datetime(text)
            seconds = (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds()
    # A time zone of many digits overflows.
    except (ValueError, OverflowError):
        return 0.0
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)
