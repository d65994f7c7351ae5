"""The operations on the deliveries of a subscription: control, attempts and dead letters."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    StrictBool,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import from_json

from catalog.model.roles import Permission
from catalog.operations.operation import (
    AnswerBody,
    Anyone,
    Body,
    Content,
    Operation,
    Query,
    Time,
)
from catalog.operations.subscriptions import (
    NEXT,
    ONE,
    PENDING,
    TAG,
    Count,
    DeadLetterCounts,
    SubscriptionAnswer,
)

AttemptOutcome = Literal["delivered", "refused", "gone"]
DeadLetterState = Literal["dead", "waiting", "due"]
ShortText = Annotated[str, Field(max_length=256)]

LAST_NUMBER = 2**63 - 1
_OF_EVENTS = ["specversion", "id", "source", "type"]


def _parsed(event: object) -> object:
    return from_json(event) if isinstance(event, bytes) else event


Event = Annotated[
    dict[str, Any],
    BeforeValidator(_parsed),
    WithJsonSchema(
        {
            "type": "object",
            "description": "An event in the JSON format of CloudEvents.",
            "required": _OF_EVENTS,
            "properties": {name: {"type": "string", "minLength": 1} for name in _OF_EVENTS},
        }
    ),
]


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


class Redelivery(Body):
    """The dead letters to deliver again: a single letter, failures since a time, or everything."""

    number: int | None = Field(
        default=None,
        ge=0,
        le=LAST_NUMBER,
        strict=True,
        description="That of one letter; those that wait behind it are delivered, too.",
    )
    since: Time | None = None

    @model_validator(mode="after")
    def _names_one_or_several(self) -> Self:
        if self.number is not None and self.since is not None:
            raise ValueError('it has a "number" or "since", and not both')
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
    method="PATCH",
    path=ONE,
    needs=Permission.SUBSCRIBE,
    takes=SubscriptionChanges,
    answers=SubscriptionAnswer,
    outcomes=PENDING,
    headers=TAG,
    conditions=True,
    refuses=(409,),
    is_repeatable=True,
    is_kept=False,
)
SEND_EXAMPLE = Operation(
    method="POST",
    path=f"{ONE}/test",
    needs=Permission.SUBSCRIBE,
    answers=ExampleAnswer,
    refuses=(409, 429),
)
LIST_ATTEMPTS = Operation(
    method="GET",
    path=f"{ONE}/attempts",
    needs=Permission.SUBSCRIBE,
    query=NumberQuery,
    answers=DeliveryAttempts,
    headers=NEXT,
)
LIST_DEAD_LETTERS = Operation(
    method="GET",
    path=_DEAD,
    needs=Permission.SUBSCRIBE,
    query=NumberQuery,
    answers=DeadLetterAnswers,
    headers=NEXT,
)
DELETE_DEAD_LETTERS = Operation(
    method="DELETE",
    path=_DEAD,
    needs=Permission.SUBSCRIBE,
    answers=DeletedDeadLetters,
    conditions=True,
)
REDELIVER_DEAD_LETTERS = Operation(
    method="POST",
    path=f"{_DEAD}/redeliver",
    needs=Permission.SUBSCRIBE,
    takes=Redelivery,
    is_optional=True,
    answers=Redelivered,
    status=202,
    conditions=True,
    refuses=(409,),
    is_repeatable=True,
)
GET_DEAD_LETTER = Operation(
    method="GET", path=_LETTER, needs=Permission.SUBSCRIBE, answers=WholeDeadLetter
)
DELETE_DEAD_LETTER = Operation(
    method="DELETE",
    path=_LETTER,
    needs=Permission.SUBSCRIBE,
    answers=WholeDeadLetter,
    conditions=True,
)
# HEAD must not change state, so HEAD cannot give consent.
GIVE_CONSENT, POST_CONSENT = (
    Operation(
        method=method,
        path=f"{ONE}/consent",
        needs=Anyone.UNASKED,
        query=ConsentQuery,
        given={"WebHook-Allowed-Rate": "The most requests a minute that the sink takes, or `*`"},
        refuses=(429,),
        is_kept=False,
        has_head=False,
        content=Content(answered={"text/plain": {"type": "string"}}),
    )
    for method in ("GET", "POST")
)
