"""The operations on the deliveries of a subscription: their course, attempts and dead letters."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, RootModel, WithJsonSchema
from pydantic_core import from_json

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
from catalog.roles import Permission

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


class Pause(Body):
    """The reason of a pause, which the status shows."""

    reason: ShortText | None = None


class Resumption(Body):
    """A body without members."""


class Replay(Body):
    """The place in the log to deliver again from."""

    start: ShortText = Field(
        validation_alias="from",
        serialization_alias="from",
        description="`now`, `earliest`, the `sequence` of an event, or a time.",
    )


class ExampleAnswer(AnswerBody):
    """What a sink answers to an example event."""

    outcome: AttemptOutcome
    answer: str
    milliseconds: Count
    event: Event


class NumberQuery(Query):
    """The page of a list whose items have numbers: those after the one with the number `after`."""

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
    """A page of attempts, the last one first."""


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
    """A dead letter with its event."""

    event: Event


class DeadLetterAnswers(RootModel[list[DeadLetterAnswer]]):
    """A page of dead letters, the oldest first."""


class Redelivery(Body):
    """The dead letters to deliver again: those that failed at a time or later, else all."""

    since: Time | None = None


class Redelivered(AnswerBody):
    """The number of events that are due, and the dead letters that there are then."""

    accepted: Count
    deadletters: DeadLetterCounts


class DeletedDeadLetters(AnswerBody):
    """The number of dead letters that were deleted."""

    deleted: Count


class ConsentQuery(Query):
    """The secret that the sink was told."""

    model_config = ConfigDict(json_schema_extra={"required": ["key"]})

    # Whoever has none learns as little as one with a wrong one.
    key: str = ""


_DEAD, _LETTER = f"{ONE}/deadletters", f"{ONE}/deadletters/{{number}}"

PAUSE_SUBSCRIPTION = Operation(
    method="POST",
    path=f"{ONE}/pause",
    needs=Permission.SUBSCRIBE,
    takes=Pause,
    is_optional=True,
    answers=SubscriptionAnswer,
    outcomes=PENDING,
    headers=TAG,
    conditions=True,
    refuses=(409,),
    is_repeatable=True,
    is_kept=False,
)
RESUME_SUBSCRIPTION = Operation(
    method="POST",
    path=f"{ONE}/resume",
    needs=Permission.SUBSCRIBE,
    takes=Resumption,
    is_optional=True,
    answers=SubscriptionAnswer,
    outcomes=PENDING,
    headers=TAG,
    conditions=True,
    refuses=(409,),
    is_repeatable=True,
    is_kept=False,
)
REPLAY_SUBSCRIPTION = Operation(
    method="POST",
    path=f"{ONE}/replay",
    needs=Permission.SUBSCRIBE,
    takes=Replay,
    answers=SubscriptionAnswer,
    headers=TAG,
    conditions=True,
    refuses=(409,),
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
REDELIVER_DEAD_LETTER = Operation(
    method="POST",
    path=f"{_LETTER}/redeliver",
    needs=Permission.SUBSCRIBE,
    answers=Redelivered,
    status=202,
    conditions=True,
    refuses=(409,),
    is_repeatable=True,
)
# HEAD must change nothing, so it is none of the methods that consent.
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
