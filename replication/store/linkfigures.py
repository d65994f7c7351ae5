"""Stores figures of links: a point a minute for a day, and a point an hour for 30 days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from catalog.store.database import Connection
from catalog.store.queries import Queries

MINUTE, HOUR = 60, 3600
"""The seconds between two points of a step."""
KEPT = {MINUTE: timedelta(days=1), HOUR: timedelta(days=30)}
_queries = Queries("linkfigures", package=__package__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FigurePoint:
    """The figures of a link at the end of a minute or an hour.

    Args:
        lag: the greatest lag in seconds; `None` if the link never was current.
        copies: the number of applied copies since the link was made.
        errors: the number of errors since the link was made.
    """

    at: datetime
    lag: float | None
    copies: int
    errors: int


async def note(connection: Connection) -> None:
    """Store a point of each link in one statement, and drop the points that are too old."""
    await connection.execute(_queries.note, KEPT[MINUTE], KEPT[HOUR])


async def read(connection: Connection, link: str, step: int, since: datetime) -> list[FigurePoint]:
    """Read the points of a link after a time, oldest first.

    Args:
        step: `MINUTE` or `HOUR`.
    """
    return [FigurePoint(**row) for row in await connection.fetch(_queries.read, link, step, since)]
