"""The outcomes of a run of a link, as a dry run finds them out."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from catalog.model.entity import Origin
from catalog.operations.feed import Verdict
from replication.applying.deletionlimit import Question
from replication.deciding.batch import CopyFinding

_FIRST = 20


@dataclass(slots=True, kw_only=True)
class DryRun:
    """The outcomes of a run: `created`, `changed`, `deleted`, `published`, or a verdict.

    Args:
        rows: entities and deletions of the source that the link may bring.
        differing: entities and deletions that differ at the target.
        question: the question that the link would ask first, if any.
    """

    rows: int
    differing: int
    numbers: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[CopyFinding]] = field(default_factory=lambda: defaultdict(list))
    question: Question | None = None

    def note(self, outcome: str, origin: Origin, epoch: int = 0, xid: str = "") -> None:
        """Add an entity that is written or deleted; by default the xid is the xid of the origin."""
        self.add(
            outcome,
            CopyFinding(origin=origin, xid=xid or origin.xid, epoch=epoch, verdict=Verdict.APPLY),
        )

    def add(self, outcome: str, finding: CopyFinding) -> None:
        self.numbers[outcome] += 1
        if len(self.first[outcome]) < _FIRST:
            self.first[outcome].append(finding)
