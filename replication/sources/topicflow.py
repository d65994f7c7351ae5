"""Brings what a topic has: reads its records in their order, and saves the place with the copies.

Of a compacted topic, a child may come before its parent, and what comes is not always the newest.
So what cannot be applied is gone over again once the end is reached.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from catalog.context import Context
from catalog.model.entity import Origin
from catalog.store import doubtedcopies, linkconflicts
from catalog.store import entities as store
from catalog.store.linkconflicts import MOST_CONFLICTS
from catalog.store.links import Link
from replication.applying.eviction import await_earlier_batches
from replication.deciding.batch import origin_of
from replication.deciding.copychecks import Incoming, MalformedCopy
from replication.sources.pull import Brought, Flow, apply_by
from replication.sources.topicaddress import TopicLost, TopicUnusable
from replication.sources.topiccursor import TopicPlace
from replication.sources.topicrecords import MARK_PARTITION, Mark, read_record

if TYPE_CHECKING:
    from replication.sources.topic import Topic, TopicBounds, TopicRecord

_ORIGINS_AT_ONCE = 1000
# A group, a resource below it and a version below that, and once more for what was superseded.
_MOST_ROUNDS = 4


@dataclass(slots=True, kw_only=True)
class TopicFlow:
    """A link with the topic that it reads, after it has met the source.

    Args:
        flow: the link with the identity of the source.
        topic: what it reads.
        begins: for each partition, where the publication begins.
        place: the one that is saved.
        mark: the newest mark of the source that was read.
        marked: its offset.
        copied: for each partition, the offset of the last copy that was read.
    """

    flow: Flow
    topic: Topic
    begins: tuple[int, ...]
    place: TopicPlace
    mark: Mark | None = None
    marked: int = -1
    copied: dict[int, int] = field(default_factory=dict)

    @property
    def context(self) -> Context:
        return self.flow.context

    @property
    def link(self) -> Link:
        return self.flow.link

    @property
    def partitions(self) -> int:
        return len(self.place.offsets)

    @property
    def is_first(self) -> bool:
        """Whether the complete copy has not been read yet."""
        return self.place.position is None

    @property
    def is_current(self) -> bool:
        """Whether the source had nothing further when it wrote what was read last."""
        mark = self.mark
        if mark is None or not mark.is_current or not _is_reached(mark, self.place.offsets):
            return False
        limits = {**dict(enumerate(mark.ends)), MARK_PARTITION: self.marked}
        return all(offset < limits[each] for each, offset in self.copied.items())

    async def bounds(self) -> TopicBounds:
        """The bounds of the topic now.

        Raises:
            TopicLost: it does not have what comes next.
            TopicUnusable
        """
        if await self.topic.partitions() < self.partitions:
            raise TopicUnusable("The topic is not there, or has fewer partitions than before.")
        bounds = await self.topic.bounds(self.partitions)
        for each, offset in enumerate(self.place.offsets):
            if not bounds.begins[each] <= offset <= bounds.ends[each]:
                raise TopicLost(
                    f"of partition {each}, the topic has the offsets {bounds.begins[each]} to "
                    f"{bounds.ends[each]}, and {offset} comes next"
                )
        return bounds

    async def bring(self, seconds: float) -> Brought | None:
        """Apply what comes next, and save the place with it; `None` if nothing came."""
        if self.topic.offsets != self.place.offsets:
            self.topic.seek(dict(enumerate(self.place.offsets)))
        records = await self.topic.read(seconds)
        offsets = self.topic.offsets
        if offsets == self.place.offsets:
            return None
        copies, mark, marked = self._sort(records)
        place = _moved(self.place, offsets, mark or self.mark)
        applied = await apply_by(self.flow, copies, str(place), is_bulk=self.is_first)
        self.place = place
        if mark is not None:
            self.mark, self.marked = mark, marked
        for record in records:
            if record.partition != MARK_PARTITION or record.offset > marked:
                self.copied[record.partition] = record.offset
        brought = Brought(cursor=str(place))
        brought.add(applied)
        return brought

    async def finish(self) -> None:
        """Save that the complete copy was read, up to the newest mark."""
        assert self.mark is not None, "its end was read"
        self.place = replace(self.place, position=self.mark.position)
        await apply_by(self.flow, [], str(self.place))

    def _sort(self, records: Sequence[TopicRecord]) -> tuple[list[Incoming], Mark | None, int]:
        """The last copy of each origin, all that are malformed, and the newest mark."""
        mark, marked = None, -1
        copies: dict[Origin, Incoming] = {}
        malformed: list[Incoming] = []
        for record in records:
            read = read_record(record.key, record.value)
            if isinstance(read, MalformedCopy):
                malformed.append(read)
            elif not isinstance(read, Mark):
                copies[origin_of(read)] = read
            elif read.authority == self.flow.source.authority:
                mark, marked = read, record.offset
        return [*copies.values(), *malformed], mark, marked

    async def go_over_conflicts(self) -> int:
        """Read again what could not be applied, from the beginning of the publication.

        What the source itself says replaces what was here of its authority whatever the epochs, if
        an operator has set up the link since it last did so.

        Returns:
            the number of conflicts that are left.
        """
        if self.link.doubts:
            await await_earlier_batches(self.context)
        origins = await self._conflicts()
        for _ in range(_MOST_ROUNDS):
            is_doubting = self.link.doubts and await self._doubt(origins)
            if not origins:
                break
            await self._go_over(origins, is_bulk=is_doubting)
            left = await self._conflicts()
            is_done = len(left) >= len(origins) and not is_doubting
            origins = left
            if is_done:
                break
        if self.link.doubts:
            async with self.context.database.transaction() as connection:
                await doubtedcopies.doubt_only(connection, self.link, {})
            self.flow = replace(self.flow, link=replace(self.link, doubts=False))
        return len(origins)

    async def _go_over(self, origins: Collection[Origin], *, is_bulk: bool) -> None:
        # Where more was refused than is recorded, anything may be among it.
        wanted = None if len(origins) >= MOST_CONFLICTS else frozenset(origins)
        begins, ends = dict(enumerate(self.begins)), dict(enumerate(self.place.offsets))
        async for records in self.topic.read_range(begins, ends):
            copies, _, _ = self._sort(records)
            again = [c for c in copies if wanted is None or _origin(c) in wanted]
            if again:
                await apply_by(self.flow, again, is_bulk=is_bulk)

    async def _conflicts(self) -> list[Origin]:
        found: list[Origin] = []
        after: Origin | None = None
        while True:
            async with self.context.database.acquire() as connection:
                page = await linkconflicts.load(connection, self.link.id, after, _ORIGINS_AT_ONCE)
            if not page:
                return found
            after = page[-1].origin
            found += [conflict.origin for conflict in page]

    async def _doubt(self, origins: Sequence[Origin]) -> bool:
        """Doubt what is here of these, as far as it is the source's to tell."""
        own = [each for each in origins if each.authority == self.flow.source.authority]
        async with self.context.database.transaction() as connection:
            live = await store.load_by_origin(connection, own)
            deleted = await store.load_tombstones(connection, own)
            digests = {each.xid: copy.digest for each, copy in live.items()}
            digests |= {each.xid: end.digest for each, end in deleted.items()}
            await doubtedcopies.doubt_only(connection, self.link, digests)
        return bool(digests)


def _moved(place: TopicPlace, offsets: tuple[int, ...], mark: Mark | None) -> TopicPlace:
    """The place with these offsets, and the position of the newest mark if all before it is read.

    Before the end of the complete copy was read, no position is reached.
    """
    moved = replace(place, offsets=offsets)
    if place.position is None or mark is None or mark.position is None:
        return moved
    if mark.publication != place.publication or not _is_reached(mark, offsets):
        return moved
    return replace(moved, position=max(place.position, mark.position))


def _is_reached(mark: Mark, offsets: tuple[int, ...]) -> bool:
    """Whether everything was read that a mark stands for, beside what is before it."""
    ends = list(zip(offsets, mark.ends, strict=False))
    del ends[MARK_PARTITION]
    return len(offsets) == len(mark.ends) and all(offset >= end for offset, end in ends)


def current_at(mark: Mark) -> datetime:
    """The time of a mark, which the clock of its source must not put into the future."""
    return min(mark.at, datetime.now(UTC))


def _origin(copy: Incoming) -> Origin:
    if isinstance(copy, MalformedCopy):
        return Origin(copy.authority, copy.origin)
    return origin_of(copy)
