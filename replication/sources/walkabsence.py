"""Finds the held entities that their server did not list and has deleted.

A missing entity in a listing is no proof: the server is asked for each entity, or for its parent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime

from catalog.model.entity import Origin
from catalog.model.xid import depth, group_path
from catalog.store import entities as store
from replication.deciding.copychecks import Incoming
from replication.readers.reader import WalkReader
from replication.sources.walkedcopies import end_of
from replication.store import copies as stored_copies
from replication.store import handovers
from replication.transfer.linkrun import LinkRun

_AT_ONCE = 1000


async def find_absent(run: LinkRun, is_expected: Callable[[str], bool]) -> list[str]:
    """The xids of the source's held entities for which `is_expected` is false, in order.

    A group that this node has given to the source, and that the source has not taken yet, is not
    absent.
    """
    absent: list[str] = []
    after = Origin("", "")
    while True:
        async with run.database.acquire() as connection:
            found = await stored_copies.page_entities(
                connection, [run.policy.sender], after, _AT_ONCE
            )
        if not found:
            break
        absent += [origin.xid for origin in found if not is_expected(origin.xid)]
        after = found[-1]
    async with run.database.acquire() as connection:
        given = await handovers.read_given(connection, run.policy.sender, datetime.now(UTC))
    return [xid for xid in absent if group_path(xid) not in given]


async def confirm_gone(reader: WalkReader, absent: Sequence[str]) -> list[str]:
    """The absent entities that the server confirms as deleted, or whose parent is deleted.

    Args:
        absent: the xids in order, parents before children.
    """
    gone: list[str] = []
    answers: dict[str, bool] = {}
    for xid in absent:
        parent = xid.rsplit("/", 2)[0]
        is_gone = answers.get(parent)
        if is_gone is None:
            is_gone = await reader.is_gone(xid)
        answers[xid] = is_gone
        if is_gone:
            gone.append(xid)
    return gone


async def ends_of(run: LinkRun, gone: Sequence[str]) -> AsyncGenerator[list[Incoming]]:
    """The tombstones of deleted entities, children first."""
    now = datetime.now(UTC)
    ordered = sorted(gone, key=depth, reverse=True)
    for start in range(0, len(ordered), _AT_ONCE):
        part = ordered[start : start + _AT_ONCE]
        origins = [Origin(run.policy.sender, xid) for xid in part]
        async with run.database.acquire() as connection:
            entities = await store.load_by_origin(connection, origins)
        yield [end_of(entity, now) for entity in entities.values()]
