"""Stores that links are still current, in one statement for many links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("linkconfirmations", package=__package__)


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The time at which a current revision of a link found nothing new."""

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
