"""Finds the newest mark of a topic, which says who publishes there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replication.sources.topicrecords import MARK_KEY, MARK_PARTITION, Mark, read_mark

if TYPE_CHECKING:
    from replication.sources.topic import Topic, TopicBounds

_FIRST_STEP, _FACTOR, _MOST_OFFSETS = 1000, 4, 1_000_000


async def newest_mark(
    topic: Topic, bounds: TopicBounds, authority: str | None = None
) -> tuple[Mark, int] | None:
    """Read a topic back from its end until there is a mark; return it with its offset.

    Args:
        authority: pass over the marks of others, unless there are no more.
    """
    begin, end = bounds.begins[MARK_PARTITION], bounds.ends[MARK_PARTITION]
    # A topic of something else may be endless.
    begin, step = max(begin, end - _MOST_OFFSETS), _FIRST_STEP
    other: tuple[Mark, int] | None = None
    while end > begin:
        start = max(begin, end - step)
        found: tuple[Mark, int] | None = None
        async for records in topic.read_range({MARK_PARTITION: start}, {MARK_PARTITION: end}):
            for record in records:
                mark = read_mark(record.value) if record.key == MARK_KEY else None
                if mark is None:
                    continue
                if authority in (None, mark.authority):
                    found = mark, record.offset
                else:
                    other = other or (mark, record.offset)
        if found is not None:
            return found
        end, step = start, step * _FACTOR
    return other
