"""The operations of `/replication/recovery`: a node recovers its own entities from replicas."""

from __future__ import annotations

from typing import Literal, Self
from uuid import UUID

from pydantic import Field, StrictBool, model_validator

from catalog.model.roles import Permission
from catalog.operations.operation import AnswerBody, Body, Flag, Operation, PageQuery, Query, Time
from catalog.operations.peercredentials import GivenCredential
from catalog.operations.peers import MOST_NAMED, CatalogUrl, Count, KeyText

RecoveryState = Literal[
    "awaited", "reading", "taking", "asking", "blocked", "burying", "done", "aborted"
]
ChoiceState = Literal["wanted", "taken", "kept", "partial", "refused", "buried"]

_MOST_SOURCES = 20


class NewRecovery(Body):
    """The replicas to recover from, and the terms of the operator."""

    sources: list[CatalogUrl] = Field(min_length=1, max_length=_MOST_SOURCES)
    trust: list[KeyText] = Field(
        default=[],
        max_length=MOST_NAMED,
        description="Keys of the node's authority, besides those that it knows.",
    )
    unsigned: StrictBool = Field(
        default=False, description="Take copies whatever their signatures are."
    )
    allow: Count = Field(default=0, description="The entities to delete without asking, at most.")
    credentials: dict[CatalogUrl, GivenCredential] = Field(
        default={}, description="What sources are shown, by URL; else what links to them show."
    )

    @model_validator(mode="after")
    def _shows_to_sources(self) -> Self:
        if self.credentials.keys() - set(self.sources):
            raise ValueError("`credentials` has those of its `sources` only, by their URLs")
        return self


class RecoveryQuery(Query):
    """The options to begin a recovery."""

    force: Flag = Field(default=False, description="Do not ask the other catalogs first.")


class RecoveryChanges(Body):
    """The next step of a recovery."""

    state: Literal["taking", "burying"] = Field(
        default="taking",
        description="`taking` goes on now, and tries again what could not be taken. `burying` "
        "deletes that, at all replicas as well, and ends a recovery that is blocked.",
    )
    allow: Count | None = Field(
        default=None, description="The entities to delete without asking, at most."
    )


class RecoverySourceAnswer(AnswerBody):
    """A catalog that has copies of the node's entities."""

    url: str
    instance: UUID | None = None
    differing: Count = Field(description="The origins that differed from what was here.")
    isread: bool
    unproven: Count = Field(description="The copies whose signatures do not count.")


class RecoveryAnswer(AnswerBody):
    """The current or last recovery, with the numbers of origins by state."""

    authority: str
    state: RecoveryState
    writes: str = Field(description="The writes that the node takes.")
    startedat: Time
    endedat: Time | None = None
    sources: list[RecoverySourceAnswer]
    wanted: Count
    taken: Count
    kept: Count
    partial: Count
    refused: Count
    buried: Count
    diverged: Count = Field(description="The origins of which copies differed.")
    keys: list[str] | None = Field(
        default=None,
        description="Those that copies have to be signed by, once they are known; none if nothing "
        "needs a signature.",
    )
    allowed: Count = Field(description="How many entities it may delete without asking.")
    failures: Count
    error: str | None = None
    nextattemptat: Time | None = None


class RecoveryFindingAnswer(AnswerBody):
    """An origin that an operator should see."""

    origin: str
    epoch: Count
    deleted: bool
    state: ChoiceState
    rivals: Count = Field(description="The copies of this epoch that differ.")
    detail: str


class RecoveryFindings(AnswerBody):
    """A page of findings."""

    findings: list[RecoveryFindingAnswer]


_PATH = "/replication/recovery"

GET_RECOVERY = Operation(
    "GET", _PATH, Permission.ADMINISTER, answers=RecoveryAnswer, refuses=(404,)
)
BEGIN_RECOVERY = Operation(
    "POST",
    _PATH,
    Permission.ADMINISTER,
    query=RecoveryQuery,
    takes=NewRecovery,
    answers=RecoveryAnswer,
    status=202,
    refuses=(409,),
)
ABORT_RECOVERY = Operation(
    "DELETE", _PATH, Permission.ADMINISTER, answers=RecoveryAnswer, refuses=(404, 409)
)
CHANGE_RECOVERY = Operation(
    "PATCH",
    _PATH,
    Permission.ADMINISTER,
    takes=RecoveryChanges,
    answers=RecoveryAnswer,
    refuses=(404, 409),
)
LIST_FINDINGS = Operation(
    "GET",
    f"{_PATH}/findings",
    Permission.ADMINISTER,
    query=PageQuery,
    answers=RecoveryFindings,
    refuses=(404,),
)
