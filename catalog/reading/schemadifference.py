"""The difference of two documents: by line, and by field of a schema. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal

import orjson

from catalog.formats.fieldtypes import fields_of
from catalog.model.record import record

MOST_LINES = 1500
"""Of the lines between the common beginning and end of two documents."""
CONTEXT_LINES = 3
"""Equal lines that are shown before and after a change."""

Sign = Literal["=", "-", "+"]


@record
class DifferenceLine:
    """A line that is equal, or in one document only, with its number there."""

    sign: Sign
    number: int
    text: str


@record
class FieldDifference:
    """A field with its type in the older and the newer document; `None` where it is missing."""

    path: str
    old: str | None
    new: str | None


def lines_between(older: bytes, newer: bytes) -> list[DifferenceLine] | None:
    """The lines that differ, with a few equal ones around; `None` if too many differ.

    JSON is compared in one layout, so that white space makes no difference.
    """
    before, after = _lines(older), _lines(newer)
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    # The time of the matcher grows with the square of the lines.
    if max(len(before), len(after)) - start - end > MOST_LINES:
        return None
    first = max(start - CONTEXT_LINES, 0)
    kept = max(end - CONTEXT_LINES, 0)
    before, after = before[first : len(before) - kept], after[first : len(after) - kept]
    matcher = SequenceMatcher(None, before, after)
    return [
        line
        for group in matcher.get_grouped_opcodes(CONTEXT_LINES)
        for operation in group
        for line in _changed(operation, before, after, first)
    ]


def _lines(document: bytes) -> list[str]:
    try:
        text = orjson.dumps(orjson.loads(document), option=orjson.OPT_INDENT_2).decode()
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        text = document.decode(errors="replace")
    return text.splitlines()


def _changed(
    operation: tuple[str, int, int, int, int],
    before: Sequence[str],
    after: Sequence[str],
    first: int,
) -> Iterator[DifferenceLine]:
    tag, i, i_end, j, j_end = operation
    if tag == "equal":
        for place in range(j, j_end):
            yield DifferenceLine(sign="=", number=first + place + 1, text=after[place])
        return
    for place in range(i, i_end):
        yield DifferenceLine(sign="-", number=first + place + 1, text=before[place])
    for place in range(j, j_end):
        yield DifferenceLine(sign="+", number=first + place + 1, text=after[place])


def fields_between(older: bytes, newer: bytes) -> list[FieldDifference] | None:
    """The fields that differ, by path; `None` if the documents have no fields."""
    before, after = _types_of(older), _types_of(newer)
    if not (before or after):
        return None
    return [
        FieldDifference(path=path, old=before.get(path), new=after.get(path))
        for path in dict.fromkeys([*before, *after])
        if before.get(path) != after.get(path)
    ]


def _types_of(document: bytes) -> dict[str, str]:
    """The types of the fields of a schema, by path."""
    return {
        ".".join(each.path): f"{each.type} (required)" if each.is_required else each.type
        for each in fields_of(document)
    }
