"""Stores, for many links at a time, that they are still current."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("linkconfirmations", package=__package__)


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The time at which a revision of a link that was current found nothing new."""

    id: str
    revision: int
    at: datetime


async def confirm(connection: Connection, confirmations: Sequence[Confirmation]) -> None:
    """Store that links are still current."""
    await connection.execute(
        _queries.confirm,
        [each.id for each in confirmations],
        [each.revision for each in confirmations],
        [each.at for each in confirmations],
    )
