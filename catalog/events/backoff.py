"""How long to wait after a failure: a retry policy as a value."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


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
