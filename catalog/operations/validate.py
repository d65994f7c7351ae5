"""The operation of `/validate`: a message is checked, and its definition is found by its type."""

from __future__ import annotations

from pydantic import Field

from catalog.model.roles import Permission
from catalog.operations.operation import AnswerBody, Content, Operation, StrictQuery, Term

EVENT_TYPE = "application/cloudevents+json"


class ValidationQuery(StrictQuery):
    """The type of a message, if the body is the data of the message alone."""

    type: Term | None = Field(
        default=None,
        description="The type of the CloudEvent whose data is the body, with `Content-Type` as its "
        "media type. Without it, the body or the request is the whole CloudEvent.",
    )


class ViolationAnswer(AnswerBody):
    """A rule that a message breaks."""

    pointer: str = Field(description="A JSON pointer into the message; empty for the whole.")
    rule: str
    detail: str
    line: int | None = Field(
        default=None, description="The line of the body, from 1, if the body is JSON."
    )


class UncheckedPart(AnswerBody):
    """A part of the definition that was not checked."""

    part: str
    reason: str
    uri: str | None = Field(default=None, description="The reference in the part.")


class CandidateAnswer(AnswerBody):
    """A definition whose messages have the type of the message."""

    definition: str = Field(description="The xid of the version.")
    matches: bool = Field(
        description="Whether the message has the type, source, subject and dataschema that the "
        "definition wants."
    )
    valid: bool | None = Field(
        default=None, description="Whether all conforms; of the first eight only."
    )
    violations: list[ViolationAnswer] = Field(description="Why it does not match.")


class MessageVerdict(AnswerBody):
    """Whether a message conforms to its definition, and the rules that it breaks."""

    valid: bool
    definition: str = Field(description="The xid of the version that the message was held to.")
    schema_: str | None = Field(
        default=None, alias="schema", description="The xid of its schema's version."
    )
    violations: list[ViolationAnswer]
    unchecked: list[UncheckedPart]


class ValidationAnswer(MessageVerdict):
    """The verdict about a message whose definition was found by its type."""

    candidates: list[CandidateAnswer] = Field(
        description="The definitions with the type, the one that was used first."
    )


VALIDATE = Operation(
    "POST",
    "/validate",
    Permission.READ,
    query=ValidationQuery,
    answers=ValidationAnswer,
    content=Content(taken={EVENT_TYPE: {"type": "object"}, "*/*": {}}),
    refuses=(404,),
    is_repeatable=True,
    description="Both verdicts are answered with 200. The definition is that of a default version "
    "with the type of the event; of several, the one that the event matches best by source, "
    "subject, dataschema and data. Other messages than CloudEvents need `/validate` + the xid of "
    "their definition.",
)
