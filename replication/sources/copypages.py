"""Pages of copies as a source gives them, and the pages that a stream of lines is cut into."""

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
# A page of the feed has the entities that changed, and what is above each of them.
COPIES_OF_ONE = 4
# The copies that are read and checked in one go, while another batch is applied.
_SLICE = 16
# The size of the batches that other writes wait for.
_COPIES_AMONG_OTHERS = 200


@dataclass(slots=True, kw_only=True)
class CopyPage(LinkPage):
    """Copies that come together from another catalog.

    Args:
        is_bulk: they are among the first copies that a link brings, or those that it doubts.
        lists_all: the listing has ended well: what is doubted and did not come is not there.
        present: entities that the source has and that labels do not select.
        labelled: groups and resources of which all came that has the labels of the link.
        losses: what goes, with the pages that follow, since the source does not list it.
        applied: is set once the page is applied.
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
        """The origins that were decided about, once the page is applied."""
        return set() if self.applied is None else {e.origin for e in self.applied.findings}


async def pages_of(
    context: Context, lines: AsyncGenerator[bytes], allowance: Allowance, *, is_bulk: bool = False
) -> AsyncGenerator[CopyPage]:
    """Cut a stream into pages of bounded size, the last one with the stream's cursor.

    Pages come before the stream has ended: applying them again does no harm. One is read and
    checked while the one before it is applied.

    Args:
        allowance: what the stream may bring; a part that was applied stays.

    Raises:
        TooMuchSent
        Unreachable: the stream ended without its last line.
        ClientError: something follows the last line.
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

    After the end, `last` are the copies of the last batch, and `end` is the stream's last line,
    `None` if it ended without one.
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
        """The next batch but the last one; `None` at the end.

        Raises:
            TooMuchSent
            ClientError: something follows the last line.
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
                # What waits for the database goes first, so that the database is never idle.
                await asyncio.sleep(0)
            if len(copies) >= self._most or size >= _MOST_BYTES:
                return copies
        self.last = copies
        return None

    def adapt(self, applied: AppliedBatch | None) -> None:
        """Make batches smaller if other writes waited for one, and larger again if none did."""
        has_delayed = applied is not None and applied.has_delayed
        self._most = _COPIES_AMONG_OTHERS if has_delayed else min(2 * self._most, _MOST_COPIES)


def without_content(copy: Incoming) -> Incoming:
    """A copy as a dry run keeps it: all that the decision about it needs."""
    return replace(copy, attributes={}, document=None) if isinstance(copy, Entity) else copy
