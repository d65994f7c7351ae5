"""The cursors of links over a topic: the end of a source's writes, and of a target's reads.

Both cursors begin with a position in the source's log, so that a read at the target can wait for
the position.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Self

from catalog.store.logpositions import LogCursor
from replication.sources.topicrecords import read_offsets, write_offsets

_NONE = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOffsets:
    """The cursor of a target: the offset of the next record of each partition.

    `position` is `None` until the target has read the complete copy.
    """

    publication: uuid.UUID
    offsets: tuple[int, ...]
    position: LogCursor | None = None

    def __str__(self) -> str:
        return f"{_text(self.position)}@{self.publication.hex}/{write_offsets(self.offsets)}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text that `str` returns.

        Raises:
            ValueError: `text` is not a place.
        """
        position, publication, offsets = _parts(text, 3)
        return cls(
            publication=uuid.UUID(hex=publication),
            offsets=read_offsets(offsets),
            position=_position(position),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The end of a source's writes: everything up to a position of its log.

    Args:
        publication: the id of the complete copy with every change after it.
        begins: for each partition, the offset where the publication begins.
        ends: for each partition, the offset after the last record of the source.
        position: the position in the source's log.
    """

    publication: uuid.UUID
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    position: LogCursor

    def __str__(self) -> str:
        offsets = f"{write_offsets(self.begins)}/{write_offsets(self.ends)}"
        return f"{self.position}@{self.publication.hex}/{offsets}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text that `str` returns.

        Raises:
            ValueError: `text` is something else.
        """
        position, publication, begins, ends = _parts(text, 4)
        return cls(
            publication=uuid.UUID(hex=publication),
            begins=read_offsets(begins),
            ends=read_offsets(ends),
            position=LogCursor.parse(position),
        )


def _parts(text: str, count: int) -> list[str]:
    position, _, rest = text.partition("@")
    parts = [position, *rest.split("/")]
    if len(parts) != count:
        raise ValueError(f"{text!r} is not a cursor of a topic")
    return parts


def _text(position: LogCursor | None) -> str:
    return _NONE if position is None else str(position)


def _position(text: str) -> LogCursor | None:
    return None if text == _NONE else LogCursor.parse(text)
