"""Pages of copies from a source, cut from a stream of lines."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace

from catalog.client import ClientError, Unreachable
from catalog.context import Context
from catalog.model.entity import Entity, Origin
from replication.applying.apply import AppliedBatch
from replication.deciding.copychecks import CheckedCopies, Incoming
from replication.feed.feedlines import FeedEnd, read_line
from replication.peers.linkbounds import Allowance
from replication.signing.signaturechecks import AHEAD, begin_ahead
from replication.transfer.transfer import LinkPage

_MOST_COPIES = 2000
_MOST_BYTES = 8 * 1024 * 1024
# A page of the feed has the changed entities and the ancestors of each.
COPIES_OF_ONE = 4
# Copies that are read and checked without a pause, while another batch is applied.
_SLICE = 16
# The size of batches while writes of clients wait for them.
_COPIES_AMONG_OTHERS = 200


@dataclass(slots=True, kw_only=True)
class CopyPage(LinkPage):
    """A page of copies from another catalog.

    Args:
        is_bulk: the copies belong to a complete copy, or replace doubted copies.
        lists_all: the listing is complete: doubted copies that did not come do not exist.
        present: entities of the source that the labels do not select.
        labelled: groups and resources whose labelled entities have all arrived.
        losses: the entities that following pages delete, since the source does not list them.
        applied: the outcome, once the page is applied.
    """

    cursor: str | None = None
    copies: Sequence[Incoming] = ()
    is_bulk: bool = False
    lists_all: bool = False
    present: Sequence[Origin] = ()
    labelled: frozenset[Origin] = frozenset()
    losses: Sequence[Origin] = ()
    applied: AppliedBatch | None = None

    @property
    def brought(self) -> set[Origin]:
        """The origins with a decision, once the page is applied."""
        return set() if self.applied is None else {e.origin for e in self.applied.findings}


async def pages_of(
    context: Context, lines: AsyncGenerator[bytes], allowance: Allowance, *, is_bulk: bool = False
) -> AsyncGenerator[CopyPage]:
    """Cut a stream into pages of bounded size; the last page has the stream's cursor.

    Pages come before the end of the stream, since a repeated application does no harm. A page is
    read and checked while the page before it is applied.

    Args:
        allowance: the bounds of the stream; a part that was applied stays.

    Raises:
        TooMuchSent
        Unreachable: the stream ended without its last line.
        ClientError: a line follows the last line.
    """
    async with contextlib.aclosing(lines):
        batches = _Batches(context, lines, allowance)
        coming = asyncio.create_task(batches.read())
        try:
            while (copies := await coming) is not None:
                coming = asyncio.create_task(batches.read())
                page = CopyPage(copies=copies, is_bulk=is_bulk)
                yield page
                batches.adapt(page.applied)
        finally:
            # The lines cannot be closed while a task still reads them.
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
    end = batches.end
    if end is None or not end.cursor:
        raise Unreachable("The answer of the source broke off.", is_doubtful=True)
    yield CopyPage(
        copies=batches.last,
        cursor=end.cursor,
        behind=end.behind,
        is_bulk=is_bulk,
        is_last=end.behind == 0,
    )


class _Batches:
    """The batches of a stream.

    After the end, `last` has the copies of the last batch, and `end` is the last line of the
    stream; `None` if the line is missing.
    """

    def __init__(
        self, context: Context, lines: AsyncGenerator[bytes], allowance: Allowance
    ) -> None:
        self.end: FeedEnd | None = None
        self.last: list[Incoming] = []
        self._context = context
        self._lines = lines
        self._allowance = allowance
        self._most = _MOST_COPIES

    async def read(self) -> list[Incoming] | None:
        """The next batch except the last batch; `None` at the end.

        Raises:
            TooMuchSent
            ClientError: a line follows the last line.
        """
        copies = CheckedCopies(self._context.configuration.model)
        size = 0
        async for line in self._lines:
            if self.end is not None:
                raise ClientError("Something follows the cursor that ends a stream.")
            read = read_line(line)
            if isinstance(read, FeedEnd):
                self.end = read
                continue
            self._allowance.take(len(line))
            copies.take(read)
            size += len(line)
            if len(copies) % AHEAD == 0:
                begin_ahead(self._context.database, copies.checked[-AHEAD:])
            if len(copies) % _SLICE == 0:
                # Tasks that wait for the database run first, which keeps the database busy.
                await asyncio.sleep(0)
            if len(copies) >= self._most or size >= _MOST_BYTES:
                return copies
        self.last = copies
        return None

    def adapt(self, applied: AppliedBatch | None) -> None:
        """Make batches smaller after a batch that delayed writes, and larger again otherwise."""
        has_delayed = applied is not None and applied.has_delayed
        self._most = _COPIES_AMONG_OTHERS if has_delayed else min(2 * self._most, _MOST_COPIES)


def without_content(copy: Incoming) -> Incoming:
    """A copy as a dry run keeps it, with only the parts for a decision."""
    return replace(copy, attributes={}, document=None) if isinstance(copy, Entity) else copy
