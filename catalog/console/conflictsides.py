"""Both sides of a conflict: attribute by attribute, and documents line by line. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson

from catalog.operations.links import ConflictSide, CopyConflict

_MOST_ATTRIBUTES = 100
_MOST_LINES = 2000
_MOST_DIFFERENCES = 200
_LONGEST_VALUE = 2000
_KINDS = {"+": "added", "-": "removed", "@": "place"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeSides:
    """An attribute at both sides; "" for a side that lacks it."""

    name: str
    refused: str
    held: str

    @property
    def differs(self) -> bool:
        return self.refused != self.held


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictSides:
    """A conflict, and how its sides differ.

    Args:
        attributes: the attributes of both sides, those that differ first.
        lines: the lines in which the documents differ, each with the name of its kind: `removed`
            is here, `added` is in the refused copy.
    """

    conflict: CopyConflict
    attributes: Sequence[AttributeSides]
    lines: Sequence[tuple[str, str]]


def sides_of(conflict: CopyConflict) -> ConflictSides:
    """Compare the sides of a conflict."""
    refused, held = conflict.refused, conflict.held
    attributes = list(islice(_attributes(refused, held), _MOST_ATTRIBUTES))
    return ConflictSides(
        conflict=conflict,
        attributes=sorted(attributes, key=lambda each: not each.differs),
        lines=_lines(refused, held),
    )


def _attributes(
    refused: ConflictSide | None, held: ConflictSide | None
) -> Iterator[AttributeSides]:
    one, other = (side.attributes or {} if side else {} for side in (refused, held))
    for name in sorted({*one, *other}):
        yield AttributeSides(name=name, refused=_text(one, name), held=_text(other, name))


def _text(attributes: dict[str, Any], name: str) -> str:
    if name not in attributes:
        return ""
    value = attributes[name]
    if isinstance(value, str):
        return value[:_LONGEST_VALUE] or '""'
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()[:_LONGEST_VALUE]


def _lines(refused: ConflictSide | None, held: ConflictSide | None) -> list[tuple[str, str]]:
    if refused is None or held is None or refused.document == held.document:
        return []
    here, there = (
        [*islice((side.document or "").splitlines(), _MOST_LINES)] for side in (held, refused)
    )
    found = islice(difflib.unified_diff(here, there, lineterm="", n=2), 2, _MOST_DIFFERENCES)
    return [(_KINDS.get(line[:1], "same"), line) for line in found]
