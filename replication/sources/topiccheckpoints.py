"""Finds the newest checkpoint of a topic, which names the publisher."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replication.sources.topicrecords import (
    CHECKPOINT_KEY,
    CHECKPOINT_PARTITION,
    Checkpoint,
    read_checkpoint,
)

if TYPE_CHECKING:
    from replication.sources.topic import Topic, TopicBounds

_FIRST_STEP, _FACTOR, _MOST_OFFSETS = 1000, 4, 1_000_000


async def newest_checkpoint(
    topic: Topic, bounds: TopicBounds, authority: str | None = None
) -> tuple[Checkpoint, int] | None:
    """Read a topic back from its end to the newest checkpoint; return it with its offset.

    Args:
        authority: skip the checkpoints of other authorities, unless the topic has no checkpoint of
            this authority.
    """
    begin, end = bounds.begins[CHECKPOINT_PARTITION], bounds.ends[CHECKPOINT_PARTITION]
    # A topic with other contents may be endless.
    begin, step = max(begin, end - _MOST_OFFSETS), _FIRST_STEP
    other: tuple[Checkpoint, int] | None = None
    while end > begin:
        start = max(begin, end - step)
        found: tuple[Checkpoint, int] | None = None
        foreign: tuple[Checkpoint, int] | None = None
        async for records in topic.read_range(
            {CHECKPOINT_PARTITION: start}, {CHECKPOINT_PARTITION: end}
        ):
            for record in records:
                checkpoint = read_checkpoint(record.value) if record.key == CHECKPOINT_KEY else None
                if checkpoint is None:
                    continue
                if authority in (None, checkpoint.authority):
                    found = checkpoint, record.offset
                else:
                    foreign = checkpoint, record.offset
        if found is not None:
            return found
        other = other or foreign
        end, step = start, step * _FACTOR
    return other
