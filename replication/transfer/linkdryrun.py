"""What a link would do, as a dry run finds out."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from replication.applying.deletionlimit import Question
from replication.deciding.batch import CopyFinding

_FIRST = 20


@dataclass(slots=True, kw_only=True)
class DryRun:
    """The outcomes of a run: `created`, `changed`, `deleted`, or the verdict on what stays away.

    Args:
        rows: entities and deletions of the source that the link may bring.
        differing: those that are not here as they are there, or only here.
        question: what the link would ask first, if it would.
    """

    rows: int
    differing: int
    numbers: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[CopyFinding]] = field(default_factory=lambda: defaultdict(list))
    question: Question | None = None

    def add(self, outcome: str, finding: CopyFinding) -> None:
        self.numbers[outcome] += 1
        if len(self.first[outcome]) < _FIRST:
            self.first[outcome].append(finding)
