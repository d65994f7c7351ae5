"""Refused attempts, collected for the audit: few rows for any number of attempts.

The first attempt of a kind is recorded at once; attempts of the kind that follow within a minute
are recorded together, with a count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from catalog.model.caller import Author

MOST_KINDS = 200
WINDOW_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalKind:
    """The kind of attempts that are recorded together.

    `source` is the client's IPv4 address, or IPv6 network of 64 bits; `caller` its identity.
    """

    source: str
    caller: tuple[str, str, str]
    method: str
    route: str
    status: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedAttempts:
    """Attempts of a kind, with the author and the time of the first attempt."""

    at: datetime
    author: Author
    status: int
    reason: str
    attempts: int = 1


@dataclass(slots=True)
class _Window:
    until: float
    following: RefusedAttempts | None = None


class Refusals:
    """The refusals of a process that are not in the audit yet.

    Kinds beyond the maximum are recorded as attempts of `others`, by status and reason only, so
    that no client can fill the audit.
    """

    def __init__(self, most: int = MOST_KINDS) -> None:
        self._most = most
        self._windows: dict[RefusalKind, _Window] = {}
        self._due: list[RefusedAttempts] = []

    def add(
        self,
        kind: RefusalKind,
        describe: Callable[[], Author],
        *,
        at: datetime,
        now: float,
    ) -> None:
        """Count an attempt at `now`, in seconds of a clock that never goes back.

        `describe` makes the author; it is called for the first attempt of a row only.
        """
        window = self._windows.get(kind)
        if window is None and len(self._windows) >= self._most:
            kind = replace(kind, source="", caller=("others", "", ""), method="", route="")
            window = self._windows.get(kind)
        if window is not None and window.following is not None:
            attempts = window.following.attempts + 1
            window.following = replace(window.following, attempts=attempts)
            return
        author = Author(kind="others") if kind.caller[0] == "others" else describe()
        first = RefusedAttempts(at=at, author=author, status=kind.status, reason=kind.reason)
        if window is None:
            self._windows[kind] = _Window(now + WINDOW_SECONDS)
            self._due.append(first)
        else:
            window.following = first

    def take(self, now: float, *, all: bool = False) -> list[RefusedAttempts]:
        """Take the rows that are due, or `all` rows."""
        due, self._due = self._due, []
        over = [kind for kind, window in self._windows.items() if all or window.until <= now]
        for kind in over:
            following = self._windows.pop(kind).following
            if following is not None:
                due.append(following)
        return due

    def give_back(self, rows: list[RefusedAttempts]) -> None:
        """Keep rows that could not be written for the next time, except the oldest of too many."""
        # Bounded, because the database may be away for long.
        self._due = [*rows, *self._due][-2 * self._most :]
