"""The operations on reports of jobs that compare catalogs."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from pydantic import ConfigDict, Field

from catalog.model.roles import Permission
from catalog.operations.operation import AnswerBody, Body, Operation, Time
from catalog.operations.peers import MOST_NAMED, Count, Storable

Outcome = Literal["equal", "different", "failed"]
FindingName = Literal[
    "missing",
    "stale",
    "ahead",
    "orphaned",
    "diverged",
    "collided",
    "unsigned",
    "forged",
    "damaged",
]


class NewReconciliation(Body):
    """The result of a comparison of catalogs, for the catalog that gets the report."""

    run: UUID = Field(description="The id of the comparison, the same at all catalogs.")
    startedat: Time
    endedat: Time
    outcome: Outcome
    name: Storable = Field(description="The name of this catalog in the comparison.")
    catalogs: list[Storable] = Field(max_length=MOST_NAMED)
    entities: dict[Storable, Count] = Field(
        default={},
        max_length=MOST_NAMED,
        description="The numbers of live entities of the catalogs, by authority. Of a catalog that "
        "has far fewer than before, the number before, until an operator accepts it.",
    )
    findings: dict[FindingName, Count] = Field(
        default={}, description="The numbers of differences at this catalog."
    )
    unverifiable: Count = Field(
        default=0, description="The origins whose authority was not compared."
    )
    repaired: Count | None = Field(
        default=None,
        description="The origins that this catalog was asked to fetch again, if it was asked to.",
    )
    error: Storable | None = Field(default=None, description="Why the comparison failed.")


class Reconciliation(NewReconciliation):
    """A stored report of a comparison."""

    model_config = ConfigDict(extra="ignore")

    at: Time = Field(description="When this node was told, by its own clock.")


class Reconciliations(AnswerBody):
    """The latest reports of each outcome."""

    reconciliations: list[Reconciliation]


_PATH = "/replication/reconciliations"

LIST_RECONCILIATIONS = Operation(
    method="GET", path=_PATH, needs=Permission.REPLICATE, answers=Reconciliations
)
TELL_RECONCILIATION = Operation(
    method="POST",
    path=_PATH,
    needs=Permission.REPLICATE,
    takes=NewReconciliation,
    is_repeatable=True,
)
