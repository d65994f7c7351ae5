"""The lines of the copies that a link sends, and their conflicts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from functools import partial

from catalog.context import Context
from catalog.http.responses import shown_or_none
from replication.deciding.batch import origin_of
from replication.deciding.provenance import Copy
from replication.feed.feed import DOCUMENTS_AT_ONCE, read_again
from replication.feed.feedlines import write_copy
from replication.store.linkconflicts import LinkConflict


async def lines_of(context: Context, copies: Sequence[Copy]) -> AsyncIterator[tuple[Copy, bytes]]:
    """Copies with their lines, except copies that are deleted or cannot be shown."""
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
