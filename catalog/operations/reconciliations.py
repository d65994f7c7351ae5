"""The operations on reports of jobs that compare catalogs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal
from uuid import UUID

from pydantic import ConfigDict, Field

from catalog.model.roles import Permission
from catalog.operations.operation import AnswerBody, Body, Flag, Operation, PageQuery, Query, Time
from catalog.operations.peers import MOST_NAMED, CatalogUrl, Count, ScopePath, Storable, Text

MOST_FINDINGS = 500
"""The maximum number of findings in a request."""
Outcome = Literal["equal", "different", "failed"]
FindingName = Literal[
    "missing", "stale", "ahead", "orphaned", "diverged", "collided", "unsigned", "forged", "damaged"
]

REPAIRABLE: frozenset[FindingName] = frozenset(
    {"missing", "stale", "diverged", "unsigned", "forged", "damaged"}
)
"""The findings that a repeated fetch can settle; the rest need the decision of a person."""
MEANINGS: Mapping[FindingName, str] = {
    "missing": "A link should have brought the entity, and the catalog does not have it.",
    "stale": "The copy is older than the original, or its authority has deleted it.",
    "ahead": "The copy is newer than at its authority, which may have lost data.",
    "orphaned": "Its authority has neither the entity nor a tombstone.",
    "diverged": "The epochs are equal, and the contents differ.",
    "collided": "An entity of another authority has its path at the catalog.",
    "unsigned": "The copy has no signature, and its authority signs everything.",
    "forged": "The signature is false, or of a key that does not count.",
    "damaged": "The content is not that of the digest that the catalog has stored.",
}


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
        default={}, description="The differences at this catalog."
    )
    unverifiable: Count = Field(
        default=0, description="The origins whose authority was not compared."
    )
    repaired: Count | None = Field(
        default=None,
        description="The origins that this catalog was asked to fetch again, if it was asked to.",
    )
    error: Storable | None = Field(default=None, description="Why the comparison failed.")


class ComparedCatalog(Body):
    """A catalog of a comparison, with the numbers of differences there."""

    model_config = ConfigDict(extra="ignore")

    name: Storable
    authority: Storable
    url: CatalogUrl | None = Field(
        default=None, description="Where the comparison has read it, if it is a node that runs."
    )
    findings: dict[FindingName, Count] = Field(default={})


class Reconciliation(NewReconciliation):
    """A stored report of a comparison."""

    model_config = ConfigDict(extra="ignore")

    at: Time = Field(description="When this node was told, by its own clock.")
    compared: list[ComparedCatalog] = Field(
        default=[], description="The catalogs that were compared, if the comparison told them."
    )
    kept: Count = Field(default=0, description="The number of single findings that are kept.")


class Reconciliations(AnswerBody):
    """The latest reports of each outcome."""

    reconciliations: list[Reconciliation]


_Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Microseconds = Annotated[
    int, Field(ge=-(2**62), le=2**62, description="The time of the change there, in µs since 1970.")
]


class ComparisonFinding(Body):
    """A difference: an entity whose copy at a catalog is missing or wrong.

    The reference is the copy at the authority's catalog, else the copy with the greatest epoch.
    """

    model_config = ConfigDict(extra="ignore")

    finding: FindingName
    catalog: Storable = Field(description="The catalog with the wrong copy.")
    authority: Storable
    origin: ScopePath = Field(description="The path at the authority.")
    xid: Storable | None = Field(default=None, description="The path at `catalog`.")
    epoch: Count | None = None
    deleted: bool | None = None
    digest: _Digest | None = None
    changedat: _Microseconds | None = None
    reference: Storable | None = Field(default=None, description="The catalog of the reference.")
    referenceepoch: Count | None = None
    referencedeleted: bool | None = None
    referencedigest: _Digest | None = None
    referencechangedat: _Microseconds | None = None
    rivalauthority: Storable | None = Field(
        default=None, description="Whose entity has the path at `catalog`, if it collided."
    )
    rivalorigin: Storable | None = None
    detail: Storable | None = None


class NewFindings(Body):
    """A part of the findings of a comparison, and the catalogs that were compared."""

    compared: list[ComparedCatalog] = Field(max_length=MOST_NAMED)
    first: int = Field(ge=0, le=1_000_000, description="The number of the first of `findings`.")
    findings: list[ComparisonFinding] = Field(max_length=MOST_FINDINGS)


class KeptFindings(AnswerBody):
    """How many findings the node keeps of a comparison."""

    kept: Count
    wanted: Count = Field(description="How many more it would keep (CONCORD_COMPARISON_FINDINGS).")


class StoredFinding(ComparisonFinding):
    """A finding that the node keeps."""

    number: int = Field(ge=0, description="Its number in the comparison.")


class FindingsQuery(PageQuery):
    """The conditions of a list of findings, and the page; `after` is a number."""

    after: str = Field(default="", pattern="^[0-9]{0,9}$")
    finding: FindingName | None = None
    catalog: Text | None = Field(default=None, description="Only at this catalog.")
    path: ScopePath | None = Field(default=None, description="Only at or below this path.")


class StoredFindings(AnswerBody):
    """A page of findings, in the order of their numbers."""

    findings: list[StoredFinding]
    count: Count = Field(description="The number of kept findings that meet the conditions.")


class FindingQuery(Query):
    """Whether other catalogs are asked about a finding."""

    ask: Flag = Field(
        default=False,
        description="Ask the other catalog, by a link of this node, for three seconds at most.",
    )


class PresentCopy(AnswerBody):
    """An entity as a catalog has it now."""

    epoch: Count
    deleted: bool
    digest: _Digest
    changedat: Time


class FindingSide(AnswerBody):
    """A catalog of a finding: what it has now, or why that is not known."""

    catalog: str
    ishere: bool = Field(description="Whether it is the catalog of this node.")
    present: PresentCopy | None = None
    isabsent: bool = Field(default=False, description="It has neither the entity nor a tombstone.")
    link: str | None = Field(default=None, description="The link by which it was asked.")
    fault: str | None = Field(default=None, description="Why its present state is not known.")


class DifferingAttributeAnswer(AnswerBody):
    """An attribute that differs now; values are JSON, cut after 300 characters."""

    name: str
    copied: str | None = Field(default=None, description="At the catalog with the wrong copy.")
    reference: str | None = Field(default=None, description="At the catalog of the reference.")


class FindingSides(AnswerBody):
    """A finding with both sides as they are now."""

    finding: StoredFinding
    copied: FindingSide
    reference: FindingSide | None = None
    attributes: list[DifferingAttributeAnswer] = Field(default=[])
    isequal: bool = Field(description="Whether both sides are known and agree now.")
    isrepairable: bool = Field(description="Whether a repair of this node may settle it.")


_PATH = "/replication/reconciliations"
_FINDINGS = _PATH + "/{run}/findings"

LIST_RECONCILIATIONS = Operation("GET", _PATH, Permission.REPLICATE, answers=Reconciliations)
TELL_RECONCILIATION = Operation(
    "POST", _PATH, Permission.REPLICATE, takes=NewReconciliation, is_repeatable=True
)
LIST_FINDINGS = Operation(
    "GET", _FINDINGS, Permission.REPLICATE, query=FindingsQuery, answers=StoredFindings
)
TELL_FINDINGS = Operation(
    "POST",
    _FINDINGS,
    Permission.REPLICATE,
    takes=NewFindings,
    answers=KeptFindings,
    most_values=40 * MOST_FINDINGS,
    is_repeatable=True,
    description="Findings beyond the setting CONCORD_COMPARISON_FINDINGS are not kept, so a job "
    "sends a sample of each class and catalog first.",
)
SHOW_FINDING = Operation(
    "GET",
    _FINDINGS + "/{number}",
    Permission.REPLICATE,
    query=FindingQuery,
    answers=FindingSides,
    is_kept=False,
)
