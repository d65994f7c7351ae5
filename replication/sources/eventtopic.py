"""Wakes a link by the events of its source that a Kafka topic carries."""

from __future__ import annotations

import asyncio

import structlog

from catalog.config import Settings
from replication.transfer.linkrun import LinkRun
from replication.transfer.topicaddress import TopicLost, TopicUnusable, address_of

_WAIT_SECONDS = 30.0
_PAUSE_SECONDS = 5.0
_log = structlog.get_logger()


async def wake_by_topic(topic: str, run: LinkRun) -> None:
    """Wake a link at the events in a topic, for ever.

    The events are hints. While the topic cannot be read, the link reads the feed now and then.
    """
    told = ""
    while True:
        try:
            await _wake_at_events(topic, run.settings, run.wakeup)
        except (TopicUnusable, TopicLost) as error:
            if error.message != told:
                told = error.message
                _log.warning("no events from the topic", link=run.link.id, cause=told)
        except Exception:
            _log.exception("listening to a topic failed", link=run.link.id)
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
