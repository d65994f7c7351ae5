"""A position in the change log of one node, in the form that other programs keep."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from typing import Self

from catalog.store.changes import Position

CHECKSUM_DIGITS = 12
_FORM = re.compile(
    r"([0-9a-f]{8})\.([0-9]{1,19}\.[0-9]{1,19})(?:\.([0-9a-f]{12})\.([0-9a-f]{8}))?", re.ASCII
)


@dataclass(frozen=True, slots=True, order=True)
class LogCursor:
    """A position with the instance of the node whose log it is in, by the first 8 digits of its id.

    Only cursors of one instance can be compared. Of these, later ones are greater, and so are
    their texts.

    Args:
        checksum: of the change at the position, by which another past of the log is noticed; "" in
            a cursor that stands for a position alone.
        incarnation: the last start of the node when the cursor was given out, by the first 8 digits
            of its id.
    """

    instance: str
    position: Position
    checksum: str = field(default="", compare=False)
    incarnation: str = field(default="", compare=False)

    def __str__(self) -> str:
        text = f"{self.instance}.{self.position}"
        return f"{text}.{self.checksum}.{self.incarnation}" if self.checksum else text

    @classmethod
    def at(cls, instance: uuid.UUID, position: Position) -> Self:
        return cls(instance.hex[:8], position)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text that `str` returns.

        Raises:
            ValueError: `text` is not a cursor.
        """
        found = _FORM.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not a position in the change log of a node")
        return cls(found[1], Position.parse(found[2]), found[3] or "", found[4] or "")

    def is_of(self, instance: uuid.UUID) -> bool:
        """Whether it is a position in the log of an instance."""
        return self.instance == instance.hex[:8]
