"""Writes copies and checkpoints to a topic, and tells whether the topic is still complete."""

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
from catalog.store import links
from catalog.store.changes import Position
from catalog.store.links import Link
from catalog.store.logpositions import LogCursor
from replication.deciding.batch import origin_of
from replication.deciding.provenance import Copy
from replication.peers.handshake import software
from replication.sinks.sentcopies import conflict_with, lines_of
from replication.sources.topiccursor import Written
from replication.sources.topicrecords import (
    CHECKPOINT_KEY,
    CHECKPOINT_PARTITION,
    Checkpoint,
    key_of,
    place_of,
    write_checkpoint,
)
from replication.store import linkconflicts
from replication.store.linkconflicts import LinkConflict
from replication.store.loghistory import read_cursor
from replication.transfer.linkrun import Applied
from replication.transfer.topicaddress import TopicLost

if TYPE_CHECKING:
    from replication.sinks.topicwriter import TopicWriter
    from replication.sources.topic import TopicBounds

# The most bytes of records that wait for a joint append.
_MOST_BYTES = 4 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class Publication:
    """A complete copy in a topic, with every change after the copy, and the link that writes it.

    Args:
        largest: the most bytes of a copy.
        begins: for each partition, the offset where the publication begins.
        ends: for each partition, the offset after the last appended record.
        position: the position reached in this node's log; `None` during the complete copy.
        cursor: the cursor of the position, with the history of the log, as in the checkpoint.
        loss: the reason why this node may lack published entities, if the node lost data.
        has_conflicts: copies were too large.
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

    async def add(self, copies: Sequence[Copy]) -> Applied:
        """Append copies, or let them wait for the next checkpoint.

        Returns:
            the numbers of copies, and of conflicts, which are copies that are too large.
        """
        applied = Applied()
        async for copy, line in lines_of(self.context, copies):
            value = line.rstrip(b"\n")
            if len(value) > self.largest:
                detail = f"it is larger than the {self.largest} bytes that the topic takes"
                self._refused.append(conflict_with(copy, Verdict.REFUSED.value, detail))
                applied.conflicts += 1
                continue
            place = place_of(copy.authority, copy.origin)
            partition = self.writer.partition_of(place, len(self.begins))
            self._waiting.setdefault(partition, []).append((key_of(origin_of(copy)), value))
            self._added.append(origin_of(copy))
            self._size += len(value)
            self._sent += len(value)
            applied.copies += 1
            if self._size >= _MOST_BYTES:
                await self._append(self._waiting)
        applied.changes = applied.copies
        return applied

    async def checkpoint(self, position: Position | None, *, is_current: bool) -> None:
        """State that the topic is complete up to a position, and save the cursor.

        Raises:
            TopicLost: the topic has lost records of the publication.
        """
        # A checkpoint states the ends of the partitions, so every record of a partition comes
        # first.
        last = self._waiting.pop(CHECKPOINT_PARTITION, [])
        await self._append(self._waiting)
        self.cursor = None if position is None else await self._cursor_at(position)
        checkpoint = self._checkpoint(is_current=is_current)
        await self._append(
            {CHECKPOINT_PARTITION: [*last, (CHECKPOINT_KEY, write_checkpoint(checkpoint))]}
        )
        self.position = position
        await self._save(behind=0 if is_current else None)

    async def _append(self, waiting: dict[int, list[tuple[bytes, bytes]]]) -> None:
        await asyncio.gather(*(self._append_to(each, found) for each, found in waiting.items()))
        self._waiting, self._size = {}, 0

    async def _append_to(self, partition: int, records: Sequence[tuple[bytes, bytes]]) -> None:
        first, after = await self.writer.append(partition, records)
        # A topic that was deleted and created again counts offsets from the beginning.
        if first < self.ends[partition]:
            raise TopicLost(f"partition {partition} has lost what was appended before")
        self.ends[partition] = after

    async def _cursor_at(self, position: Position) -> LogCursor:
        database = self.context.database
        async with database.acquire(database.pools.feed) as connection:
            return await read_cursor(connection, database.node.instance, position)

    def _checkpoint(self, *, is_current: bool) -> Checkpoint:
        node = self.context.database.node
        return Checkpoint(
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

    async def _save(self, behind: int | None) -> None:
        """Save the cursor after the cluster has acknowledged every record before it."""
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
                behind=behind,
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


def why_anew(
    written: Written | None, checkpoint: Checkpoint | None, bounds: TopicBounds, own: uuid.UUID
) -> str:
    """The reason why a topic has to be written from the beginning; "" if the topic is complete.

    Args:
        written: the last write of this node to the topic, as its link has stored the write.
        checkpoint: the newest checkpoint in the topic.
        own: the instance of this node.
    """
    if written is None:
        return "the topic had none" if checkpoint is None else "the link begins anew"
    if checkpoint is None:
        return "the topic was deleted or emptied"
    if checkpoint.instance != own or not written.position.is_of(own):
        return "this node was restored"
    if checkpoint.publication != written.publication:
        return "the topic has another publication"
    return why_damaged(written.begins, written.ends, bounds)


def why_damaged(begins: Iterable[int], ends: Sequence[int], bounds: TopicBounds) -> str:
    """The reason why a topic has lost records between two offsets; "" if it may be complete."""
    if len(ends) != len(bounds.ends):
        return f"the topic has {len(bounds.ends)} partitions, it had {len(ends)}"
    if any(now < then for now, then in zip(bounds.ends, ends, strict=True)):
        return "the topic ends before what was written last: it was truncated or created anew"
    if any(now > then for now, then in zip(bounds.begins, begins, strict=True)):
        return "the topic has lost its beginning: records were deleted"
    return ""
