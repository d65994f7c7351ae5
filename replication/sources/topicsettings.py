"""Creates a topic of copies with the required settings, and checks the settings of a topic."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiokafka.admin import NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import TopicAlreadyExistsError, TopicAuthorizationFailedError, for_code

from replication.sources.topic import ROOM, Topic
from replication.sources.topicrecords import LARGEST_RECORD
from replication.transfer.topicaddress import TopicUnusable

# Brokers learn of a new topic with a delay.
_LOOKS, _BETWEEN_LOOKS = 100, 0.05
_SETTINGS = {
    "cleanup.policy": "compact",
    "max.message.bytes": str(LARGEST_RECORD + ROOM),
    # The broker stores every record uncompressed, so that a small record cannot exhaust a reader.
    "compression.type": "uncompressed",
    # Brokers refuse producer timestamps that are an hour ahead.
    "message.timestamp.type": "LogAppendTime",
}
_UNCOMPRESSED = ("uncompressed", "producer", "none")


async def create_topic(topic: Topic) -> None:
    """Create the topic, compacted.

    Raises:
        TopicUnusable
    """
    async with topic.administration() as admin:
        # -1 means the cluster's default number of replicas.
        wanted = NewTopic(
            topic.address.name, 1, -1, replica_assignments={}, topic_configs=_SETTINGS
        )
        answer: Any = await admin.create_topics([wanted])
        for _, code, *_ in answer.topic_errors:
            fault = for_code(code)
            if code and not issubclass(fault, TopicAlreadyExistsError):
                raise fault(topic.address.name)
    for _ in range(_LOOKS):
        if await topic.partitions():
            return
        await asyncio.sleep(_BETWEEN_LOOKS)
    raise TopicUnusable(f'The topic "{topic.address.name}" was created, and is not there.')


async def read_settings(topic: Topic) -> dict[str, str]:
    """The relevant settings of the topic; none if the cluster does not show them."""
    async with topic.administration() as admin:
        wanted = ConfigResource(
            ConfigResourceType.TOPIC, topic.address.name, dict.fromkeys(_SETTINGS)
        )
        answer: Any = (await admin.describe_configs([wanted]))[0]
        [(code, _, _, _, entries)] = answer.resources
        if code and issubclass(for_code(code), TopicAuthorizationFailedError):
            return {}
        if code:
            raise for_code(code)(topic.address.name)
        return {name: value for name, value, *_ in entries}


async def set_up_topic(topic: Topic) -> None:
    """Give the topic, which is empty, the settings of a new topic of copies."""
    async with topic.administration() as admin:
        wanted = ConfigResource(ConfigResourceType.TOPIC, topic.address.name, _SETTINGS)
        answer: Any = (await admin.alter_configs([wanted]))[0]
        for code, *_ in answer.resources:
            if code:
                raise for_code(code)(topic.address.name)


def why_unfit(settings: Mapping[str, str]) -> str:
    """The reason why a topic with these settings does not keep copies; "" for a suitable topic."""
    policy = settings.get("cleanup.policy", "compact")
    if policy != "compact":
        return f'its cleanup.policy is "{policy}", so that Kafka deletes what new readers need'
    compression = settings.get("compression.type", "producer")
    if compression not in _UNCOMPRESSED:
        return f'its compression.type is "{compression}", and readers take none'
    return ""


def largest_in(settings: Mapping[str, str]) -> int:
    """The most bytes of the value of a record."""
    text = settings.get("max.message.bytes", "")
    most = int(text) if text.isdigit() else 1024 * 1024
    return max(0, min(most - ROOM, LARGEST_RECORD)) if most > 2 * ROOM else most // 2
