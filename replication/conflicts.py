"""Brings again what a link could not apply: what was in its way may be gone."""

from __future__ import annotations

from collections.abc import AsyncIterator

from catalog.model.entity import Origin
from catalog.store import links
from replication.linkscope import may_bring
from replication.pull import Flow, apply_by, apply_lines
from replication.wire import MOST_ORIGINS, is_scope


async def retry_conflicts(flow: Flow) -> int:
    """Fetch every conflict of a link again, and say how many there were.

    Raises:
        RemoteError
        LinkReplaced
    """
    number = 0
    async for origins in _conflicts(flow):
        number += len(origins)
        await _fetch(flow, origins)
    return number


async def _conflicts(flow: Flow) -> AsyncIterator[list[Origin]]:
    """The origins of all conflicts, in batches that can be fetched at once."""
    found = [Origin("", "")]
    while found:
        async with flow.context.database.pool.acquire(timeout=30) as connection:
            batch = await links.load_conflicts(connection, flow.link.id, found[-1], MOST_ORIGINS)
        found = [conflict.origin for conflict in batch]
        yield found


async def _fetch(flow: Flow, origins: list[Origin]) -> None:
    definition, authority = flow.link.definition, flow.source.authority
    wanted = [
        origin
        for origin in origins
        if origin.authority and is_scope(origin.xid) and may_bring(definition, authority, origin)
    ]
    if wanted:
        await apply_lines(flow.remote.fetch(wanted), lambda copies, _: apply_by(flow, copies, None))
