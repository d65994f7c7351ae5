"""The operations on the deliveries of a subscription: control, attempts and dead letters."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, RootModel, StrictBool, model_validator

from catalog.model.roles import Permission
from catalog.operations.operation import AnswerBody, Anyone, Body, Content, Operation, Query, Time
from catalog.operations.subscriptions import (
    ONE,
    PENDING,
    TAG,
    Count,
    DeadLetterCounts,
    Event,
    SubscriptionAnswer,
)

AttemptOutcome = Literal["delivered", "refused", "gone"]
DeadLetterState = Literal["dead", "waiting", "due"]
ShortText = Annotated[str, Field(max_length=256)]

LAST_NUMBER = 2**63 - 1
LONGEST_CAUSE = 2048


class SubscriptionChanges(Body):
    """The members of a subscription's delivery to change."""

    paused: StrictBool | None = Field(
        default=None,
        description="A paused subscription delivers nothing and keeps its place. With false, it "
        "goes on from there; if it waits after a failure, it tries again at once.",
    )
    reason: ShortText | None = Field(
        default=None, description="Why it is paused, which the status shows."
    )
    cursor: ShortText | None = Field(
        default=None,
        description="Where in the log it goes on, to deliver events again or to leave some out: "
        "`now`, `earliest`, the `sequence` of an event, or a time.",
    )

    @model_validator(mode="after")
    def _gives_reason_for_pause(self) -> Self:
        if self.reason is not None and not self.paused:
            raise ValueError('a "reason" is that of a pause: it needs "paused": true')
        return self


class ExampleAnswer(AnswerBody):
    """The answer of a sink to an example event."""

    outcome: AttemptOutcome
    answer: str
    milliseconds: Count
    event: Event


class NumberQuery(Query):
    """The page of a list of numbered items, which begins after the item with the number `after`."""

    limit: int | None = Field(default=None, ge=1, le=LAST_NUMBER)
    after: int | None = Field(default=None, ge=0, le=LAST_NUMBER)


class DeliveryAttempt(AnswerBody):
    """An attempt to deliver events."""

    number: Count
    at: Time
    events: Count
    outcome: AttemptOutcome
    reason: str = Field(description="The sink's answer.")
    milliseconds: Count


class DeliveryAttempts(RootModel[list[DeliveryAttempt]]):
    """A page of attempts, newest first."""


class DeadLetterAnswer(AnswerBody):
    """An event that the sink did not take."""

    number: Count
    eventid: str
    subject: str
    at: Time = Field(description="When it failed last.")
    attempts: Count
    reason: str
    state: DeadLetterState


class WholeDeadLetter(DeadLetterAnswer):
    """A dead letter with the event."""

    event: Event


class DeadLetterAnswers(RootModel[list[DeadLetterAnswer]]):
    """A page of dead letters, oldest first."""


class CauseQuery(Query):
    """The cause of dead letters."""

    cause: str | None = Field(
        default=None, max_length=LONGEST_CAUSE, description="Only with this `reason`."
    )


class DeadLetterQuery(NumberQuery, CauseQuery):
    """The page of a list of dead letters."""


class DeadLetterCause(AnswerBody):
    """The dead letters with the same reason: their numbers by state, the first and last failure."""

    reason: str
    dead: Count
    waiting: Count
    due: Count
    first: Time
    last: Time


class DeadLetterCauses(AnswerBody):
    """The causes of dead letters, the most frequent first."""

    causes: list[DeadLetterCause]


class Redelivery(Body):
    """The dead letters to deliver again: a single letter, those of a cause or time, or all."""

    number: int | None = Field(
        default=None,
        ge=0,
        le=LAST_NUMBER,
        strict=True,
        description="That of one letter; those that wait behind it are delivered, too.",
    )
    since: Time | None = None
    cause: str | None = Field(
        default=None, max_length=LONGEST_CAUSE, description="Only with this `reason`."
    )

    @model_validator(mode="after")
    def _names_one_or_several(self) -> Self:
        if self.number is not None and (self.since is not None or self.cause is not None):
            raise ValueError('a "number" names one letter, and needs no "since" and no "cause"')
        return self


class Redelivered(AnswerBody):
    """The number of due events, and the numbers of dead letters afterwards."""

    accepted: Count
    deadletters: DeadLetterCounts


class DeletedDeadLetters(AnswerBody):
    """The number of dead letters that were deleted."""

    deleted: Count


class ConsentQuery(Query):
    """The secret that the node told the sink."""

    model_config = ConfigDict(json_schema_extra={"required": ["key"]})

    # A request without a secret learns as little as a request with a wrong secret.
    key: str = ""


_DEAD, _LETTER = f"{ONE}/deadletters", f"{ONE}/deadletters/{{number}}"

CHANGE_SUBSCRIPTION = Operation(
    "PATCH",
    ONE,
    Permission.SUBSCRIBE,
    takes=SubscriptionChanges,
    answers=SubscriptionAnswer,
    outcomes=PENDING,
    headers=TAG,
    conditions=True,
    refuses=(409,),
    is_repeatable=True,
)
SEND_EXAMPLE = Operation(
    "POST", f"{ONE}/test", Permission.SUBSCRIBE, answers=ExampleAnswer, refuses=(409, 429)
)
LIST_ATTEMPTS = Operation(
    "GET", f"{ONE}/attempts", Permission.SUBSCRIBE, query=NumberQuery, answers=DeliveryAttempts
)
LIST_DEAD_LETTERS = Operation(
    "GET", _DEAD, Permission.SUBSCRIBE, query=DeadLetterQuery, answers=DeadLetterAnswers
)
LIST_CAUSES = Operation(
    "GET", f"{ONE}/deadlettercauses", Permission.SUBSCRIBE, answers=DeadLetterCauses
)
DELETE_DEAD_LETTERS = Operation(
    "DELETE",
    _DEAD,
    Permission.SUBSCRIBE,
    query=CauseQuery,
    answers=DeletedDeadLetters,
    conditions=True,
)
REDELIVER_DEAD_LETTERS = Operation(
    "POST",
    f"{_DEAD}/redeliver",
    Permission.SUBSCRIBE,
    takes=Redelivery,
    is_optional=True,
    answers=Redelivered,
    status=202,
    conditions=True,
    refuses=(409,),
    is_repeatable=True,
)
GET_DEAD_LETTER = Operation("GET", _LETTER, Permission.SUBSCRIBE, answers=WholeDeadLetter)
DELETE_DEAD_LETTER = Operation(
    "DELETE", _LETTER, Permission.SUBSCRIBE, answers=WholeDeadLetter, conditions=True
)
# HEAD must not change state, so HEAD cannot give consent.
GIVE_CONSENT, POST_CONSENT = (
    Operation(
        method,
        f"{ONE}/consent",
        Anyone.UNASKED,
        query=ConsentQuery,
        given={"WebHook-Allowed-Rate": "The most requests a minute that the sink takes, or `*`"},
        refuses=(429,),
        is_kept=False,
        has_head=False,
        content=Content(answered={"text/plain": {"type": "string"}}),
    )
    for method in ("GET", "POST")
)
