"""A client of another catalog that asks as often as the catalog wants to be asked."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from catalog.client import ONCE, Answer, Client, ClientError, Credential, Refused
from catalog.load.limiter import MustWait, Rate

# A longer pause is shown as that of the link, and what asks so often in vain stops for a while.
_LONGEST_PAUSE = 10.0
_ATTEMPTS = 8
# In a second: more than anybody can be asked for.
_NO_LIMIT = 1e9
_LEAST_RATE = 1 / 30
# After so many seconds a halved rate is again what it was, and in twice that four times as much.
_RECOVERY_SECONDS = 20.0
_FREE_AT = 4.0
_MEASURED_SECONDS = 1.0
_MOST_MEASURED = 1000


class TooManyRequests(ClientError):
    """The peer has asked for a pause that is not over yet."""

    is_retryable = True

    def __init__(self, host: str, seconds: float) -> None:
        super().__init__(f"{host} was asked too often, and wants a pause.")
        self.retry_after = seconds


class PeerPace(Rate):
    """The rate of all requests to one host, first come first served.

    Additive increase, multiplicative decrease (AIMD): there is no limit until the host refuses a
    request because there are too many, and none any more when it has taken four times as many
    without refusing one.

    Args:
        host: named in errors.
    """

    def __init__(self, host: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(_NO_LIMIT, 1, clock=clock)
        self._host = host
        self._now = clock
        self._slowed_at = self._grown_at = float("-inf")
        self._step = self._free_rate = 0.0
        self._recent: deque[float] = deque(maxlen=_MOST_MEASURED)

    @property
    def is_limited(self) -> bool:
        return self.per_second < _NO_LIMIT

    async def next(self) -> float:
        """Wait for the turn of a request; return its time.

        Raises:
            TooManyRequests: the host wants a pause that is too long to wait for it here.
        """
        try:
            await self.turn(longest_wait=_LONGEST_PAUSE)
        except MustWait as error:
            raise TooManyRequests(self._host, error.seconds) from error
        return self._recent[-1]

    def spend(self, key: str = "") -> None:
        super().spend(key)
        self._recent.append(self._now())

    def slow(self, sent: float, *, pause: float) -> None:
        """Halve the rate, since a request was refused; the host wants nothing for so many seconds.

        Args:
            sent: the time at which the request went. One from before the rate was halved last does
                not halve it again.
        """
        now = self._now()
        if sent > self._slowed_at:
            before = self.per_second if self.is_limited else self._measured(now)
            self.per_second = max(_LEAST_RATE, before / 2)
            self._step = self.per_second / _RECOVERY_SECONDS
            self._free_rate = _FREE_AT * self.per_second
            self._slowed_at = self._grown_at = now
            pause = max(pause, 1 / self.per_second)
        self.pause(pause)

    def answered(self) -> None:
        """Raise the rate a little, since a request was taken."""
        if not self.is_limited:
            return
        now = self._now()
        # Time in which nothing was asked for proves nothing.
        self.per_second += self._step * min(now - self._grown_at, 2 / self.per_second)
        self._grown_at = now
        if self.per_second >= self._free_rate:
            self.per_second = _NO_LIMIT

    def _measured(self, now: float) -> float:
        since = now - _MEASURED_SECONDS
        return max(1.0, sum(at > since for at in self._recent) / _MEASURED_SECONDS)


class PeerHosts:
    """The pace of each host that some client leads to: links to the same host share it."""

    def __init__(self) -> None:
        self._paces: weakref.WeakValueDictionary[str, PeerPace] = weakref.WeakValueDictionary()

    def pace_of(self, url: str) -> PeerPace:
        host = urlsplit(url).netloc.lower()
        pace = self._paces.get(host) or PeerPace(host)
        self._paces[host] = pace
        return pace


class PacedClient(Client):
    """Repeats what is refused because there was too much, more slowly; and nothing else.

    `slowed` counts what was repeated.
    """

    def __init__(
        self,
        url: str,
        session: aiohttp.ClientSession,
        pace: PeerPace,
        *,
        timeout_seconds: float,
        largest: int,
        credential: Credential | None = None,
    ) -> None:
        super().__init__(
            url,
            session,
            retry=ONCE,
            timeout_seconds=timeout_seconds,
            largest=largest,
            credential=credential,
        )
        self.slowed = 0
        self._pace = pace

    async def request(self, method: str, path: str, **sent: Any) -> Answer:
        attempts = 0
        while True:
            at = await self._pace.next()
            attempts += 1
            try:
                answer = await super().request(method, path, **sent)
            except Refused as error:
                self._note_refusal(error, at, attempts)
            else:
                self._pace.answered()
                return answer

    async def lines(self, method: str, path: str, **sent: Any) -> AsyncGenerator[bytes]:
        attempts = 0
        while True:
            at = await self._pace.next()
            attempts += 1
            try:
                async with contextlib.aclosing(super().lines(method, path, **sent)) as lines:
                    async for line in lines:
                        yield line
            # It comes before the first line.
            except Refused as error:
                self._note_refusal(error, at, attempts)
            else:
                self._pace.answered()
                return

    def _note_refusal(self, error: Refused, sent: float, attempts: int) -> None:
        """Slow down after a refusal for too many requests; raise if it is not to be repeated."""
        if error.problem.status != HTTPStatus.TOO_MANY_REQUESTS:
            raise error
        self._pace.slow(sent, pause=error.retry_after)
        if attempts >= _ATTEMPTS or error.retry_after > _LONGEST_PAUSE:
            raise error
        self.slowed += 1
