"""Whether the database can be reached, as far as one process knows."""

from __future__ import annotations

import asyncio

import structlog

_log = structlog.get_logger(__name__)


class Availability:
    """Shared state: the watch on the database sets it, and the users of the database read it.

    An outage is logged once when it begins and once when it is over.
    """

    def __init__(self) -> None:
        self._is_here = asyncio.Event()
        self._is_here.set()
        self._away_since = 0.0
        self._last_told = ""

    @property
    def is_away(self) -> bool:
        return not self._is_here.is_set()

    def lose(self, cause: str) -> None:
        """The database does not answer."""
        if not self.is_away:
            self._is_here.clear()
            self._away_since = asyncio.get_running_loop().time()
            _log.error("the database is away", cause=cause)

    def complain(self, problem: str) -> None:
        """Say why the database does not come back, unless that was the last thing said."""
        if problem != self._last_told:
            self._last_told = problem
            _log.error("the database does not come back", problem=problem)

    def find(self) -> None:
        """The database answers."""
        if self.is_away:
            seconds = asyncio.get_running_loop().time() - self._away_since
            self._last_told = ""
            self._is_here.set()
            _log.info("the database is back", seconds=round(seconds, 1))

    async def wait(self) -> None:
        """Wait while the database is away."""
        await self._is_here.wait()
