"""Writes to the server of a link: everything once, then pages of the log, then what was refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from catalog.model.entity import Origin
from catalog.store import linkconflicts, links
from catalog.store.changes import Position, read_head
from catalog.store.logpositions import LogCursor
from catalog.store.writtenentities import WrittenEntity
from replication.deciding.batch import origin_of
from replication.feed.feedpages import Page, read_copies
from replication.sinks.pushcursor import read_push_cursor, write_push_cursor
from replication.sinks.sentcopies import all_pages
from replication.sinks.writebatch import WriteBatch
from replication.sinks.writeplaces import Listing
from replication.sinks.writeremoval import check_absent, remove_gone, remove_unwanted
from replication.sinks.writeresults import WriteLink

_ORIGINS_AT_ONCE = 200


def cursor_of(flow: WriteLink, position: Position) -> str:
    """The cursor of a position: of no use for another log, or another catalog at the server."""
    instance = flow.context.database.node.instance
    return write_push_cursor(instance, LogCursor.at(instance, position), flow.target.identity)


def position_of(flow: WriteLink, cursor: str | None) -> Position | None:
    """The position of a cursor; `None` if it is of another log, or another catalog is there now."""
    found = read_push_cursor(flow.context.database.node.instance, flow.target.identity, cursor)
    return None if found is None else found.position


async def write_page(flow: WriteLink, page: Page) -> int:
    """Write what changed, and save the cursor; return how many entities the server took."""
    number = 0
    if copies := page.select(flow.wanted):
        batch = WriteBatch(flow, compares=False)
        plan = await batch.write(copies)
        number = batch.applied + await remove_gone(flow, plan.gone)
    await _save_cursor(flow, page.end)
    return number


async def write_everything(flow: WriteLink, *, compares: bool) -> tuple[Position, int, int]:
    """Write all that is here where the server differs, and delete what is no longer here.

    Args:
        compares: look at what the server has. Otherwise all is written, whatever is there of it.

    Returns:
        the position to go on from, and how many entities the server took and deleted.

    Raises:
        TooManyDeletions: much is no longer here; the link asks, and none of that was deleted.
    """
    database, wanted = flow.context.database, flow.wanted
    async with database.snapshot(database.pools.feed) as connection:
        head = await read_head(connection)
    written, deleted, listing = 0, 0, Listing(flow.target) if compares else None
    async for page in all_pages(flow.context, wanted, head.now, tombstones=False):
        if copies := page.select(wanted):
            batch = WriteBatch(flow, compares=compares, listing=listing)
            plan = await batch.write(copies)
            written += batch.applied
            deleted += await remove_gone(flow, plan.gone)

    def is_gone(row: WrittenEntity) -> bool:
        return not (row.is_here and wanted.admits(row.origin))

    await check_absent(flow)
    deleted += await remove_unwanted(flow, is_gone)
    await _save_cursor(flow, head.now)
    return head.now, written, deleted


async def write_again(flow: WriteLink) -> int:
    """Write again what the server did not take; return how many entities it took now."""
    flow = replace(flow, is_tolerant=True)
    database, wanted = flow.context.database, flow.wanted
    number, after = 0, Origin("", "")
    while True:
        async with database.acquire() as connection:
            found = await linkconflicts.load(connection, flow.link.id, after, _ORIGINS_AT_ONCE)
        if not found:
            return number
        after = found[-1].origin
        async with database.snapshot(database.pools.feed) as connection:
            held = await read_copies(connection, [conflict.origin for conflict in found])
        copies = [copy for copy in held if wanted.admits(copy)]
        unknown = {conflict.origin for conflict in found} - {origin_of(copy) for copy in copies}
        async with database.transaction() as connection:
            await linkconflicts.drop(connection, flow.link.id, list(unknown))
        batch = WriteBatch(flow, compares=True)
        plan = await batch.write(copies)
        number += batch.applied + await remove_gone(flow, plan.gone)


async def _save_cursor(flow: WriteLink, position: Position) -> None:
    async with flow.context.database.transaction() as connection:
        await links.save_progress(
            connection,
            flow.link,
            cursor=cursor_of(flow, position),
            applied=0,
            at=datetime.now(UTC),
            size=flow.take_sent(),
        )
