"""The operations of `/replication/handovers`: the transfer of a group between authorities."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from catalog.model.roles import Permission
from catalog.operations.feed import COPY_LINES
from catalog.operations.operation import (
    LOCATION,
    AnswerBody,
    Body,
    Flag,
    Operation,
    PageQuery,
    Query,
    Time,
)
from catalog.operations.peercredentials import GivenCredential
from catalog.operations.peers import Authority, CatalogUrl, Count, GroupPath

HandoverRole = Literal["give", "take"]
HandoverState = Literal["offered", "given", "consented", "asked", "promised", "done", "aborted"]

_Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9\-._~]{0,127}$")]


class NewHandover(Body):
    """A group to give to the catalog at a URL, or to take from a catalog."""

    group: GroupPath
    to: CatalogUrl | None = None
    source: CatalogUrl | None = Field(default=None, alias="from")
    credential: GivenCredential | None = Field(
        default=None, description="What the other side is shown; else what a link to it shows."
    )

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if (self.to is None) == (self.source is None):
            raise ValueError('it needs either "to" or "from"')
        return self


class HandoverAnswer(AnswerBody):
    """The handover of a group, as seen by the side with the `role`."""

    id: str
    role: HandoverRole
    group: str = Field(validation_alias=AliasChoices("group", "xid"))
    peer: str = Field(description="The URL of the other side.")
    authority: str = Field(description="That of the other side.")
    state: HandoverState
    isover: bool
    theirs: str | None = Field(
        default=None, description="Its id at the giver, as the taker knows it."
    )
    entities: Count | None = Field(
        default=None, description="The number of those that changed hands."
    )
    failures: Count
    error: str | None = Field(default=None, description="Why it does not go on, or why it ended.")
    nextattemptat: Time | None = None
    startedat: Time
    endedat: Time | None = None
    followsby: Count | None = Field(
        default=None,
        description="How many links of the giver follow the taker, in the answer to an offer.",
    )


class Handovers(AnswerBody):
    """A page of handovers."""

    handovers: list[HandoverAnswer]


class EndQuery(Query):
    """The options to end a handover."""

    force: Flag = Field(default=False, description="Do not wait for a giver that does not answer.")


class HandoverQuery(Query):
    """A group, and the authority that may give it."""

    group: GroupPath
    authority: Authority


class Consent(AnswerBody):
    """The consent of an operator to take a group of an authority."""

    group: str
    authority: str


class HandoverOffer(Body):
    """The giver's id of a handover, and the giver's authority."""

    id: _Id
    group: GroupPath
    authority: Authority


class OfferAnswer(AnswerBody):
    """The progress of the taker of a handover."""

    state: HandoverState
    authority: str = Field(description="The taker's.")
    floor: Count = Field(description="The taker has deleted nothing in the group above this epoch.")
    error: str | None = None


_PATH = "/replication/handovers"
_ONE = f"{_PATH}/{{id}}"

LIST_HANDOVERS = Operation("GET", _PATH, Permission.ADMINISTER, query=PageQuery, answers=Handovers)
BEGIN_HANDOVER = Operation(
    "POST",
    _PATH,
    Permission.ADMINISTER,
    takes=NewHandover,
    answers=HandoverAnswer,
    status=201,
    headers=LOCATION,
    refuses=(409,),
)
TELL_OFFER = Operation(
    "POST",
    f"{_PATH}/offers",
    Permission.REPLICATE,
    takes=HandoverOffer,
    answers=OfferAnswer,
    refuses=(409,),
)
GET_CONSENT = Operation(
    "GET",
    f"{_PATH}/consent",
    Permission.REPLICATE,
    query=HandoverQuery,
    answers=Consent,
    refuses=(404,),
)
GET_HANDOVER = Operation("GET", _ONE, Permission.REPLICATE, answers=HandoverAnswer)
ABORT_HANDOVER = Operation(
    "DELETE", _ONE, Permission.REPLICATE, query=EndQuery, answers=HandoverAnswer, refuses=(409,)
)
GET_COPIES = Operation("GET", f"{_ONE}/copies", Permission.REPLICATE, content=COPY_LINES)
