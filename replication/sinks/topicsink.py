"""The sink of publishing links: a topic."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from catalog.client import ClientError
from catalog.context import Context
from catalog.model.digest import DIGEST_VERSION
from catalog.model.entity import Origin
from catalog.model.masking import counted
from catalog.operations.feed import Verdict
from catalog.store import links
from catalog.store.changes import LogCursor, Position, read_head
from catalog.store.database import Connection
from catalog.store.links import Link, LinkDefinition
from replication.deciding.batch import origin_of
from replication.deciding.copychecks import Copy
from replication.feed.feedrequests import lines_of
from replication.peers.handshake import software
from replication.sources.ownlog import OwnLog, SentPage
from replication.store import linkconflicts
from replication.store.linkconflicts import CopyFinding
from replication.store.loghistory import read_cursor, why_lost
from replication.transfer.linkrun import Applied, LinkRun, Start
from replication.transfer.topicrecords import (
    CHECKPOINT_KEY,
    CHECKPOINT_PARTITION,
    Checkpoint,
    TopicLost,
    Written,
    key_of,
    newest_checkpoint,
    open_topic,
    place_of,
    write_checkpoint,
)
from replication.transfer.transfer import DryRun, LinkPeer, LinkSink

if TYPE_CHECKING:
    from replication.transfer.topic import Topic, TopicBounds, TopicWriter

# The most bytes of records that wait for a joint append.
_MOST_BYTES = 4 * 1024 * 1024
# A reader that begins during the complete copy finds a checkpoint near the end.
_COPIES_BETWEEN_CHECKPOINTS = 10_000


@dataclass(slots=True, kw_only=True)
class Publication:
    """A complete copy in a topic, with every change after the copy, and the link that writes it.

    Args:
        largest: the most bytes of a copy.
        begins: for each partition, the offset where the publication begins.
        ends: for each partition, the offset after the last appended record.
        position: the position reached in this node's log; `None` during the complete copy.
        loss: the reason why this node may lack published entities, if the node lost data.
        has_conflicts: copies were too large.
        unmarked: the number of copies since the last checkpoint.
    """

    run: LinkRun
    writer: TopicWriter
    largest: int
    begins: tuple[int, ...]
    ends: list[int]
    id: uuid.UUID = field(default_factory=uuid.uuid4)
    position: Position | None = None
    loss: str = ""
    has_conflicts: bool = False
    unmarked: int = 0
    _waiting: dict[int, list[tuple[bytes, bytes]]] = field(default_factory=dict)
    _size: int = 0
    _sent: int = 0
    _added: list[Origin] = field(default_factory=list)
    _refused: list[CopyFinding] = field(default_factory=list)

    async def add(self, copies: Sequence[Copy]) -> Applied:
        """Append copies, or let them wait for the next checkpoint; too large ones are conflicts."""
        applied = Applied()
        async for copy, line in lines_of(self.run.context, copies):
            value = line.rstrip(b"\n")
            if len(value) > self.largest:
                detail = f"it is larger than the {self.largest} bytes that the topic takes"
                self._refused.append(CopyFinding.about(copy, Verdict.REFUSED, detail))
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
        self.unmarked += applied.copies
        return applied

    async def checkpoint(self, position: Position | None, *, is_current: bool) -> None:
        """State that the topic is complete up to a position, and save the cursor."""
        # A checkpoint states the ends of the partitions, so every record of a partition comes
        # first.
        last = self._waiting.pop(CHECKPOINT_PARTITION, [])
        await self._append(self._waiting)
        database, cursor = self.run.database, None
        node = database.node
        if position is not None:
            async with database.acquire(database.pools.feed) as connection:
                cursor = await read_cursor(connection, node.instance, position)
        checkpoint = Checkpoint(
            publication=self.id,
            authority=node.authority,
            instance=node.instance,
            link=self.run.link.id,
            software=software(),
            digestversion=DIGEST_VERSION,
            begins=self.begins,
            ends=tuple(self.ends),
            position=cursor,
            is_current=is_current,
            at=datetime.now(UTC),
            loss=self.loss,
        )
        await self._append(
            {CHECKPOINT_PARTITION: [*last, (CHECKPOINT_KEY, write_checkpoint(checkpoint))]}
        )
        self.position, self.unmarked = position, 0
        await self._save(cursor, behind=0 if is_current else None)

    async def _append(self, waiting: dict[int, list[tuple[bytes, bytes]]]) -> None:
        async def append(partition: int, records: Sequence[tuple[bytes, bytes]]) -> None:
            first, after = await self.writer.append(partition, records)
            # A topic that was deleted and created again counts offsets from the beginning.
            if first < self.ends[partition]:
                raise TopicLost(f"partition {partition} has lost what was appended before")
            self.ends[partition] = after

        await asyncio.gather(*(append(each, records) for each, records in waiting.items()))
        self._waiting, self._size = {}, 0

    async def _save(self, cursor: LogCursor | None, behind: int | None) -> None:
        """Save the cursor after the cluster has acknowledged every record before it."""
        added, refused, sent = self._added, self._refused, self._sent
        self._added, self._refused, self._sent = [], [], 0
        written = None
        if cursor is not None:
            written = Written(
                publication=self.id, begins=self.begins, ends=tuple(self.ends), position=cursor
            )
        async with self.run.database.transaction() as connection:
            await links.save_progress(
                connection,
                self.run.link,
                cursor=None if written is None else str(written),
                applied=len(added),
                at=datetime.now(UTC),
                copies=len(added),
                size=sent,
                behind=behind,
                # Most publications have no conflicts, so the statement need not look for them.
                settled=added if self.has_conflicts else (),
            )
            if refused:
                await linkconflicts.add(connection, self.run.link.id, refused)
                self.has_conflicts = True


class TopicSink(LinkSink, LinkPeer):
    """Writes pages of the log to a topic.

    The cursor is saved after the cluster has acknowledged the records before it. An incomplete
    topic is written again from the beginning, as a new publication.
    """

    has_costly_retries = True

    def __init__(self, run: LinkRun) -> None:
        self._run = run
        self._topic: Topic
        self._writer: TopicWriter
        self._largest = 0
        self._bounds: TopicBounds
        self._checkpoint: Checkpoint | None = None
        self._publication: Publication
        self._reason = ""
        self._told_at = float("-inf")

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        # Kafka is an extra.
        from replication.transfer.topic import open_writer, prepare

        settings = self._run.settings
        async with open_topic(self._run.link.definition.target, settings) as self._topic:
            self._largest = await prepare(self._topic)
            async with open_writer(self._topic, settings) as self._writer:
                yield

    async def meet(self) -> None:
        """Read the newest checkpoint of the topic."""
        self._bounds = await self._topic.bounds(await self._topic.partitions())
        found = await newest_checkpoint(self._topic, self._bounds)
        self._checkpoint = None if found is None else found[0]

    async def identify(self, connection: Connection, link: Link) -> None:
        """Check for a different publisher of the topic; a topic has no identity."""
        await _check_rival(
            connection, self._run.context, link.definition, self._checkpoint, link.id
        )

    async def resume(self, saved: str | None) -> Start[Position]:
        """Continue the publication of the topic, or begin a new publication."""
        run, checkpoint, bounds = self._run, self._checkpoint, self._bounds
        written, loss = _read_written(saved), await self._loss_since(checkpoint)
        self._reason, self._told_at = await self._why_anew(written, loss), float("-inf")
        self._publication = publication = Publication(
            run=run,
            writer=self._writer,
            largest=self._largest,
            begins=bounds.ends,
            ends=[*bounds.ends],
            has_conflicts=run.link.conflicts > 0,
        )
        if written is None or self._reason:
            publication.loss = loss
            return Start(cursor=None, is_copied=False)
        publication.id, publication.begins = written.publication, written.begins
        publication.position = written.position.position
        publication.loss = "" if checkpoint is None else checkpoint.loss
        return Start(cursor=publication.position, is_copied=True)

    async def _why_anew(self, written: Written | None, loss: str) -> str:
        """The reason why everything is published again, else ""; `written` is the last write."""
        checkpoint, database = self._checkpoint, self._run.database
        own = database.node.instance
        if written is None:
            return "the topic had none" if checkpoint is None else "the link begins anew"
        if checkpoint is None:
            return "the topic was deleted or emptied"
        if checkpoint.instance != own or not written.position.is_of(own):
            return "this node was restored"
        if checkpoint.publication != written.publication:
            return "the topic has another publication"
        if damage := _why_damaged(written.begins, written.ends, self._bounds):
            return damage
        if loss:
            return f"this node lost what it had published: {loss}"
        async with database.snapshot(database.pools.tasks) as connection:
            head = await read_head(connection)
        if not head.reaches(written.position.position):
            return "the change log does not reach back to what was published last"
        return ""

    async def preview(self) -> DryRun:
        """The copies that would be published: the changes since the cursor, or everything."""
        run, written = self._run, _read_written(self._run.link.cursor)
        async with open_topic(run.link.definition.target, run.settings) as self._topic:
            is_anew = True
            if await self._topic.partitions():
                await self.meet()
                async with run.database.snapshot() as connection:
                    await self.identify(connection, run.link)
                loss = await self._loss_since(self._checkpoint)
                is_anew = await self._why_anew(written, loss) != ""
        log, result = OwnLog(run), DryRun(rows=0, differing=0)
        if is_anew or written is None:
            pages = log.everything(None)
        else:
            pages = log.changes(written.position.position)
        async with contextlib.aclosing(pages):
            async for page in pages:
                for copy in page.copies:
                    if copy.xid in page.changed:
                        result.note("published", origin_of(copy), copy.epoch, copy.xid)
                if page.is_last:
                    break
        result.rows = result.differing = result.numbers.total()
        return result

    async def begin(self, found: None) -> None:
        """Announce the new publication to readers."""
        await self._publication.checkpoint(None, is_current=False)

    async def apply(self, page: SentPage) -> Applied:
        """Write the changed copies, and a checkpoint; `TopicLost` if the topic has lost records.

        The position of a page without copies goes with the next checkpoint, except that the
        position of the last page is written at intervals.
        """
        publication, now = self._publication, asyncio.get_running_loop().time()
        # A page repeats the ancestors of changed entities, which the topic already has.
        applied = await publication.add([c for c in page.copies if c.xid in page.changed])
        is_due = page.is_last and now - self._told_at >= self._run.interval
        is_whole = publication.position is None
        if page.cursor is not None and (applied.copies or is_due or is_whole):
            if is_due and not applied.copies:
                await self._check()
            await publication.checkpoint(page.cursor, is_current=page.is_last)
            self._told_at = now if page.is_last else self._told_at
        elif page.is_again and applied.copies:
            await publication.checkpoint(publication.position, is_current=False)
        elif publication.unmarked >= _COPIES_BETWEEN_CHECKPOINTS:
            await publication.checkpoint(None, is_current=False)
        return applied

    def told(self, total: Applied) -> tuple[str, str]:
        """The event of a publication in the history of the link, and its details."""
        return "published", f"{counted(total.copies, 'copies')}: {self._reason}"

    async def _loss_since(self, checkpoint: Checkpoint | None) -> str:
        """The reason why this node lacks changes from before its checkpoint, else ""."""
        database = self._run.database
        if checkpoint is None or checkpoint.instance != database.node.instance:
            return ""
        if checkpoint.position is None:
            return checkpoint.loss
        async with database.acquire(database.pools.tasks) as connection:
            return await why_lost(connection, checkpoint.position)

    async def _check(self) -> None:
        """Raise `TopicLost` or `TopicUnusable` unless the topic is still complete."""
        partitions = await self._topic.partitions()
        if not partitions:
            raise TopicLost("the topic was deleted")
        bounds, publication = await self._topic.bounds(partitions), self._publication
        if fault := _why_damaged(publication.begins, publication.ends, bounds):
            raise TopicLost(fault)


def _why_damaged(begins: Iterable[int], ends: Sequence[int], bounds: TopicBounds) -> str:
    """The reason why a topic has lost records between two offsets; "" if it may be complete."""
    if len(ends) != len(bounds.ends):
        return f"the topic has {len(bounds.ends)} partitions, it had {len(ends)}"
    if any(now < then for now, then in zip(bounds.ends, ends, strict=True)):
        return "the topic ends before what was written last: it was truncated or created anew"
    if any(now > then for now, then in zip(bounds.begins, begins, strict=True)):
        return "the topic has lost its beginning: records were deleted"
    return ""


async def _check_rival(
    connection: Connection,
    context: Context,
    definition: LinkDefinition,
    checkpoint: Checkpoint | None,
    link: str | None = None,
) -> None:
    """Raise `ClientError` if another catalog, or another link than `link`, publishes to a topic."""
    if checkpoint is None:
        return
    node = context.database.node
    if checkpoint.authority != node.authority:
        raise ClientError(
            f"{checkpoint.authority} publishes to the topic already.",
            "Give each source a topic of its own.",
        )
    if checkpoint.instance == node.instance and checkpoint.link != link:
        other = await links.get(connection, checkpoint.link)
        if other is not None and other.definition.target == definition.target:
            raise ClientError(
                f"Link {other.id} publishes to the topic already.",
                f"Remove one of the two: `concord link remove {other.id}`.",
            )


async def try_to_publish(context: Context, definition: LinkDefinition) -> None:
    """Raise `ClientError` unless this node can publish to a topic, created if missing."""
    # Kafka is an extra.
    from replication.transfer.topic import prepare

    async with open_topic(definition.target, context.settings) as topic:
        await prepare(topic)
        found = await newest_checkpoint(topic, await topic.bounds(await topic.partitions()))
        checkpoint = None if found is None else found[0]
        async with context.database.acquire() as connection:
            await _check_rival(connection, context, definition, checkpoint)


def _read_written(cursor: str | None) -> Written | None:
    try:
        return None if cursor is None else Written.parse(cursor)
    except ValueError:
        return None
