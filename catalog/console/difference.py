"""A difference as pages show it: what breaks whom, then fields, attributes and lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from catalog.operations.changes import essence_of
from catalog.operations.diff import Compatibility, DiffAnswer, DiffLine

_KINDS = {"+": "added", "-": "removed", "=": "same"}
_MOST_LINES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownVerdict:
    """Whether some readers of a schema go on working.

    Args:
        says: the answer as a sentence.
        means: what was compared, in words.
        why: what breaks.
    """

    is_ok: bool
    says: str
    means: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLine:
    """A line with the name of its kind; `place` stands for lines that are left out."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class ShownDifference:
    """The difference of two contents of entities."""

    answer: DiffAnswer

    @property
    def size(self) -> int:
        """The number of rows and lines."""
        found = self.answer
        parts = found.values, found.fields, found.lines, found.text
        return sum(len(part or ()) for part in parts)

    @property
    def changed(self) -> list[str]:
        """The names of the attributes that differ, without those that always do."""
        return essence_of(self.answer.changed)

    @property
    def has_long_values(self) -> bool:
        """Whether the values do not show every attribute that differs."""
        shown = {value.path[0] for value in self.answer.values}
        shown |= {".".join(value.path[:2]) for value in self.answer.values}
        return len({*self.changed} - shown) > bool(self.answer.lines)

    @property
    def verdicts(self) -> list[ShownVerdict]:
        found: list[ShownVerdict] = []
        if not self.answer.lines:
            return found
        if (old := self.answer.forward) is not None:
            says = "Older readers keep working" if old.compatible else "It breaks older readers"
            means = "the older schema reads newer data: forward compatible"
            means = means if old.compatible else "the older schema cannot read newer data"
            found.append(ShownVerdict(is_ok=old.compatible, says=says, means=means, why=_why(old)))
        if (new := self.answer.backward) is not None:
            says = "Newer readers read older data" if new.compatible else "It breaks newer readers"
            means = "the newer schema reads older data: backward compatible"
            means = means if new.compatible else "the newer schema cannot read older data"
            found.append(ShownVerdict(is_ok=new.compatible, says=says, means=means, why=_why(new)))
        return found

    @property
    def lines(self) -> list[ShownLine]:
        """The lines of the documents."""
        return list(_shown(self.answer.lines or ()))

    @property
    def text(self) -> list[ShownLine]:
        """The lines of the attributes as JSON."""
        return list(_shown(self.answer.text or ()))


def _why(verdict: Compatibility) -> str:
    return verdict.reason or ""


def _shown(lines: Sequence[DiffLine]) -> Iterator[ShownLine]:
    before = 0
    for line in lines[:_MOST_LINES]:
        if line.sign == "=":
            if before and line.number > before + 1:
                yield ShownLine(kind="place", text="⋯")
            before = line.number
        elif line.sign == "+":
            before = line.number
        sign = " " if line.sign == "=" else line.sign
        yield ShownLine(kind=_KINDS[line.sign], text=f"{sign} {line.text}")
    if len(lines) > _MOST_LINES:
        yield ShownLine(kind="place", text="More lines differ: see the command.")
