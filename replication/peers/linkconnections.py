"""Shares the connections to other catalogs among links, so that none waits for a sick peer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from catalog.config import Settings
from catalog.http.listener import most_outbound_connections
from catalog.load.limiter import Share


class LinkConnections:
    """The shares of the connections that links may use at a time.

    Links whose last attempt failed share a quarter of them until they are current: a peer that
    does not answer keeps a connection for long. Those that wait at their sources for changes share
    half. The rest is left to those that bring something.
    """

    def __init__(self, settings: Settings) -> None:
        most = most_outbound_connections(settings)
        self.probation = Share(max(1, most // 4))
        self._waiting = Share(max(1, most // 2))

    @contextlib.contextmanager
    def place_to_wait(self) -> Iterator[bool]:
        """Take a place for a request that waits at a source; the value is whether there is one."""
        has_place = self._waiting.take_now()
        try:
            yield has_place
        finally:
            if has_place:
                self._waiting.give_back()
