"""The policy for repeating requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

from catalog.client.errors import ClientError, Refused
from catalog.model.backoff import Backoff

_BACKOFF = Backoff(initial=0.1, factor=2, cap=10, jitter=0.5)


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A policy for requests that failed for a reason that may pass.

    Args:
        attempts: how often one request is sent at most; 1 repeats nothing.
        backoff: the waits in between. Its cap also bounds what a node may ask for with
            Retry-After, which is waited for otherwise.
        clock: the time that a date in Retry-After is compared with.
        sleep: waits that many seconds.
        random: where the jitter comes from.
    """

    attempts: int = 4
    backoff: Backoff = _BACKOFF
    clock: Callable[[], datetime] = _now
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Random = field(default_factory=Random)

    def delay(self, failures: int, error: ClientError) -> float:
        """Seconds to wait after `failures` failures in a row, of which `error` is the last."""
        asked = error.retry_after if isinstance(error, Refused) else 0.0
        return min(asked, self.backoff.cap) or self.backoff.delay(failures, self.random)


ONCE = Retry(attempts=1)
"""Repeats nothing."""
