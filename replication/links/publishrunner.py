"""Runs one link that publishes to a topic."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from catalog.client import ClientError
from catalog.context import Context
from catalog.model.concorderrors import TargetUnusable
from catalog.model.masking import counted
from catalog.operations.feed import MOST_CHANGES
from catalog.store import links
from catalog.store.changes import read_head
from catalog.store.database import Connection
from catalog.store.links import LinkDefinition, LinkReplaced
from catalog.store.loghistory import why_lost
from replication.feed.feedpages import CursorGone, Page, ServerLeft, read_feed
from replication.feed.ownlog import LOG, next_page
from replication.links.pushrunner import PushRunner
from replication.sinks.publish import (
    Publication,
    publish_everything,
    publish_page,
    why_anew,
    why_damaged,
)
from replication.sources.topicaddress import TopicLost, address_of
from replication.sources.topiccursor import Written
from replication.sources.topicmarks import newest_mark
from replication.sources.topicrecords import Mark

if TYPE_CHECKING:
    from replication.sinks.topicwriter import TopicWriter
    from replication.sources.topic import Topic, TopicBounds


class PublishRunner(PushRunner):
    """Writes all entities to the topic of a link, then every change.

    The cursor is saved after the cluster has acknowledged what is before it. A topic that has not
    everything is written again from the beginning, as another publication.
    """

    async def _follow(self) -> None:
        # Kafka is an extra.
        from replication.sinks.topicwriter import open_writer
        from replication.sources.topic import open_topic

        settings = self._resources.context.settings
        address = address_of(self.link.definition.target, settings)
        try:
            async with open_topic(address, settings) as topic:
                largest = await prepare(topic)
                async with open_writer(topic, settings) as writer:
                    publication = await self._go_on(topic, writer, largest)
                    await self._publish_changes(topic, publication)
        except (CursorGone, TopicLost) as error:
            reason = error.title if isinstance(error, CursorGone) else error.message
            async with self._database.transaction() as connection:
                await links.forget_cursor(connection, self.link)
            await self._remember("resynchronise", reason)
            await self._resources.timing.sleep(self._delay(1))

    async def _go_on(self, topic: Topic, writer: TopicWriter, largest: int) -> Publication:
        """Go on with the publication of the topic, or write another one."""
        bounds = await topic.bounds(await topic.partitions())
        found = await newest_mark(topic, bounds)
        mark = None if found is None else found[0]
        context = self._resources.context
        async with self._database.acquire() as connection:
            link = await links.get(connection, self.id)
            if link is None or link.revision != self.revision:
                raise LinkReplaced(self.id)
            if rival := await find_rival(connection, context, link.definition, mark, link.id):
                raise rival
        written = _read_written(link.cursor)
        reason = why_anew(written, mark, bounds, self._database.node.instance)
        loss = await self._loss_since(mark)
        if not reason and loss:
            reason = f"this node lost what it had published: {loss}"
        if not reason and not await self._reaches(written):
            reason = "the change log does not reach back to what was published last"
        publication = Publication(
            context=context,
            link=link,
            writer=writer,
            largest=largest,
            begins=bounds.ends,
            ends=[*bounds.ends],
            has_conflicts=link.conflicts > 0,
        )
        if written is not None and not reason:
            publication.id, publication.begins = written.publication, written.begins
            publication.position = written.position.position
            publication.loss = "" if mark is None else mark.loss
            return publication
        publication.loss = loss
        await self._report("copying")
        number = await publish_everything(publication)
        await self._remember("published", f"{counted(number, 'copies')}: {reason}")
        return publication

    async def _loss_since(self, mark: Mark | None) -> str:
        """The reason why this node lacks something that it had when it wrote a mark; "" if it lacks
        nothing, or another instance wrote it."""
        if mark is None or mark.instance != self._database.node.instance:
            return ""
        if mark.position is None:
            return mark.loss
        async with self._database.acquire(self._database.pools.tasks) as connection:
            return await why_lost(connection, mark.position)

    async def _reaches(self, written: Written | None) -> bool:
        """Whether this node's log goes on from there."""
        if written is None:
            return False
        async with self._database.snapshot(self._database.pools.tasks) as connection:
            return (await read_head(connection)).reaches(written.position.position)

    async def _publish_changes(self, topic: Topic, publication: Publication) -> None:
        """Publish the pages of the log as it grows, for ever."""
        loop = asyncio.get_running_loop()
        interval = self._resources.context.settings.pull_interval_seconds
        page: Page | None = None
        left = self._database.shared.servers_left
        position, told_at = publication.position, loop.time() - interval
        assert position is not None, "everything was published"
        while True:
            self.wakeup.clear()
            if self._database.shared.servers_left != left:
                raise ServerLeft(LOG)
            page = page or await read_feed(self._database, LOG, position, MOST_CHANGES)
            is_last = page.end < page.seen
            if await publish_page(publication, page, is_current=is_last):
                told_at = loop.time()
            position = page.end
            if is_last:
                if loop.time() - told_at >= interval:
                    await _check(topic, publication)
                    await publication.mark(position, is_current=True)
                    told_at = loop.time()
                self._failures = 0
                await self._report("current", currentat=datetime.now(UTC))
                page = await next_page(self._database, self.wakeup, page.seen, interval)
            else:
                page = None


async def prepare(topic: Topic) -> int:
    """Create the topic if it is not there; return the most bytes that it takes for a copy.

    Raises:
        TopicUnusable: it is there, and does not keep copies.
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
    mark: Mark | None,
    link: str | None = None,
) -> ClientError | None:
    """The error that another catalog, or another link of this one, publishes to a topic.

    Args:
        definition: the link's.
        mark: the newest one of the topic.
        link: the id of the link, if it has one already.
    """
    if mark is None:
        return None
    node = context.database.node
    if mark.authority != node.authority:
        return ClientError(
            f"{mark.authority} publishes to the topic already.",
            "Give each source a topic of its own.",
        )
    if mark.instance == node.instance and mark.link != link:
        other = await links.get(connection, mark.link)
        if other is not None and other.definition.target == definition.target:
            return ClientError(
                f"Link {other.id} publishes to the topic already.",
                f"Remove one of the two: `concord link remove {other.id}`.",
            )
    return None


async def probe_topic_to_publish(
    context: Context, definition: LinkDefinition, subject: str
) -> None:
    """Find out whether this node can publish to a topic, which is created if it is not there.

    Raises:
        TargetUnusable
    """
    from replication.sources.topic import open_topic

    target = definition.target
    try:
        async with open_topic(address_of(target, context.settings), context.settings) as topic:
            await prepare(topic)
            found = await newest_mark(topic, await topic.bounds(await topic.partitions()))
            mark = None if found is None else found[0]
            async with context.database.acquire() as connection:
                if rival := await find_rival(connection, context, definition, mark):
                    raise rival
    except ClientError as error:
        raise TargetUnusable(
            subject, target=target, error_detail=error.message.rstrip("."), detail=error.hint
        ) from error


async def _check(topic: Topic, publication: Publication) -> None:
    """Look whether the topic still has everything.

    Raises:
        TopicLost
        TopicUnusable: it is not there.
    """
    partitions = await topic.partitions()
    if not partitions:
        raise TopicLost("the topic was deleted")
    bounds: TopicBounds = await topic.bounds(partitions)
    if fault := why_damaged(publication.begins, publication.ends, bounds):
        raise TopicLost(fault)


def _read_written(cursor: str | None) -> Written | None:
    try:
        return None if cursor is None else Written.parse(cursor)
    except ValueError:
        return None
