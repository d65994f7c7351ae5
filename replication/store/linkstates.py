"""Pauses and resumes links at the command of operators, and confirms that links are current."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from catalog.model.linkterms import State
from catalog.store import links
from catalog.store.database import Connection
from catalog.store.links import Link
from catalog.store.queries import Queries

_queries = Queries("linkstates", package=__package__)


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The time at which a current revision of a link found nothing new."""

    id: str
    revision: int
    at: datetime


async def pause(connection: Connection, link: Link, reason: str) -> Link | None:
    """Pause a link until it is resumed; a paused link keeps its former reason."""
    await connection.execute(_queries.pause, link.id, reason)
    return await _changed(connection, link)


async def resume(connection: Connection, link: Link) -> Link | None:
    """Let a paused link continue from its cursor."""
    return await _run(connection, link, "paused")


async def run_now(connection: Connection, link: Link) -> Link | None:
    """Let a link read its source now, even if the link waits after a failure or has stopped."""
    await links.wake(connection, link.id)
    return await _run(connection, link, "waiting", "unauthenticated", "forbidden", "refused")


async def confirm(connection: Connection, confirmations: Sequence[Confirmation]) -> None:
    """Store that links are still current, in one statement for many links."""
    await connection.execute(
        _queries.confirm,
        [each.id for each in confirmations],
        [each.revision for each in confirmations],
        [each.at for each in confirmations],
    )


async def _run(connection: Connection, link: Link, *states: State) -> Link | None:
    await connection.execute(_queries.run, link.id, states)
    return await _changed(connection, link)


async def _changed(connection: Connection, link: Link) -> Link | None:
    # The empty id makes the scheduler compare every link.
    await links.wake(connection, "")
    return await links.get(connection, link.id)
