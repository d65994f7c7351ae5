"""Wakes a link by the events of its source that a Kafka topic carries."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import structlog

from catalog.config import Settings
from replication.links.linkrunner import LinkRunner
from replication.sources.pull import Flow
from replication.sources.topicaddress import TopicLost, TopicUnusable, address_of

_WAIT_SECONDS = 30.0
_PAUSE_SECONDS = 5.0
_log = structlog.get_logger()


class EventTopicRunner(LinkRunner):
    """Follows a link whose source cannot post events to this node, but to a topic.

    The events are hints. While the topic cannot be read, the link reads the feed now and then.
    """

    async def _follow(self) -> None:
        listening = asyncio.create_task(self._listen())
        try:
            await super()._follow()
        finally:
            listening.cancel()
            await asyncio.wait([listening])

    async def _check_subscription(self, flow: Flow, *, is_doubtful: bool = False) -> None:
        """Subscribe the topic at the source, unless only the source's operator knows its cluster.

        A topic without brokers is of the cluster in this node's settings, whose credential no
        source is told.
        """
        if urlsplit(self.link.definition.eventtopic).netloc:
            await super()._check_subscription(flow, is_doubtful=is_doubtful)

    async def _listen(self) -> None:
        settings, told = self._resources.context.settings, ""
        while True:
            try:
                await _wake_at_events(self.link.definition.eventtopic, settings, self.wakeup)
            except (TopicUnusable, TopicLost) as error:
                if error.message != told:
                    told = error.message
                    _log.warning("no events from the topic", link=self.id, cause=told)
            except Exception:
                _log.exception("listening to a topic failed", link=self.id)
            await asyncio.sleep(_PAUSE_SECONDS)


async def _wake_at_events(url: str, settings: Settings, wakeup: asyncio.Event) -> None:
    """Set `wakeup` at each record that comes from now on, whatever it says, and once at first.

    Raises:
        TopicUnusable, TopicLost
    """
    # Kafka is an extra.
    from replication.sources.topic import open_topic

    async with open_topic(address_of(url, settings), settings) as topic:
        partitions = await topic.partitions()
        if not partitions:
            raise TopicUnusable("There is no topic of this name.")
        bounds = await topic.bounds(partitions)
        topic.seek(dict(enumerate(bounds.ends)))
        wakeup.set()
        while True:
            if await topic.read(_WAIT_SECONDS):
                wakeup.set()
