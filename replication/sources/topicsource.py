"""The source of links that follow a topic, with another node as the publisher.

Records are read in their order, and the offsets are saved with the copies. In a compacted topic, a
child may precede its parent, and a record is not always the newest of its origin. So copies that
could not be applied are read again at the end of the topic.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from catalog.client import ClientError
from catalog.context import Context
from catalog.model.digest import DIGEST_VERSION
from catalog.model.entity import Origin
from catalog.operations.links import FoundCatalog
from catalog.operations.peers import Handshake
from catalog.store import entities as store
from catalog.store.database import Connection
from catalog.store.links import Link, LinkDefinition
from replication.applying.replicas import await_earlier_batches
from replication.deciding.batch import origin_of
from replication.deciding.copychecks import Incoming, MalformedCopy
from replication.deciding.provenance import meet_claim
from replication.peers.handshake import check_not_own, found_catalog, why_lost
from replication.sources.copypages import CopyPage
from replication.store import doubtedcopies
from replication.store.linkconflicts import MOST_CONFLICTS
from replication.transfer.linkrun import LinkRun, PeerIdentity, Start, until_woken
from replication.transfer.topicrecords import (
    CHECKPOINT_PARTITION,
    Checkpoint,
    TopicLost,
    TopicOffsets,
    TopicUnusable,
    newest_checkpoint,
    open_topic,
    read_record,
)
from replication.transfer.transfer import LinkPeer, LinkSource

if TYPE_CHECKING:
    from replication.transfer.topic import Topic, TopicBounds, TopicRecord

_ORIGINS_AT_ONCE = 1000
# One round each for groups, resources and versions, and one for superseded copies.
_MOST_ROUNDS = 4
_REPORT_SECONDS = 1.0
_LONGEST_WAIT = 20.0
# A wait that takes a smaller share of its time was ended by an operator.
_WHOLE_WAIT = 0.9
_WRITTEN_ANEW = "its source has written the topic anew"


class TopicSource(LinkSource, LinkPeer):
    """Reads a topic from the beginning of its publication, then continues as the topic grows."""

    has_costly_retries = True

    def __init__(self, run: LinkRun) -> None:
        self._run = run
        self._topic: Topic
        # At the contact with the source: the newest checkpoint, its offset, and the bounds of the
        # topic.
        self._met: tuple[Checkpoint, int, TopicBounds]
        # The newest checkpoint among the records read so far, and its offset.
        self._checkpoint: Checkpoint | None = None
        self._checkpointed = -1
        # The time of the checkpoint, and the time when the link last read the whole topic, both by
        # the clock of this node.
        self._written_at = self._read_all_at = datetime.min.replace(tzinfo=UTC)
        # For each partition, the offset of the publication's beginning, and the offset of the next
        # record.
        self._begins: tuple[int, ...] = ()
        self._offsets: TopicOffsets | None = None
        # For each partition, the offset of the last copy read.
        self._copied: dict[int, int] = {}

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        run = self._run
        async with open_topic(run.link.definition.source, run.settings) as self._topic:
            yield

    async def meet(self) -> None:
        """Learn the publisher from the newest checkpoint; the publisher must not be this node."""
        run = self._run
        self._met, self._offsets = await read_state(self._topic, run.link.authority), None
        run.source = _identity_in(self._met[0])
        check_not_own(run.context, run.source)

    async def identify(self, connection: Connection, link: Link) -> PeerIdentity:
        checkpoint, before = self._met[0], _offsets_in(link.cursor)
        await meet_claim(connection, link, checkpoint.authority)
        is_anew = before is not None and before.publication != checkpoint.publication
        return PeerIdentity(
            instance=checkpoint.instance,
            authority=checkpoint.authority,
            loss=why_lost(link, checkpoint.instance) or (checkpoint.loss if is_anew else ""),
            changed=f"the source is {checkpoint.instance} now, it was {link.instance}",
        )

    async def resume(self, saved: str | None) -> Start[str]:
        """Continue from the saved offsets, if they belong to the present publication."""
        run, at = self._run, _offsets_in(saved)
        checkpoint, _, bounds = self._met
        if at is not None and at.publication != checkpoint.publication:
            loss = run.link.loss or ""
            reason = f"{_WRITTEN_ANEW}: {loss}" if loss else _WRITTEN_ANEW
            await run.remember("lost data" if loss else "resynchronise", reason)
            at = None
        self._begins, self._copied = checkpoint.begins, {}
        if at is None:
            _check_beginning(checkpoint, bounds)
            return Start(cursor=None, is_copied=False)
        return Start(cursor=saved, is_copied=at.position is not None)

    async def everything(self, after: str | None) -> AsyncGenerator[CopyPage]:
        """The records up to the end, then the copies again that could not be applied.

        If an operator has set up the link since the last complete copy, copies from the source's
        own authority replace the held copies, whatever the epochs.
        """
        checkpoint = self._met[0]
        beginning = TopicOffsets(publication=checkpoint.publication, offsets=checkpoint.begins)
        self._go_on_from(_offsets_in(after) or beginning)
        while True:
            async for page in self._read_on(is_bulk=True):
                yield page
            if self._checkpoint is not None and self._checkpoint.position is not None:
                break
            # The source is still writing the complete copy of the publication.
            seconds = min(self._run.interval, _LONGEST_WAIT)
            coming = await until_woken(self._next(seconds, is_bulk=True), self._run.wakeup)
            if coming is not None:
                yield coming
        yield CopyPage(lists_all=True)
        async for page in self._refused():
            yield page
        self._offsets = replace(self._here, position=self._checkpoint.position)
        yield CopyPage(cursor=str(self._offsets))

    async def changes(self, cursor: str) -> AsyncGenerator[CopyPage]:
        """Read up to the end, then new records, for ever."""
        at = TopicOffsets.parse(cursor)
        if at != self._offsets:
            self._go_on_from(at)
        while True:
            self._run.wakeup.clear()
            async for page in self._read_on():
                yield page
            yield self._rest()
            async for page in self._wait():
                yield page

    async def again(self, *, is_requested: bool) -> AsyncGenerator[CopyPage]:
        """Read the copies again that could not be applied, since the cause may be gone."""
        async for page in self._refused():
            yield page

    @property
    def _here(self) -> TopicOffsets:
        assert self._offsets is not None, "the link reads the topic"
        return self._offsets

    def _go_on_from(self, at: TopicOffsets) -> None:
        """Continue from offsets; the checkpoint of the contact counts as read if before them."""
        checkpoint, checkpointed, _ = self._met
        self._offsets, self._checkpoint, self._checkpointed = at, None, -1
        if checkpointed < at.offsets[0]:
            self._note(checkpoint, checkpointed)

    def _note(self, checkpoint: Checkpoint, offset: int) -> None:
        """Note the newest checkpoint, and its time within the bounds of this node's clock."""
        self._checkpoint, self._checkpointed = checkpoint, offset
        # The clock of the source may be wrong.
        self._written_at = min(max(checkpoint.at, self._read_all_at), datetime.now(UTC))

    async def _read_on(self, *, is_bulk: bool = False) -> AsyncGenerator[CopyPage]:
        """Read up to the present end of the topic; `TopicLost` if it lacks the next records."""
        began, offsets = datetime.now(UTC), self._here.offsets
        bounds = await self._topic.bounds(len(offsets))
        for each, offset in enumerate(offsets):
            if not bounds.begins[each] <= offset <= bounds.ends[each]:
                raise TopicLost(
                    f"of partition {each}, the topic has the offsets {bounds.begins[each]} to "
                    f"{bounds.ends[each]}, and {offset} comes next"
                )
        while any(at < end for at, end in zip(self._here.offsets, bounds.ends, strict=True)):
            page = await self._next(self._run.settings.request_timeout_seconds, is_bulk=is_bulk)
            if page is None:
                raise TopicUnusable(f"{self._run.peer.url} did not answer in time.")
            yield page
            self._check_publication()
        self._read_all_at = began

    async def _wait(self) -> AsyncGenerator[CopyPage]:
        """Read new records until none come for a while, or the link is woken."""
        run, loop = self._run, asyncio.get_running_loop()
        seconds = min(run.interval, _LONGEST_WAIT)
        ends, told = loop.time() + seconds, loop.time() - _REPORT_SECONDS
        while run.requested == run.retried and loop.time() < ends:
            began = loop.time()
            page = await until_woken(self._next(seconds), run.wakeup)
            if page is None and loop.time() - began < _WHOLE_WAIT * seconds:
                # An operator wants a retry of refused copies.
                run.requested += 1
            if page is None:
                return
            yield page
            self._check_publication()
            if loop.time() - told >= _REPORT_SECONDS:
                told = loop.time()
                yield self._rest()
            seconds = min(seconds, _REPORT_SECONDS)

    def _rest(self) -> CopyPage:
        """The end of the records, and whether the source had nothing further at that time."""
        checkpoint = self._checkpoint
        if checkpoint is None or not self._is_current(checkpoint):
            return CopyPage(is_last=True, is_behind=True)
        return CopyPage(is_last=True, currentat=self._written_at)

    def _is_current(self, checkpoint: Checkpoint) -> bool:
        """Whether the source had nothing further when it wrote the last record read."""
        if not checkpoint.is_current or not _is_reached(checkpoint, self._here.offsets):
            return False
        limits = {**dict(enumerate(checkpoint.ends)), CHECKPOINT_PARTITION: self._checkpointed}
        return all(offset < limits[each] for each, offset in self._copied.items())

    async def _next(self, seconds: float, *, is_bulk: bool = False) -> CopyPage | None:
        """Read the next records; `None` if none came."""
        at = self._here
        if self._topic.offsets != at.offsets:
            self._topic.seek(dict(enumerate(at.offsets)))
        records = await self._topic.read(seconds)
        offsets = self._topic.offsets
        if offsets == at.offsets:
            return None
        copies, checkpoint, checkpointed = self._sort(records)
        if checkpoint is not None:
            self._note(checkpoint, checkpointed)
        self._offsets = _moved(at, offsets, self._checkpoint)
        for record in records:
            if record.partition != CHECKPOINT_PARTITION or record.offset > checkpointed:
                self._copied[record.partition] = record.offset
        return CopyPage(copies=copies, cursor=str(self._offsets), is_bulk=is_bulk)

    def _check_publication(self) -> None:
        """Check that the newest checkpoint belongs to the publication that the link reads."""
        if self._checkpoint is not None and self._checkpoint.publication != self._here.publication:
            raise TopicLost(_WRITTEN_ANEW, loss=self._checkpoint.loss)

    def _sort(
        self, records: Sequence[TopicRecord]
    ) -> tuple[list[Incoming], Checkpoint | None, int]:
        """The last copy of each origin, the malformed copies, and the newest checkpoint."""
        checkpoint, checkpointed = None, -1
        copies: dict[Origin, Incoming] = {}
        malformed: list[Incoming] = []
        for record in records:
            read = read_record(record.key, record.value)
            if isinstance(read, MalformedCopy):
                malformed.append(read)
            elif not isinstance(read, Checkpoint):
                copies[origin_of(read)] = read
            elif read.authority == self._run.policy.sender:
                checkpoint, checkpointed = read, record.offset
        return [*copies.values(), *malformed], checkpoint, checkpointed

    async def _refused(self) -> AsyncGenerator[CopyPage]:
        """The copies that could not be applied, read again from the beginning of the publication.

        The rounds end when a round no longer reduces the number of conflicts, at the latest after
        `_MOST_ROUNDS`.
        """
        run = self._run
        is_doubting = run.link.doubts
        if is_doubting:
            await await_earlier_batches(run.context)
        origins = await self._conflicts()
        for _ in range(_MOST_ROUNDS):
            has_doubted = is_doubting and await self._doubt(origins)
            if not origins:
                break
            async for page in self._read_again(origins, is_bulk=has_doubted):
                yield page
            left = await self._conflicts()
            is_done = len(left) >= len(origins) and not has_doubted
            origins = left
            if is_done:
                break
        if is_doubting:
            async with run.database.transaction() as connection:
                await doubtedcopies.doubt_only(connection, run.link, {})
            run.link = replace(run.link, doubts=False)

    async def _read_again(
        self, origins: Collection[Origin], *, is_bulk: bool
    ) -> AsyncGenerator[CopyPage]:
        # If the record of conflicts is full, every origin may be in conflict.
        wanted = None if len(origins) >= MOST_CONFLICTS else frozenset(origins)
        begins, ends = dict(enumerate(self._begins)), dict(enumerate(self._here.offsets))
        async for records in self._topic.read_range(begins, ends):
            copies, _, _ = self._sort(records)
            again = [
                copy
                for copy in copies
                if wanted is None or Origin(copy.authority, copy.origin) in wanted
            ]
            if again:
                yield CopyPage(copies=again, is_bulk=is_bulk)

    async def _conflicts(self) -> list[Origin]:
        pages = self._run.conflicts(_ORIGINS_AT_ONCE)
        return [conflict.origin async for page in pages for conflict in page]

    async def _doubt(self, origins: Sequence[Origin]) -> bool:
        """Doubt the held copies of these origins, as far as the source is their authority."""
        own = [each for each in origins if self._run.policy.is_own_word(each)]
        async with self._run.database.transaction() as connection:
            live = await store.load_by_origin(connection, own)
            deleted = await store.load_tombstones(connection, own)
            digests = {each.xid: copy.digest for each, copy in live.items()}
            digests |= {each.xid: end.digest for each, end in deleted.items()}
            await doubtedcopies.doubt_only(connection, self._run.link, digests)
        return bool(digests)


async def read_state(topic: Topic, authority: str | None) -> tuple[Checkpoint, int, TopicBounds]:
    """The newest checkpoint of a topic, if possible of an authority, its offset and the bounds.

    Raises:
        ClientError: the topic has no publisher, or a publisher with another version of digests.
    """
    partitions = await topic.partitions()
    if not partitions:
        raise TopicUnusable("There is no topic of this name.", "Its source creates it.")
    bounds = await topic.bounds(partitions)
    found = await newest_checkpoint(topic, bounds, authority)
    if found is None:
        raise TopicUnusable("Nobody publishes to the topic yet.")
    checkpoint, checkpointed = found
    if checkpoint.digestversion != DIGEST_VERSION:
        raise ClientError(
            f"Its source computes digests by version {checkpoint.digestversion}, "
            f"here it is {DIGEST_VERSION}.",
            "Bring both to the same version of Concord.",
        )
    return checkpoint, checkpointed, bounds


async def find_publisher(context: Context, definition: LinkDefinition) -> FoundCatalog:
    """Describe the publisher of a topic; `ClientError` if there is none to follow."""
    async with open_topic(definition.source, context.settings) as topic:
        checkpoint, _, _ = await read_state(topic, None)
    identity = _identity_in(checkpoint)
    check_not_own(context, identity)
    return found_catalog(identity)


def _identity_in(checkpoint: Checkpoint) -> Handshake:
    return Handshake(
        instance=checkpoint.instance,
        authority=checkpoint.authority,
        software=checkpoint.software,
        digestversion=checkpoint.digestversion,
    )


def _offsets_in(cursor: str | None) -> TopicOffsets | None:
    try:
        return None if cursor is None else TopicOffsets.parse(cursor)
    except ValueError:
        return None


def _check_beginning(checkpoint: Checkpoint, bounds: TopicBounds) -> None:
    """Check that a topic still has the beginning of a publication."""
    is_there = len(checkpoint.begins) <= len(bounds.begins) and all(
        first <= begin <= after
        for begin, first, after in zip(checkpoint.begins, bounds.begins, bounds.ends, strict=False)
    )
    if not is_there:
        raise TopicUnusable(
            "The topic has lost its beginning.", "Its source writes it anew when it notices that."
        )


def _moved(
    before: TopicOffsets, offsets: tuple[int, ...], checkpoint: Checkpoint | None
) -> TopicOffsets:
    """The new offsets, with the position of the newest checkpoint if every copy before it was read.

    A cursor within the complete copy has no position.
    """
    moved = replace(before, offsets=offsets)
    if before.position is None or checkpoint is None or checkpoint.position is None:
        return moved
    if checkpoint.publication != before.publication or not _is_reached(checkpoint, offsets):
        return moved
    return replace(moved, position=max(before.position, checkpoint.position))


def _is_reached(checkpoint: Checkpoint, offsets: tuple[int, ...]) -> bool:
    """Whether the offsets have passed the ends of a checkpoint in all partitions but its own."""
    ends = list(zip(offsets, checkpoint.ends, strict=False))
    del ends[CHECKPOINT_PARTITION]
    return len(offsets) == len(checkpoint.ends) and all(offset >= end for offset, end in ends)
