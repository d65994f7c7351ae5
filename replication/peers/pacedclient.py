"""A client that lowers its rate of requests when the catalog refuses a request with 429."""

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

# A request fails after a longer pause or so many refusals; the link then shows the pause.
_LONGEST_PAUSE = 10.0
_ATTEMPTS = 8
# Requests per second, more than a host can answer.
_NO_LIMIT = 1e9
_LEAST_RATE = 1 / 30
# Under load, a halved rate doubles within so many seconds, and reaches four times the halved rate,
# where the limit ends, within three times as many.
_RECOVERY_SECONDS = 20.0
_FREE_AT = 4.0
_MEASURED_SECONDS = 1.0
_MOST_MEASURED = 1000
_LARGEST_ANSWER = 1024 * 1024


class TooManyRequests(ClientError):
    """The peer has asked for a pause that is not over yet."""

    is_retryable = True

    def __init__(self, host: str, seconds: float) -> None:
        super().__init__(f"{host} was asked too often, and wants a pause.")
        self.retry_after = seconds


class PeerPace(Rate):
    """The rate of all requests to one host, first come first served.

    Additive increase, multiplicative decrease (AIMD): the rate is unlimited until the host refuses
    a request with 429, and again once the host has accepted four times the reduced rate without a
    refusal.

    Args:
        host: the host, for errors.
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
        """Wait for the turn of a request; return the time of the turn.

        Raises:
            TooManyRequests: the host wants a pause that is too long to wait for.
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
        """Halve the rate after a refused request, and pause for the seconds that the host wants.

        Args:
            sent: the time of the request. A request from before the last reduction does not halve
                the rate again.
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
        """Raise the rate a little after an accepted request."""
        if not self.is_limited:
            return
        now = self._now()
        # Idle time is no evidence that the host accepts a higher rate.
        self.per_second += self._step * min(now - self._grown_at, 2 / self.per_second)
        self._grown_at = now
        if self.per_second >= self._free_rate:
            self.per_second = _NO_LIMIT

    def _measured(self, now: float) -> float:
        since = now - _MEASURED_SECONDS
        return max(1.0, sum(at > since for at in self._recent) / _MEASURED_SECONDS)


class PeerHosts:
    """The pace of each host with a client: links to the same host share one pace."""

    def __init__(self) -> None:
        self._paces: weakref.WeakValueDictionary[str, PeerPace] = weakref.WeakValueDictionary()

    def pace_of(self, url: str) -> PeerPace:
        host = urlsplit(url).netloc.lower()
        pace = self._paces.get(host) or PeerPace(host)
        self._paces[host] = pace
        return pace


class PacedClient(Client):
    """Repeats requests that are refused with 429, at a lower rate; repeats no other request.

    Links have a back-off of their own for every other error. `slowed` counts the repeated requests.

    Args:
        session: a session that guards against private networks (`open_session`).
        pace: the pace of all requests to the host; a pace for this client alone unless given.
        credential: the credential that the client shows to the catalog.
    """

    def __init__(
        self,
        url: str,
        session: aiohttp.ClientSession,
        timeout_seconds: float,
        pace: PeerPace | None = None,
        credential: Credential | None = None,
    ) -> None:
        super().__init__(
            url,
            session,
            retry=ONCE,
            timeout_seconds=timeout_seconds,
            largest=_LARGEST_ANSWER,
            credential=credential,
        )
        self.slowed = 0
        self._pace = pace or PeerPace(url)

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
            # A refusal precedes the first line, so a repetition yields no line twice.
            except Refused as error:
                self._note_refusal(error, at, attempts)
            else:
                self._pace.answered()
                return

    def _note_refusal(self, error: Refused, sent: float, attempts: int) -> None:
        """Slow down after a refusal with 429; raise the error if it must not be repeated."""
        if error.problem.status != HTTPStatus.TOO_MANY_REQUESTS:
            raise error
        self._pace.slow(sent, pause=error.retry_after)
        if attempts >= _ATTEMPTS or error.retry_after > _LONGEST_PAUSE:
            raise error
        self.slowed += 1
