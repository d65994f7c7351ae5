"""Slows down addresses that show wrong credentials: who guesses waits longer and longer.

Credentials that were right before are served meanwhile: behind one address there may be many, of
whom one guesses. Others have to wait, right or wrong, as only a check tells which they are. So the
guesser learns nothing during the pause, and its checks cost nothing.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

import structlog

from catalog.model.concorderrors import TooManyAttempts

_log = structlog.get_logger(__name__)

_MOST_ADDRESSES = 16_384
_FORGIVEN_SECONDS = 10.0
_LONGEST_PAUSE = 60.0
_MOST_DOUBLINGS = 6
_ADVICE = (
    "Wrong credentials came from this address. Those that were right before are served meanwhile."
)


class _Wrong(NamedTuple):
    """The wrong credentials of an address that are not forgiven at a time."""

    number: float
    at: float
    until: float


class WrongCredentials:
    """The addresses that showed wrong credentials lately, of those the last ones.

    Args:
        free: how many an address may show before it has to wait; 0 lets it show any number.
    """

    def __init__(
        self,
        free: int,
        *,
        most: int = _MOST_ADDRESSES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._free = free
        self._most = most
        self._clock = clock
        self._of: OrderedDict[str, _Wrong] = OrderedDict()

    def check(self, address: str, path: str) -> None:
        """Refuse a credential that nobody has verified before.

        Raises:
            TooManyAttempts: the address has to wait.
        """
        found = self._of.get(address)
        if found is not None and (delay := found.until - self._clock()) > 0:
            raise TooManyAttempts(path, seconds=math.ceil(delay), detail=_ADVICE)

    def note(self, address: str) -> None:
        """Count a credential that has proved wrong."""
        if not self._free:
            return
        now = self._clock()
        before = self._of.pop(address, _Wrong(0, now, now))
        number = max(0.0, before.number - (now - before.at) / _FORGIVEN_SECONDS) + 1
        beyond = math.ceil(number - self._free)
        until = now
        if beyond > 0:
            until += min(_LONGEST_PAUSE, 2.0 ** min(beyond - 1, _MOST_DOUBLINGS))
            _log.warning("wrong_credentials", address=address, pause_seconds=math.ceil(until - now))
        self._of[address] = _Wrong(number, now, until)
        if len(self._of) > self._most:
            self._of.popitem(last=False)
