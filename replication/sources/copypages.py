"""Pages of copies from a source, cut from a stream of lines, and selected by labels."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass, replace

from catalog.client import ClientError, Unreachable
from catalog.context import Context
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.xid import group_path, resource_of
from catalog.store import entities as store
from replication.applying.apply import AppliedBatch
from replication.deciding.batch import origin_of
from replication.deciding.copychecks import CheckedCopies, Incoming, MalformedCopy
from replication.deciding.selection import LabelSieve, has_labels, is_default
from replication.feed.cards import follower_name
from replication.feed.feedlines import FeedEnd, read_line
from replication.peers.linkbounds import Allowance
from replication.transfer.linkrun import LinkRun
from replication.transfer.transfer import LinkPage

_MOST_COPIES = 2000
_MOST_BYTES = 8 * 1024 * 1024
# A page of the feed has the changed entities and the ancestors of each.
COPIES_OF_ONE = 4
# Copies that are read and checked without a pause, while another batch is applied.
_SLICE = 16
# The size of batches while writes of clients wait for them.
_COPIES_AMONG_OTHERS = 200
# Small, since the whole page is held in memory before it is sorted.
_PAGE = 200
_SCOPES_AT_ONCE = 50
_CHANGES = 1000


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
        """The next batch except the last batch; `None` at the end; raises as `pages_of`."""
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


def change_pages(
    run: LinkRun,
    cursor: str,
    wait_seconds: float,
    filters: Sequence[tuple[str, str]],
    *,
    limit: int | None = None,
) -> AsyncGenerator[CopyPage]:
    """The pages of one answer of the source's feed, with at most `limit` changes."""
    limit = limit or _CHANGES
    lines = run.peer.change_lines(
        cursor,
        limit=limit,
        wait_seconds=wait_seconds,
        filters=filters,
        follower=follower_name(run.context),
    )
    return pages_of(run.context, lines, Allowance.of(run.settings, COPIES_OF_ONE * limit))


async def labelled_changes(
    run: LinkRun, cursor: str, wait_seconds: float, filters: Sequence[tuple[str, str]]
) -> AsyncGenerator[CopyPage]:
    """The pages of one answer of the source's feed, for a link that selects by labels.

    The feed has every change, whatever the labels. Held entities are kept up to date by the feed. A
    group or resource that may be newly selected is requested as a whole, since most of its entities
    changed long ago. The cursor comes last, with the groups and resources that may have lost their
    labels: their entities are dropped.
    """
    copies: list[Incoming] = []
    end = CopyPage()
    answer = change_pages(run, cursor, wait_seconds, filters, limit=_PAGE)
    async with contextlib.aclosing(answer) as pages:
        async for end in pages:
            copies += end.copies
    units = frozenset(origin for copy in copies for origin in _units_of(copy))
    if units:
        async with run.database.acquire() as connection:
            held = await store.load_by_origin(connection, units)
        page = _Sorted(copies, held, run.link.definition.labels)
        for start in range(0, len(page.ask), _SCOPES_AT_ONCE):
            named = [each for each in filters if each[0] != "scope"]
            named += [("scope", each.xid) for each in page.ask[start : start + _SCOPES_AT_ONCE]]
            async for asked in labelled_listing(run, run.peer.snapshot_lines(named)):
                # The feed's own cursor, which comes last, is older: the listing may lack changes of
                # other entities.
                asked.cursor, asked.present = None, ()
                yield asked
        if page.apply:
            yield CopyPage(copies=page.apply)
    yield CopyPage(cursor=end.cursor, labelled=units, is_last=end.is_last)


async def labelled_listing(
    run: LinkRun, lines: AsyncGenerator[bytes], *, is_bulk: bool = False
) -> AsyncGenerator[CopyPage]:
    """The labelled entities of a complete listing, and the origins of the remaining entities."""
    sieve = LabelSieve(run.link.definition.labels)
    pages = pages_of(run.context, lines, Allowance.of(run.settings), is_bulk=is_bulk)
    async with contextlib.aclosing(pages):
        async for page in pages:
            passed = [each for copy in page.copies for each in sieve.take(copy)]
            is_complete = page.cursor is not None
            if is_complete:
                passed += sieve.end()
            left_out = sieve.left_out(is_complete=is_complete)
            selected = CopyPage(
                copies=passed,
                cursor=page.cursor,
                is_bulk=is_bulk,
                present=[origin_of(each) for each in left_out],
            )
            yield selected
            page.applied = selected.applied


class _Sorted:
    """The copies of a page of the feed: `apply` to apply, `ask` to request with descendants."""

    def __init__(
        self, copies: Collection[Incoming], held: dict[Origin, Entity], labels: Collection[str]
    ) -> None:
        self.apply: list[Incoming] = []
        self.ask: list[Origin] = []
        self._held = held
        self._labels = labels
        self._live = {origin_of(copy): copy for copy in copies if isinstance(copy, Entity)}
        self._followed: set[Origin] = set()
        for copy in sorted(copies, key=lambda each: each.origin.count("/")):
            if isinstance(copy, Tombstone | MalformedCopy):
                units = _units_of(copy)
                # A deletion of an entity that this node does not hold is of no use.
                if not units or any(unit in held for unit in units):
                    self.apply.append(copy)
            elif self._is_followed(copy):
                self._followed.add(origin_of(copy))
                self.apply.append(copy)

    def _is_followed(self, copy: Entity) -> bool:
        """Whether a copy is applied; an origin that may be newly selected is added to `ask`."""
        origin, held = origin_of(copy), self._held
        before = held.get(origin)
        if copy.kind == "group":
            if self._is_labelled(copy) and not self._is_labelled(before):
                self.ask.append(origin)
            return before is not None
        resource = Origin(copy.authority, resource_of(copy.origin))
        if copy.kind == "version":
            return resource in held or resource in self._followed
        if before is not None:
            return True
        group = Origin(copy.authority, group_path(copy.origin))
        if group in self.ask:
            return False
        if group in held and self._is_labelled(self._live.get(group)):
            return True
        id = copy.attributes.get("defaultversionid")
        default = self._live.get(Origin(copy.authority, f"{copy.origin}/versions/{id}"))
        if default is None or (is_default(copy, default) and self._is_labelled(default)):
            self.ask.append(origin)
        return False

    def _is_labelled(self, entity: Entity | None) -> bool:
        return entity is not None and has_labels(entity.attributes, self._labels)


def _units_of(copy: Incoming) -> list[Origin]:
    """The origins of a copy's group and resource."""
    if isinstance(copy, MalformedCopy) or not copy.origin.startswith("/"):
        return []
    paths = {group_path(copy.origin), resource_of(copy.origin)}
    return [Origin(copy.authority, path) for path in paths]
