"""Pauses and resumes links at the command of operators."""

from __future__ import annotations

from catalog.model.linkterms import State
from catalog.store import links
from catalog.store.database import Connection
from catalog.store.links import Link
from catalog.store.queries import Queries

_queries = Queries("linkcommands", package=__package__)


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


async def _run(connection: Connection, link: Link, *states: State) -> Link | None:
    await connection.execute(_queries.run, link.id, states)
    return await _changed(connection, link)


async def _changed(connection: Connection, link: Link) -> Link | None:
    await connection.execute(_queries.announce)
    return await links.get(connection, link.id)
