"""Publishes copies to a topic: everything that is here once, then pages of the log."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from catalog.context import Context
from catalog.model.digest import DIGEST_VERSION
from catalog.model.entity import Origin
from catalog.operations.feed import Verdict
from catalog.store import linkconflicts, links
from catalog.store.changes import Position, read_head
from catalog.store.linkconflicts import LinkConflict
from catalog.store.links import Link
from catalog.store.loghistory import read_cursor
from catalog.store.logpositions import LogCursor
from replication.deciding.batch import origin_of
from replication.deciding.provenance import Copy
from replication.feed.feedpages import Page
from replication.peers.handshake import software
from replication.sinks.sentcopies import all_pages, conflict_with, lines_of, sent_by
from replication.sources.topicaddress import TopicLost
from replication.sources.topiccursor import Written
from replication.sources.topicrecords import (
    MARK_KEY,
    MARK_PARTITION,
    Mark,
    key_of,
    place_of,
    write_mark,
)

if TYPE_CHECKING:
    from replication.sinks.topicwriter import TopicWriter
    from replication.sources.topic import TopicBounds

# Records that wait to be appended together.
_MOST_BYTES = 4 * 1024 * 1024
# So that whoever comes during the complete copy finds a mark near the end.
_COPIES_BETWEEN_MARKS = 10_000


@dataclass(slots=True, kw_only=True)
class Publication:
    """A complete copy in a topic, with all changes after it, and the link that writes it.

    Args:
        largest: the most bytes that a copy may have.
        begins: for each partition, the offset where it begins.
        ends: for each partition, the offset after the last record that was appended.
        position: the one in this node's log that was reached; `None` during the complete copy.
        cursor: the same with what its log was like, as the mark has it.
        loss: the reason why this node may lack what it had published before, if it lost data.
        has_conflicts: some copies were too large.
    """

    context: Context
    link: Link
    writer: TopicWriter
    largest: int
    begins: tuple[int, ...]
    ends: list[int]
    id: uuid.UUID = field(default_factory=uuid.uuid4)
    position: Position | None = None
    cursor: LogCursor | None = None
    loss: str = ""
    has_conflicts: bool = False
    _waiting: dict[int, list[tuple[bytes, bytes]]] = field(default_factory=dict)
    _size: int = 0
    _sent: int = 0
    _added: list[Origin] = field(default_factory=list)
    _refused: list[LinkConflict] = field(default_factory=list)

    def wants(self, page: Page) -> list[Copy]:
        """The copies of a page to send: those that changed, as the topic has what is above them."""
        wanted = sent_by(self.context, self.link.definition)
        return [c for c in page.copies if c.xid in page.changed and wanted.admits(c)]

    async def add(self, copies: Sequence[Copy]) -> int:
        """Append copies, or have them wait for the next mark; return how many there are."""
        number = 0
        async for copy, line in lines_of(self.context, copies):
            value = line.rstrip(b"\n")
            if len(value) > self.largest:
                detail = f"it is larger than the {self.largest} bytes that the topic takes"
                self._refused.append(conflict_with(copy, Verdict.REFUSED.value, detail))
                continue
            place = place_of(copy.authority, copy.origin)
            partition = self.writer.partition_of(place, len(self.begins))
            self._waiting.setdefault(partition, []).append((key_of(origin_of(copy)), value))
            self._added.append(origin_of(copy))
            self._size += len(value)
            self._sent += len(value)
            number += 1
            if self._size >= _MOST_BYTES:
                await self._append(self._waiting)
        return number

    async def mark(self, position: Position | None, *, is_current: bool) -> None:
        """Tell that everything up to a position is in the topic, and save the cursor.

        Raises:
            TopicLost: it has lost what was there.
        """
        last = self._waiting.pop(MARK_PARTITION, [])
        await self._append(self._waiting)
        self.cursor = None if position is None else await self._cursor_at(position)
        mark = self._mark(is_current=is_current)
        await self._append({MARK_PARTITION: [*last, (MARK_KEY, write_mark(mark))]})
        self.position = position
        await self._save()

    async def _append(self, waiting: dict[int, list[tuple[bytes, bytes]]]) -> None:
        await asyncio.gather(*(self._append_to(each, found) for each, found in waiting.items()))
        self._waiting, self._size = {}, 0

    async def _append_to(self, partition: int, records: Sequence[tuple[bytes, bytes]]) -> None:
        first, after = await self.writer.append(partition, records)
        if first < self.ends[partition]:
            raise TopicLost(f"partition {partition} has lost what was appended before")
        self.ends[partition] = after

    async def _cursor_at(self, position: Position) -> LogCursor:
        database = self.context.database
        async with database.acquire(database.pools.feed) as connection:
            return await read_cursor(connection, database.node.instance, position)

    def _mark(self, *, is_current: bool) -> Mark:
        node = self.context.database.node
        return Mark(
            publication=self.id,
            authority=node.authority,
            instance=node.instance,
            link=self.link.id,
            software=software(),
            digestversion=DIGEST_VERSION,
            begins=self.begins,
            ends=tuple(self.ends),
            position=self.cursor,
            is_current=is_current,
            at=datetime.now(UTC),
            loss=self.loss,
        )

    async def _save(self) -> None:
        """Save the cursor after the cluster has acknowledged everything before it."""
        added, refused, sent = self._added, self._refused, self._sent
        self._added, self._refused, self._sent = [], [], 0
        cursor = None if self.cursor is None else str(self._written(self.cursor))
        async with self.context.database.transaction() as connection:
            now = datetime.now(UTC)
            await links.save_progress(
                connection,
                self.link,
                cursor=cursor,
                applied=len(added),
                at=now,
                copies=len(added),
                size=sent,
            )
            if added and self.has_conflicts:
                await linkconflicts.drop(connection, self.link.id, added)
            if refused:
                await linkconflicts.add(connection, self.link.id, refused)
                self.has_conflicts = True

    def _written(self, cursor: LogCursor) -> Written:
        return Written(
            publication=self.id,
            begins=self.begins,
            ends=tuple(self.ends),
            position=cursor,
        )


async def publish_everything(publication: Publication) -> int:
    """Write all that is here, and the position to go on from; return the number of copies.

    It is read in pages, of which each shows a later time: changes meanwhile come by the log.
    """
    context = publication.context
    async with context.database.snapshot(context.database.pools.feed) as connection:
        head = await read_head(connection)
    await publication.mark(None, is_current=False)
    wanted, number, marked = sent_by(context, publication.link.definition), 0, 0
    async for page in all_pages(context, wanted, head.now):
        number += await publication.add(publication.wants(page))
        if number - marked >= _COPIES_BETWEEN_MARKS:
            await publication.mark(None, is_current=False)
            marked = number
    await publication.mark(head.now, is_current=False)
    return number


async def publish_page(publication: Publication, page: Page, *, is_current: bool) -> int:
    """Write what changed, and a mark; return the number of copies.

    A page of which nothing is to be sent is not told: its position goes with the next one.
    """
    copies = publication.wants(page)
    if not copies:
        return 0
    number = await publication.add(copies)
    await publication.mark(page.end, is_current=is_current)
    return number


def why_anew(
    written: Written | None, mark: Mark | None, bounds: TopicBounds, own: uuid.UUID
) -> str:
    """The reason why a topic has to be written from the beginning; "" if it has everything.

    Args:
        written: what this node has written there, as it knows.
        mark: the newest one in the topic.
        own: the instance of this node.
    """
    if written is None:
        return "the topic had none" if mark is None else "the link begins anew"
    if mark is None:
        return "the topic was deleted or emptied"
    if mark.instance != own or not written.position.is_of(own):
        return "this node was restored"
    if mark.publication != written.publication:
        return "the topic has another publication"
    return why_damaged(written.begins, written.ends, bounds)


def why_damaged(begins: Iterable[int], ends: Sequence[int], bounds: TopicBounds) -> str:
    """The reason why a topic cannot have what was written between offsets; "" if it can."""
    if len(ends) != len(bounds.ends):
        return f"the topic has {len(bounds.ends)} partitions, it had {len(ends)}"
    if any(now < then for now, then in zip(bounds.ends, ends, strict=True)):
        return "the topic ends before what was written last: it was truncated or created anew"
    if any(now > then for now, then in zip(bounds.begins, begins, strict=True)):
        return "the topic has lost its beginning: records were deleted"
    return ""
