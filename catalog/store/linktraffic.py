"""The traffic of a link: the copies brought or sent, their rate, and the progress of a copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self

_MINUTE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyProgress:
    """The progress of a complete copy.

    Args:
        copies: the number of copies so far.
        expected: the most copies to come in total; `None` if the source does not tell.
        seconds: the remaining time at the speed so far; `None` if unknown.
    """

    copies: int
    expected: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTraffic:
    """The counters of a link, as stored in the link's row."""

    bytes: int = 0
    behind: int | None = None
    minuteat: datetime | None = None
    minutecopies: int = 0
    earliercopies: int = 0
    copyat: datetime | None = None
    copied: int = 0
    copyof: int | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        return cls(**{field.name: row[field.name] for field in fields(cls)})

    def rate(self, now: datetime) -> float:
        """The copies per second in the minute before `now`.

        Of the earlier of the two counted minutes, only the part within the minute before `now`
        counts.
        """
        if self.minuteat is None:
            return 0.0
        minutes = max(0.0, (now - self.minuteat).total_seconds() / _MINUTE)
        if minutes < 1:
            copies = self.minutecopies + self.earliercopies * (1 - minutes)
        else:
            copies = self.minutecopies * max(0.0, 2 - minutes)
        return copies / _MINUTE

    def progress(self, now: datetime) -> CopyProgress | None:
        """The progress of the last complete copy; `None` if no complete copy was begun."""
        if self.copyat is None:
            return None
        expected = None if self.copyof is None else max(self.copyof, self.copied)
        seconds = None
        if expected is not None and self.copied:
            taken = max(0.0, (now - self.copyat).total_seconds())
            seconds = taken * (expected - self.copied) / self.copied
        return CopyProgress(copies=self.copied, expected=expected, seconds=seconds)
