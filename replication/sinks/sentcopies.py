"""The copies that a link sends: which ones, all of them in pages, and their lines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from functools import partial

from catalog.context import Context
from catalog.http.responses import shown_or_none
from catalog.model.entity import Origin
from catalog.model.linkterms import RELAY
from catalog.store import copies as stored_copies
from catalog.store.changes import Position
from catalog.store.linkconflicts import LinkConflict
from catalog.store.links import LinkDefinition
from replication.deciding.batch import origin_of
from replication.deciding.provenance import Copy, CopyFilter
from replication.feed.feed import DOCUMENTS_AT_ONCE, read_again
from replication.feed.feedlines import write_copy
from replication.feed.feedpages import Page, read_copies

_ORIGINS_AT_ONCE = 1000


def sent_by(context: Context, definition: LinkDefinition) -> CopyFilter:
    """The copies that a link sends: this node's own ones unless it names authorities."""
    own = context.database.node.authority
    named = None if definition.authorities == RELAY else definition.authorities or (own,)
    return CopyFilter(
        authorities=None if named is None else frozenset(named),
        scope=definition.scope,
        types=definition.types,
    )


async def all_pages(
    context: Context, wanted: CopyFilter, end: Position, *, tombstones: bool = True
) -> AsyncIterator[Page]:
    """Everything that is here: entities, parents first, then deletions.

    Args:
        wanted: names the authorities.
        end: a position in the log that the pages are not before.
    """
    database = context.database
    authorities = None if wanted.authorities is None else sorted(wanted.authorities)
    after, is_live = Origin("", ""), True
    while True:
        async with database.snapshot(database.pools.feed) as connection:
            if is_live:
                origins = await stored_copies.page_entities(
                    connection, authorities, after, _ORIGINS_AT_ONCE
                )
            else:
                origins = await stored_copies.page_tombstones(
                    connection, authorities, after, _ORIGINS_AT_ONCE
                )
            copies = await read_copies(connection, origins)
        if origins:
            after = origins[-1]
            wanted_here = {*origins}
            changed = frozenset(copy.xid for copy in copies if origin_of(copy) in wanted_here)
            yield Page(copies=copies, changed=changed, end=end, seen=end)
        elif is_live and tombstones:
            after, is_live = Origin("", ""), False
        else:
            return


async def lines_of(context: Context, copies: Sequence[Copy]) -> AsyncIterator[tuple[Copy, bytes]]:
    """Copies with their lines, those left out that are gone or cannot be shown."""
    for start in range(0, len(copies), DOCUMENTS_AT_ONCE):
        for copy in await read_again(context, copies[start : start + DOCUMENTS_AT_ONCE]):
            if line := shown_or_none(copy.xid, partial(write_copy, copy)):
                yield copy, line


def conflict_with(copy: Copy, verdict: str, detail: str) -> LinkConflict:
    return LinkConflict(
        origin=origin_of(copy),
        xid=copy.xid,
        epoch=copy.epoch,
        verdict=verdict,
        detail=detail,
        at=datetime.now(UTC),
    )
