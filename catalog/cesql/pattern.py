"""The patterns of LIKE (cesql/spec.md 3.4.3)."""

from __future__ import annotations

import re
from collections.abc import Callable

_PARTS = re.compile(r"\\[%_]|[%_]|[^\\%_]+|\\")


class _Segment:
    """The part between two `%`: characters, of which some may be any."""

    def __init__(self) -> None:
        self.length = 0
        self._expression = ""

    def add(self, literal: str) -> None:
        self.length += len(literal)
        self._expression += re.escape(literal)

    def add_any(self) -> None:
        self.length += 1
        self._expression += "."

    def compiled(self) -> re.Pattern[str]:
        return re.compile(self._expression, re.DOTALL)


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """A predicate that tells whether the whole of a text matches.

    The time of a match grows no faster than the product of both lengths: segments are looked for
    from left to right, and none is looked for twice. A single regular expression would try all
    ways to divide the text, of which there can be exponentially many.
    """
    segments = [_Segment()]
    for part in _PARTS.findall(pattern):
        if part == "%":
            segments.append(_Segment())
        elif part == "_":
            segments[-1].add_any()
        else:
            segments[-1].add(part[1] if len(part) == 2 and part[0] == "\\" else part)
    first, last = segments[0].compiled(), segments[-1].compiled()
    if len(segments) == 1:
        return lambda text: first.fullmatch(text) is not None
    middle = [each.compiled() for each in segments[1:-1] if each.length]
    length_of_last = segments[-1].length

    def matches(text: str) -> bool:
        found = first.match(text)
        for segment in middle:
            if found is None:
                return False
            found = segment.search(text, found.end())
        begin_of_last = len(text) - length_of_last
        if found is None or begin_of_last < found.end():
            return False
        return last.match(text, begin_of_last) is not None

    return matches
