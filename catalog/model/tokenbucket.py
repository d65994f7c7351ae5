"""A rate that is not exceeded: so many in a minute."""

from __future__ import annotations

_MINUTE = 60.0


class TokenBucket:
    """Lets through so many in any minute, in bursts of what a second brings.

    It asks for the time and never waits, so that the caller's clock is the only one.

    Args:
        per_minute: the most in any 60 seconds, at least 1. What is taken in one piece, as a batch
            is, may exceed it; the pause after it is as long as its number says.
    """

    def __init__(self, per_minute: float) -> None:
        if per_minute < 1:
            raise ValueError("a rate is at least 1 in a minute")
        self._burst = max(1.0, per_minute // _MINUTE)
        # A burst and what comes back in the minute that it begins are no more than the rate.
        self._per_second = (per_minute - (self._burst - 1)) / _MINUTE
        self._left = self._burst
        self._at = float("-inf")

    def delay(self, now: float) -> float:
        """The seconds after `now` until the next may be taken; 0 if that is at once."""
        return max(0.0, (1.0 - self._left_at(now)) / self._per_second)

    def take(self, now: float, count: int = 1) -> None:
        """Count what goes now, after `delay` was waited for."""
        self._left = self._left_at(now) - count
        self._at = max(self._at, now)

    def _left_at(self, now: float) -> float:
        # A clock that is set back gives nothing and takes nothing.
        return min(self._burst, self._left + max(0.0, now - self._at) * self._per_second)
