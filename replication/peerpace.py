"""The rate of requests to one peer: halved when it asks for fewer, and raised little by little.

Pure: it asks for the time and never waits.
"""

from __future__ import annotations

from collections import deque

_LEAST = 1 / 30
# After so many seconds a halved rate is again what it was, and in twice that four times as much.
_RECOVERY_SECONDS = 20.0
_FREE_AT = 4.0
_MEASURED_SECONDS = 1.0
_MOST_MEASURED = 1000


class PeerPace:
    """Additive increase, multiplicative decrease (AIMD) of the requests to a peer.

    There is no limit until the peer refuses a request because there are too many, and none any more
    when it has taken four times as many without refusing one.
    """

    def __init__(self) -> None:
        self.rate: float | None = None
        """Requests per second; `None` is no limit."""
        self._next = self._slowed_at = self._grown_at = float("-inf")
        self._step = self._free_rate = 0.0
        self._recent: deque[float] = deque(maxlen=_MOST_MEASURED)

    def delay(self, now: float) -> float:
        """The seconds until the next request may go; 0 if that is at once."""
        return max(0.0, self._next - now)

    def take(self, now: float) -> None:
        """Count a request that goes now, after `delay` was waited for."""
        self._recent.append(now)
        if self.rate is not None:
            self._next = max(self._next, now + 1 / self.rate)

    def slow(self, sent: float, now: float, *, pause: float) -> None:
        """Halve the rate, since the peer refused a request; it wants nothing for `pause` seconds.

        Args:
            sent: the time at which the request went. One from before the rate was halved last does
                not halve it again.
        """
        self._next = max(self._next, now + pause)
        if sent <= self._slowed_at:
            return
        before = self._measured(now) if self.rate is None else self.rate
        self.rate = max(_LEAST, before / 2)
        self._step = self.rate / _RECOVERY_SECONDS
        self._free_rate = _FREE_AT * self.rate
        self._slowed_at = self._grown_at = now
        self._next = max(self._next, now + 1 / self.rate)

    def answered(self, now: float) -> None:
        """Raise the rate a little, since the peer took a request."""
        if self.rate is None:
            return
        # Time in which nothing was asked for proves nothing.
        self.rate += self._step * min(now - self._grown_at, 2 / self.rate)
        self._grown_at = now
        if self.rate >= self._free_rate:
            self.rate = None

    def _measured(self, now: float) -> float:
        since = now - _MEASURED_SECONDS
        return max(1.0, sum(at > since for at in self._recent) / _MEASURED_SECONDS)
