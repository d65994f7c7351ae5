"""Limits the requests of each caller: of an identity, or of an address that shows no credential.

Each process of a node counts by itself: what a caller can take from others is the time of the
process that answers it, and a process more can serve as many requests more.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from aiohttp import web

from catalog.access.identity import Identity
from catalog.config import Settings
from catalog.model.caller import caller
from catalog.model.concorderrors import RateExceeded

_PER_IDENTITY = 500.0
_PER_ADDRESS = 100.0
_MOST_CALLERS = 16_384


class CallerQuota(NamedTuple):
    """The requests that are left to a caller.

    Args:
        delay: seconds until the next request may come; 0 if this one may.
        left: requests that may come at once.
        full: seconds until all that may ever come at once may.
    """

    delay: float
    left: int
    full: float


class Rate:
    """A token bucket for each caller, of those that came last.

    A bucket is one number, the time at which it is full again, since one that is full is like one
    that nobody has used. (`TokenBucket` holds another promise: the most in any minute.)

    Args:
        name: names the limit in the headers.
        per_second: how fast a bucket is filled.
        burst_seconds: the time in which an empty one is.
    """

    def __init__(
        self,
        name: str,
        per_second: float,
        burst_seconds: float,
        *,
        most: int = _MOST_CALLERS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.per_second = per_second
        self._interval = 1 / per_second
        # A limit of less than one request in a burst lets through one all the same.
        self._window = max(burst_seconds, self._interval)
        self._most = most
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()
        burst = math.floor(self._window * per_second + 1e-6)
        self.policy = f'"{name}";q={burst};w={math.ceil(self._window)}'
        self._name = name

    def take(self, key: str) -> CallerQuota:
        """Count a request of a caller, unless it has to wait."""
        now = self._clock()
        full_at = max(self._full_at.get(key, now), now) + self._interval
        delay = full_at - now - self._window
        if delay > 1e-9:  # the rounding of floats
            return CallerQuota(delay, 0, full_at - now - self._interval)
        self._full_at[key] = full_at
        self._full_at.move_to_end(key)
        if len(self._full_at) > self._most:
            self._full_at.popitem(last=False)
        return CallerQuota(0.0, int(-delay * self.per_second + 1e-6), full_at - now)

    def describe(self, quota: CallerQuota) -> str:
        """The value of the header RateLimit (draft-ietf-httpapi-ratelimit-headers-10)."""
        return f'"{self._name}";r={quota.left};t={math.ceil(quota.full)}'


class RateLimits:
    """The rates of known callers and of addresses, as the settings have them."""

    def __init__(self, settings: Settings) -> None:
        is_open, burst = settings.is_open, settings.request_burst_seconds
        known, unknown = settings.requests_per_second, settings.address_requests_per_second
        if known is None:
            known = 0.0 if is_open else _PER_IDENTITY
        if unknown is None:
            unknown = 0.0 if is_open else _PER_ADDRESS
        self._identities = Rate("caller", known, burst) if known else None
        self._addresses = Rate("address", unknown, burst) if unknown else None

    def take(self, request: web.Request, identity: Identity | None) -> None:
        """Count a request of an identity, or else of its address.

        Raises:
            RateExceeded
        """
        is_known = identity is not None and identity.kind != "anonymous"
        rate = self._identities if is_known else self._addresses
        if rate is None:
            return
        quota = rate.take(caller.get())
        request[QUOTA] = rate, quota
        if quota.delay > 0:
            whose, setting = ("A caller", "CONCORD_REQUESTS_PER_SECOND")
            if not is_known:
                whose, setting = "An address", "CONCORD_ADDRESS_REQUESTS_PER_SECOND"
            raise RateExceeded(
                request.path,
                whose=whose,
                limit=f"{rate.per_second:g}",
                setting=setting,
                seconds=math.ceil(quota.delay),
            )


RATE_LIMITS: web.AppKey[RateLimits] = web.AppKey("rate_limits", RateLimits)
QUOTA: web.RequestKey[tuple[Rate, CallerQuota]] = web.RequestKey("quota", tuple)


def key_of(identity: Identity) -> str:
    """The text by which the work of a caller is counted; it is no address."""
    return f"{identity.kind}\n{identity.issuer}\n{identity.name}"
