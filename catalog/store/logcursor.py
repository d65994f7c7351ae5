"""A position in the change log of one node, in the form that other programs keep."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import Self

from catalog.store.changes import Position

_FORM = re.compile(r"([0-9a-f]{8})\.([0-9]{1,19}\.[0-9]{1,19})", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class LogCursor:
    """A position with the instance of the node whose log it is in, by the first 8 digits of its id.

    Only cursors of one instance can be compared. Of these, later ones are greater, and so are
    their texts.
    """

    instance: str
    position: Position

    def __str__(self) -> str:
        return f"{self.instance}.{self.position}"

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
        return cls(found[1], Position.parse(found[2]))

    def is_of(self, instance: uuid.UUID) -> bool:
        """Whether it is a position in the log of an instance."""
        return self.instance == instance.hex[:8]
