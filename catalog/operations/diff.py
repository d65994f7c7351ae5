"""The operation of `/-/diff`: what differs between two versions, or two revisions of an entity."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from catalog.model.roles import Permission
from catalog.operations.operation import AnswerBody, Operation, StrictQuery, Term


class DiffQuery(StrictQuery):
    """The two versions, or the two revisions."""

    of: Term = Field(
        description="The xid of the older version; that of a resource means its default version. "
        "Also the registry, a group, or `/meta` behind a resource, if their contents are compared."
    )
    to: Term | None = Field(
        None,
        description="The id of the newer version, or its xid if it is one of another resource. "
        "Missing, it is the entity `of` itself: then an epoch is needed.",
    )
    ofepoch: int | None = Field(None, ge=0, description="The epoch of an older version's content.")
    toepoch: int | None = Field(None, ge=0, description="The epoch of a newer version's content.")


class DiffValue(AnswerBody):
    """A short value that differs, inside an attribute."""

    path: list[str] = Field(description="The names that lead to the value.")
    old: Any = Field(None, description="Missing if there was none.")
    new: Any = Field(None, description="Missing if there is none.")


class DiffLine(AnswerBody):
    """A line of the documents."""

    sign: Literal["=", "-", "+"] = Field(description="In both, the older, or the newer document.")
    number: int = Field(description="In the older document for `-`, else in the newer one.")
    text: str


class DiffField(AnswerBody):
    """A field of a schema that differs."""

    path: str
    old: str | None = Field(None, description="Its type; missing if it is new.")
    new: str | None = Field(None, description="Its type; missing if it is gone.")


class Compatibility(AnswerBody):
    """Whether a schema can be used in the place of another one."""

    compatible: bool
    reason: str | None = Field(None, description="What breaks, and where.")


class DiffAnswer(AnswerBody):
    """The difference of two contents."""

    of: str
    to: str
    ofepoch: int = Field(description="The epoch of the older content.")
    toepoch: int = Field(description="The epoch of the newer content.")
    changed: list[str] = Field(description="The names of the attributes that differ.")
    values: list[DiffValue] = Field(description="The first short values that differ.")
    text: list[DiffLine] | None = Field(
        None, description="The lines of the attributes as JSON that differ, with equal ones around."
    )
    lines: list[DiffLine] | None = Field(
        None, description="The lines of the documents that differ, with equal ones around."
    )
    fields: list[DiffField] | None = Field(None, description="Fields of schemas that differ.")
    backward: Compatibility | None = Field(
        None, description="Whether readers with the newer schema can read older data."
    )
    forward: Compatibility | None = Field(
        None, description="Whether readers with the older schema can read newer data."
    )
    complete: bool = Field(description="False if the documents were too large to be compared.")


READ_DIFF = Operation(
    "GET",
    "/-/diff",
    Permission.READ,
    query=DiffQuery,
    answers=DiffAnswer,
    refuses=(404,),
    description="JSON is compared in one layout. Compatibility is told for Avro, JSON Schema and "
    "Protobuf, by the rules that the attribute `compatibility` holds versions to.",
)
