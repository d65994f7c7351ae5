"""The words of a text: the unit in which texts are indexed, searched and marked.

A run is a longest sequence of letters and digits. The words of a run are the run itself and the
parts between its humps: `OrderCreated` has the words `ordercreated`, `order` and `created`. Words
are folded, so that neither case nor the form of a character matters. A search for a run finds the
texts in which a word begins with the run, or in which words begin with each part of the run.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from catalog.model.record import record

LONGEST_WORD = 64
"""The number of characters after which a word is cut."""
MOST_RUNS = 16
"""The number of runs of a search; later runs do not count."""

_ASCII_RUN = re.compile(r"[a-zA-Z0-9]+")
# A text may have an accent as a character of its own, which is no letter.
_RUN = re.compile(r"(?:[^\W_]|[\u0300-\u036f])+")
# A pattern that begins with a set of characters skips what is not in it.
_HUMP = re.compile(r"(?=[A-Z])(?:(?<=[a-z0-9])|(?<=[A-Z])(?=[A-Z][a-z]))")


@record
class Mark:
    """A part of a text, from the character `start` to the character before `end`."""

    start: int
    end: int


def words_of(text: str) -> set[str]:
    """The words of a text."""
    # Most texts are ASCII, and most runs have no humps; both are much faster to split.
    if not text.isascii():
        return {word for run in _RUN.finditer(text) for word, _, _ in _parts(run)}
    lower = text.lower()
    found = set(_ASCII_RUN.findall(lower))
    if lower != text and _HUMP.search(text):
        for run in _ASCII_RUN.findall(text):
            found.update(part.lower() for part in _HUMP.split(run))
    if max(map(len, found), default=0) > LONGEST_WORD:
        found = {word[:LONGEST_WORD] for word in found}
    return found


@record
class WantedWords:
    """The words that a search looks for: for each run the run itself, and its parts."""

    runs: tuple[tuple[str, tuple[str, ...]], ...]

    @classmethod
    def of(cls, text: str) -> WantedWords:
        """The wanted words of a search as typed."""
        runs = {}
        for run in _RUN.finditer(text):
            whole, *parts = [word for word, _, _ in _parts(run)]
            runs[whole] = tuple(parts)
        return cls(runs=tuple(runs.items())[:MOST_RUNS])

    def marks_in(self, text: str) -> list[Mark]:
        """The beginnings of words of a text that the search looks for, in order."""
        wanted = {word for whole, parts in self.runs for word in (whole, *parts)}
        found: list[Mark] = []
        for run in _RUN.finditer(text):
            for word, start, end in _parts(run):
                lengths = [len(prefix) for prefix in wanted if word.startswith(prefix)]
                if lengths and (not found or start >= found[-1].end):
                    found.append(Mark(start=start, end=min(start + max(lengths), end)))
        return found


def _parts(run: re.Match[str]) -> Iterator[tuple[str, int, int]]:
    """The words of a run with their places in the text: the whole run first, then its parts."""
    text, start = run[0], run.start()
    yield _folded(text), start, run.end()
    ends = [hump.start() for hump in _HUMP.finditer(text)]
    if ends:
        for first, end in zip([0, *ends], [*ends, len(text)], strict=True):
            yield _folded(text[first:end]), start + first, start + end


def _folded(run: str) -> str:
    return unicodedata.normalize("NFKC", run).casefold()[:LONGEST_WORD]
