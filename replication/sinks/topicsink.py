"""The sink of publishing links: a topic."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from catalog.client import ClientError
from catalog.context import Context
from catalog.model.concorderrors import TargetUnusable
from catalog.model.masking import counted
from catalog.store import links
from catalog.store.changes import Position, read_head
from catalog.store.database import Connection
from catalog.store.links import Link, LinkDefinition
from replication.deciding.batch import origin_of
from replication.deciding.provenance import Copy
from replication.sinks.publish import Publication, why_anew, why_damaged
from replication.sources.ownlog import OwnLog, SentPage
from replication.sources.topiccheckpoints import newest_checkpoint
from replication.sources.topiccursor import Written
from replication.sources.topicrecords import Checkpoint
from replication.store.loghistory import why_lost
from replication.transfer.linkdryrun import DryRun
from replication.transfer.linkrun import Applied, LinkRun, Start
from replication.transfer.topicaddress import TopicLost, address_of
from replication.transfer.transfer import LinkPeer, LinkSink

if TYPE_CHECKING:
    from replication.sinks.topicwriter import TopicWriter
    from replication.sources.topic import Topic, TopicBounds

# A reader that begins during the complete copy finds a checkpoint near the end.
_COPIES_BETWEEN_CHECKPOINTS = 10_000


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
        self._since_checkpoint = 0
        self._told_at = float("-inf")

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        # Kafka is an extra.
        from replication.sinks.topicwriter import open_writer
        from replication.sources.topic import open_topic

        settings = self._run.settings
        address = address_of(self._run.link.definition.target, settings)
        async with open_topic(address, settings) as self._topic:
            self._largest = await prepare(self._topic)
            async with open_writer(self._topic, settings) as self._writer:
                yield

    async def meet(self) -> None:
        """Read the newest checkpoint of the topic."""
        self._bounds = await self._topic.bounds(await self._topic.partitions())
        found = await newest_checkpoint(self._topic, self._bounds)
        self._checkpoint = None if found is None else found[0]

    async def identify(self, connection: Connection, link: Link) -> None:
        """Check for a different publisher of the topic; a topic has no identity.

        Raises:
            ClientError: another catalog or another link publishes to the topic.
        """
        context = self._run.context
        if rival := await find_rival(
            connection, context, link.definition, self._checkpoint, link.id
        ):
            raise rival

    async def resume(self, saved: str | None) -> Start[Position]:
        """Continue the publication of the topic, or begin a new publication."""
        run, checkpoint, bounds = self._run, self._checkpoint, self._bounds
        written, self._since_checkpoint = _read_written(saved), 0
        loss = await self._loss_since(checkpoint)
        reason = await self._why_anew(written, loss)
        self._reason, self._told_at = reason, float("-inf")
        self._publication = publication = Publication(
            context=run.context,
            link=run.link,
            writer=self._writer,
            largest=self._largest,
            begins=bounds.ends,
            ends=[*bounds.ends],
            has_conflicts=run.link.conflicts > 0,
        )
        if written is None or reason:
            publication.loss = loss
            return Start(cursor=None, is_copied=False)
        publication.id, publication.begins = written.publication, written.begins
        publication.position = written.position.position
        publication.loss = "" if checkpoint is None else checkpoint.loss
        return Start(cursor=publication.position, is_copied=True)

    async def _why_anew(self, written: Written | None, loss: str) -> str:
        """The reason why everything is published again; "" if the publication continues."""
        instance = self._run.database.node.instance
        if reason := why_anew(written, self._checkpoint, self._bounds, instance):
            return reason
        if loss:
            return f"this node lost what it had published: {loss}"
        if not await self._reaches(written):
            return "the change log does not reach back to what was published last"
        return ""

    async def preview(self) -> DryRun:
        """The copies that would be published: the changes since the cursor, or everything.

        Raises:
            ClientError: the cluster does not answer now, or another catalog publishes to the topic.
        """
        # Kafka is an extra.
        from replication.sources.topic import open_topic

        run, written = self._run, _read_written(self._run.link.cursor)
        address = address_of(run.link.definition.target, run.settings)
        async with open_topic(address, run.settings) as self._topic:
            is_anew = True
            if await self._topic.partitions():
                await self.meet()
                async with run.database.snapshot() as connection:
                    await self.identify(connection, run.link)
                loss = await self._loss_since(self._checkpoint)
                is_anew = written is None or await self._why_anew(written, loss) != ""
        log = OwnLog(run, self.admits)
        if is_anew or written is None:
            pages = log.everything(None)
        else:
            pages = log.changes(written.position.position)
        result = DryRun(rows=0, differing=0)
        async with contextlib.aclosing(pages):
            async for page in pages:
                for copy in page.copies:
                    if copy.xid in page.changed:
                        result.note("published", origin_of(copy), copy.epoch, copy.xid)
                if page.is_last:
                    break
        result.rows = result.differing = result.numbers.total()
        return result

    def admits(self, copy: Copy) -> bool:
        return True

    async def begin(self, found: None) -> None:
        """Announce the new publication to readers."""
        await self._publication.checkpoint(None, is_current=False)

    async def apply(self, page: SentPage) -> Applied:
        """Write the changed copies, and a checkpoint.

        The position of a page without copies goes with the next checkpoint, except that the
        position of the last page is written at intervals.

        Raises:
            TopicLost: the topic has lost records.
        """
        publication, now = self._publication, asyncio.get_running_loop().time()
        # A page repeats the ancestors of changed entities, which the topic already has.
        applied = await publication.add([c for c in page.copies if c.xid in page.changed])
        self._since_checkpoint += applied.copies
        is_due = page.is_last and now - self._told_at >= self._run.interval
        is_whole = publication.position is None
        if page.cursor is not None and (applied.copies or is_due or is_whole):
            if is_due and not applied.copies:
                await self._check()
            await self._write_checkpoint(page.cursor, is_current=page.is_last)
            self._told_at = now if page.is_last else self._told_at
        elif page.is_again and applied.copies:
            await self._write_checkpoint(publication.position, is_current=False)
        elif self._since_checkpoint >= _COPIES_BETWEEN_CHECKPOINTS:
            await self._write_checkpoint(None, is_current=False)
        return applied

    def told(self, total: Applied) -> tuple[str, str]:
        """The event of a publication in the history of the link, and its details."""
        return "published", f"{counted(total.copies, 'copies')}: {self._reason}"

    async def _write_checkpoint(self, position: Position | None, *, is_current: bool) -> None:
        await self._publication.checkpoint(position, is_current=is_current)
        self._since_checkpoint = 0

    async def _loss_since(self, checkpoint: Checkpoint | None) -> str:
        """The reason why this node lacks changes from before a checkpoint.

        Returns:
            "" if nothing is missing, or a different instance wrote the checkpoint.
        """
        database = self._run.database
        if checkpoint is None or checkpoint.instance != database.node.instance:
            return ""
        if checkpoint.position is None:
            return checkpoint.loss
        async with database.acquire(database.pools.tasks) as connection:
            return await why_lost(connection, checkpoint.position)

    async def _reaches(self, written: Written | None) -> bool:
        """Whether this node's log continues from a write."""
        if written is None:
            return False
        database = self._run.database
        async with database.snapshot(database.pools.tasks) as connection:
            return (await read_head(connection)).reaches(written.position.position)

    async def _check(self) -> None:
        """Check that the topic is still complete.

        Raises:
            TopicLost
            TopicUnusable: the topic does not exist.
        """
        partitions = await self._topic.partitions()
        if not partitions:
            raise TopicLost("the topic was deleted")
        bounds, publication = await self._topic.bounds(partitions), self._publication
        if fault := why_damaged(publication.begins, publication.ends, bounds):
            raise TopicLost(fault)


async def prepare(topic: Topic) -> int:
    """Create a missing topic; return the most bytes that the topic takes for a copy.

    Raises:
        TopicUnusable: the topic cannot be created or read.
        ClientError: the topic exists, but does not keep copies.
    """
    # Kafka is an extra.
    from replication.sources.topicsettings import (
        create_topic,
        largest_in,
        read_settings,
        set_up_topic,
        why_unfit,
    )

    partitions = await topic.partitions()
    if not partitions:
        await create_topic(topic)
        partitions = await topic.partitions()
    settings = await read_settings(topic)
    if why_unfit(settings) and (await topic.bounds(partitions)).is_empty:
        await set_up_topic(topic)
        settings = await read_settings(topic)
    if fault := why_unfit(settings):
        raise ClientError(
            f"The topic cannot hold copies: {fault}.",
            "Change its settings, delete it, or name another topic.",
        )
    return largest_in(settings)


async def find_rival(
    connection: Connection,
    context: Context,
    definition: LinkDefinition,
    checkpoint: Checkpoint | None,
    link: str | None = None,
) -> ClientError | None:
    """The error for a topic with a different publisher: a catalog, or a link of this node.

    Args:
        definition: the definition of the link.
        checkpoint: the newest checkpoint of the topic.
        link: the id of the link; `None` for a new link.
    """
    if checkpoint is None:
        return None
    node = context.database.node
    if checkpoint.authority != node.authority:
        return ClientError(
            f"{checkpoint.authority} publishes to the topic already.",
            "Give each source a topic of its own.",
        )
    if checkpoint.instance == node.instance and checkpoint.link != link:
        other = await links.get(connection, checkpoint.link)
        if other is not None and other.definition.target == definition.target:
            return ClientError(
                f"Link {other.id} publishes to the topic already.",
                f"Remove one of the two: `concord link remove {other.id}`.",
            )
    return None


async def probe_topic_to_publish(
    context: Context, definition: LinkDefinition, subject: str
) -> None:
    """Find out whether this node can publish to a topic, which is created if missing.

    Raises:
        TargetUnusable
    """
    from replication.sources.topic import open_topic

    target = definition.target
    try:
        async with open_topic(address_of(target, context.settings), context.settings) as topic:
            await prepare(topic)
            found = await newest_checkpoint(topic, await topic.bounds(await topic.partitions()))
            checkpoint = None if found is None else found[0]
            async with context.database.acquire() as connection:
                if rival := await find_rival(connection, context, definition, checkpoint):
                    raise rival
    except ClientError as error:
        raise TargetUnusable(
            subject, target=target, error_detail=error.message.rstrip("."), detail=error.hint
        ) from error


def _read_written(cursor: str | None) -> Written | None:
    try:
        return None if cursor is None else Written.parse(cursor)
    except ValueError:
        return None
