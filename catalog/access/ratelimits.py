"""Limits the rate of requests of each identity, and of each address without a credential.

Each process of a node counts on its own: a request costs the time of the answering process only,
and each additional process can serve as many additional requests.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from aiohttp import web

from catalog.access.identity import Identity
from catalog.load.limiter import Rate
from catalog.model.concorderrors import RateExceeded
from catalog.settings import Settings

_PER_IDENTITY = 500.0
_PER_ADDRESS = 100.0
# After a pause, the requests of this number of seconds may come at once.
_BURST_SECONDS = 10.0


class _Named(NamedTuple):
    """A rate with its name in headers (draft-ietf-httpapi-ratelimit-headers-10)."""

    name: str
    rate: Rate
    policy: str

    @classmethod
    def of(cls, name: str, per_second: float) -> _Named:
        rate = Rate(per_second, per_second * _BURST_SECONDS)
        seconds = math.ceil(rate.burst / per_second)
        return cls(name, rate, f'"{name}";q={math.floor(rate.burst + 1e-6)};w={seconds}')


class RateLimits:
    """The rates of known callers and of addresses, from the settings."""

    def __init__(self, settings: Settings) -> None:
        is_open = settings.is_open
        known, unknown = settings.requests_per_second, settings.address_requests_per_second
        if known is None:
            known = 0.0 if is_open else _PER_IDENTITY
        if unknown is None:
            unknown = 0.0 if is_open else _PER_ADDRESS
        self._identities = _Named.of("caller", known) if known else None
        self._addresses = _Named.of("address", unknown) if unknown else None

    def take(self, request: web.Request, key: str, identity: Identity | None) -> None:
        """Count a request of an identity, or of the address if the caller is anonymous.

        Raises:
            RateExceeded
        """
        is_known = identity is not None and identity.kind != "anonymous"
        limit = self._identities if is_known else self._addresses
        if limit is None:
            return
        name, rate, policy = limit
        quota = rate.take(key)
        # Set before the refusal, which has to show the headers as well.
        request[RATE_HEADERS] = {
            "RateLimit-Policy": policy,
            "RateLimit": f'"{name}";r={quota.left};t={math.ceil(quota.full)}',
        }
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
RATE_HEADERS: web.RequestKey[dict[str, str]] = web.RequestKey("rate_headers", dict)


def key_of(identity: Identity) -> str:
    """The text by which the work of a caller is counted; differs from every address."""
    return f"{identity.kind}\n{identity.issuer}\n{identity.name}"
