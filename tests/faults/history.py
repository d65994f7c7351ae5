"""The writes of clients and what became of them, as the clients know it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

Outcome = Literal["acknowledged", "refused", "in doubt"]


@dataclass(slots=True, kw_only=True)
class WriteRecord:
    """One write: a PUT of a message or schema, or a DELETE of one or of its group.

    Args:
        token: the content of a PUT, which no other write has; empty for a DELETE.
        expected: the epoch that the client had seen, if it wrote on that condition.
        epoch: that of the answer, if it was acknowledged.
        began, ended: seconds; a write in doubt may be carried out at any later time.
    """

    number: int
    node: int
    client: int
    path: str
    token: str = ""
    expected: int | None = None
    began: float
    ended: float = math.inf
    outcome: Outcome = "in doubt"
    epoch: int | None = None

    @property
    def is_delete(self) -> bool:
        return not self.token

    @property
    def may_have_happened(self) -> bool:
        return self.outcome != "refused"

    def __str__(self) -> str:
        what = "DELETE" if self.is_delete else f"PUT {self.token}"
        given = "" if self.expected is None else f" if epoch {self.expected}"
        epoch = "" if self.epoch is None else f" as epoch {self.epoch}"
        return (
            f"{self.began:.3f}-{self.ended:.3f} node {self.node} client {self.client} "
            f"{what} {self.path}{given}: {self.outcome}{epoch}"
        )


@dataclass(slots=True)
class History:
    """All writes of a run, in the order in which they began."""

    records: list[WriteRecord] = field(default_factory=list)

    def begin(
        self,
        *,
        node: int,
        client: int,
        path: str,
        token: str = "",
        expected: int | None = None,
        at: float,
    ) -> WriteRecord:
        record = WriteRecord(
            number=len(self.records),
            node=node,
            client=client,
            path=path,
            token=token,
            expected=expected,
            began=at,
        )
        self.records.append(record)
        return record

    def is_last_in_doubt(self, node: int, client: int) -> bool:
        """Whether the last write of a client got no answer."""
        own = (r for r in reversed(self.records) if (r.node, r.client) == (node, client))
        last = next(own, None)
        return last is not None and last.outcome == "in doubt"

    def count(self, outcome: Outcome) -> int:
        return sum(record.outcome == outcome for record in self.records)
