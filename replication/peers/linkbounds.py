"""Bounds between a node and its peers: how much a source sends, and how fast requests follow.

A client lowers its rate of requests when a catalog refuses a request with 429. Batches of links
share the time of the database with the writes of clients.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import weakref
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from catalog.client import ONCE, Answer, Client, ClientError, Credential, Refused
from catalog.context import Context
from catalog.load.limiter import MustWait, Rate, Share
from catalog.settings.limits import Limits
from replication.deciding.provenance import Policy
from replication.store.copies import count_replicas

MEASURED_AGAIN = 20
"""Replicas are counted again after this part of the largest number of replicas has changed."""
# Half of the batches, rounded down to one, may be bulk batches.
_MOST_AT_ONCE = 3


def most_pushed_bytes(limits: Limits) -> int:
    """The largest body of pushed copies in bytes: twice the size of the largest entity."""
    return 2 * limits.max_body_bytes


class TooMuchSent(ClientError):
    """A source sends more, or its link holds more, than a link may bring: the link stops.

    The copies of the link stay.
    """


@dataclass(slots=True, kw_only=True)
class Allowance:
    """The remaining copies and bytes that a source may send in an answer.

    Args:
        copies: the number of entities and tombstones, valid or not.
        bytes: the size of the lines.
        limits: the bounds, for errors.
        is_page: the request stated the wanted number of copies.
    """

    copies: int
    bytes: int
    limits: Limits
    is_page: bool = False

    @classmethod
    def of(cls, limits: Limits, copies: int | None = None) -> Allowance:
        """The allowance for a snapshot, or for an answer of at most `copies` copies."""
        is_page = copies is not None
        most = limits.link_copies if copies is None else copies
        return cls(copies=most, bytes=limits.link_bytes, limits=limits, is_page=is_page)

    def take(self, size: int) -> None:
        """Take one line of `size` bytes.

        Raises:
            TooMuchSent
            ClientError: the answer has more copies than the request asked for.
        """
        self.copies -= 1
        if self.copies < 0:
            if self.is_page:
                raise ClientError("Its source sends more entities than were asked for.")
            raise too_many_copies(self.limits, "Its source sends")
        self.take_bytes(size)

    def take_bytes(self, size: int) -> None:
        """Take bytes that are not a line.

        Raises:
            TooMuchSent
        """
        self.bytes -= size
        if self.bytes < 0:
            raise TooMuchSent(
                f"Its source sends more than {self.limits.link_bytes:,} bytes at once.",
                "Restart the node with a larger CONCORD_LINK_BYTES, or narrow the link's scope.",
            )


def too_many_copies(limits: Limits, subject: str) -> TooMuchSent:
    return TooMuchSent(
        f"{subject} more than {limits.link_copies:,} entities.",
        "Restart the node with a larger CONCORD_LINK_COPIES, or narrow the link's scope.",
    )


async def check_held(context: Context, policy: Policy) -> None:
    """Check that this node has no more replicas of a link's authorities than a link may bring.

    Raises:
        TooMuchSent
    """
    async with context.database.acquire() as connection:
        held = await count_replicas(connection, policy.authorities, own=policy.own)
    if held > context.settings.link_copies:
        raise too_many_copies(context.settings, "Of its authorities, this node has")


@dataclass(slots=True)
class Turn:
    """One batch of a link; `has_delayed` says whether writes of clients waited for the locks."""

    has_delayed: bool = False


@dataclass(slots=True)
class LinkGate:
    """Bounds the number of concurrent batches of all links, since clients need the database, too.

    After a batch that delayed writes, links pause: then all bulk batches together take at most the
    share `busy_share` of the time. Bulk batches are large, and often write the same groups, so
    never two of them run together.
    """

    busy_share: float = 0.5
    _batches: Share = field(default_factory=lambda: Share(_MOST_AT_ONCE))
    _bulk: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def turn(self, *, is_bulk: bool) -> AsyncIterator[Turn]:
        loop = asyncio.get_running_loop()
        # The lock comes first, so that bulk batches wait without the place of a small batch.
        alone = self._bulk if is_bulk else contextlib.nullcontext()
        async with alone, self._batches.hold():
            began, turn = loop.time(), Turn()
            yield turn
            # The bound on concurrent batches includes the pause, for which the next one waits.
            if turn.has_delayed:
                taken = loop.time() - began
                await asyncio.sleep(taken * (1 / self.busy_share - 1))


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
            before = self.per_second
            if not self.is_limited:
                since = now - _MEASURED_SECONDS
                before = max(1.0, sum(at > since for at in self._recent) / _MEASURED_SECONDS)
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


class PeerHosts:
    """The pace of each host with a client: links to the same host share one pace."""

    def __init__(self) -> None:
        # A pace ends with the last client of its host, so that former hosts cost nothing.
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
        largest: the largest answer in bytes.
    """

    def __init__(
        self,
        url: str,
        session: aiohttp.ClientSession,
        timeout_seconds: float,
        pace: PeerPace | None = None,
        credential: Credential | None = None,
        largest: int = _LARGEST_ANSWER,
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
        self._taken = 0
        self._pace = pace or PeerPace(url)

    def take_received(self) -> int:
        """The bytes of answers since the last call."""
        since, self._taken = self.received - self._taken, self.received
        return since

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
