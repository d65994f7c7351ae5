"""The operation of `/-/references`: what refers to an entity, and what it refers to."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from catalog.model.roles import Permission
from catalog.operations.operation import AnswerBody, Operation, StrictQuery, Term

DEEPEST = 5


class ReferencesQuery(StrictQuery):
    """The entity that is asked about, the direction, and how far references are followed."""

    of: Term = Field(description="The xid of a group, resource or version.")
    direction: Literal["to", "from", "both"] = Field(
        "both", description="References to the entity, from the entity, or both."
    )
    depth: int = Field(1, ge=1, le=DEEPEST, description="1 for direct references only.")


class FoundReference(AnswerBody):
    """The references of one entity to one target."""

    direction: Literal["to", "from"]
    depth: int = Field(ge=1, description="1 for a direct reference.")
    source: str = Field(description="What refers; a resource by its default version.")
    target: str | None = Field(
        None,
        description="The xid of the target here: a group that contains the entity, too. Missing if "
        "the target is not here, or is not to be seen.",
    )
    text: str = Field(description="The reference as written.")
    places: list[str] = Field(description="JSON pointers to attributes, or `document`.")


class ReferencesAnswer(AnswerBody):
    """References to and from an entity, those of the smallest depth first."""

    of: str
    references: list[FoundReference]
    complete: bool = Field(description="False if there are more than could be followed.")


READ_REFERENCES = Operation(
    "GET",
    "/-/references",
    Permission.READ,
    query=ReferencesQuery,
    answers=ReferencesAnswer,
    refuses=(404,),
    description="References are in attributes (schema URIs, base messages, groups of endpoints, "
    "cross references, those of the Confluent API) and in documents (`$ref`, imports) of groups, "
    "of default versions and of the version that is asked about. A reference to the group of an "
    "entity counts as one to the entity.",
)
