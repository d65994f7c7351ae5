"""The operations of `/-/search` and `/-/references`: entities by words, and by references."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from catalog.model.roles import Permission
from catalog.operations.operation import AnswerBody, Operation, StrictQuery, Term, Time

LONGEST_WORDS = 500
MOST_HITS = 100


class SearchQuery(StrictQuery):
    """The words and the conditions of a search, and the page of its hits."""

    q: str = Field(
        default="",
        max_length=LONGEST_WORDS,
        description="The words, of which an entity needs to have all, at least their beginnings. "
        "Ids and names are split at humps: `order` finds `OrderCreated`.",
    )
    type: Term | None = Field(
        default=None,
        description="Only this type: `messagegroups/messages`, `messagegroups`, or `messages` for "
        "the messages in groups of all types.",
    )
    authority: Term | None = Field(
        default=None, description="Only entities of the catalog with this URI."
    )
    format: Term | None = Field(
        default=None,
        description="Only schemas of this format, with or without its version, as `avro`; and "
        "messages that contain such a schema.",
    )
    deprecated: Literal["true"] | None = Field(
        default=None, description="Only deprecated entities."
    )
    limit: int = Field(default=20, ge=1, le=MOST_HITS, description="The most hits of the page.")
    after: int = Field(default=0, ge=0, le=2000, description="The number of hits before the page.")


class MarkedPart(AnswerBody):
    """A part of a text that the search looked for: the characters from `start` to before `end`."""

    start: int = Field(ge=0)
    end: int = Field(ge=0)


class SearchMatch(AnswerBody):
    """A text of a hit with words that the search looked for."""

    place: Literal[
        "id", "name", "description", "documentation", "labels", "type", "fields", "group"
    ] = Field(description="The attribute; `type` is that of CloudEvents, `fields` of the schema.")
    text: str = Field(description="The text, or the part of a longer text around the words.")
    marks: list[MarkedPart] = Field(description="Places in `text`, in Unicode characters.")


class Hit(AnswerBody):
    """A group, or a resource with the attributes of its default version."""

    xid: str
    type: str = Field(description="The path of the type, as `messagegroups/messages`.")
    name: str | None = None
    description: str | None = Field(default=None, description="The first 300 characters.")
    authority: str = Field(description="The URI of the catalog that controls the entity.")
    format: str | None = None
    epoch: int
    modifiedat: Time
    deprecated: bool = False
    xref: str | None = Field(default=None, description="The target of a cross reference.")
    matches: list[SearchMatch]


class Facet(AnswerBody):
    """The number of hits with a value."""

    value: str
    count: int


class Facets(AnswerBody):
    """The values of the hits on all pages, the most frequent first."""

    type: list[Facet] = Field(default_factory=list)
    authority: list[Facet] = Field(default_factory=list)
    format: list[Facet] = Field(default_factory=list)
    deprecated: list[Facet] = Field(default_factory=list)


class SearchAnswer(AnswerBody):
    """A page of the hits of a search, the best first."""

    hits: list[Hit]
    count: int = Field(description="The number of hits on all pages, 2,000 at most.")
    complete: bool = Field(
        description="Whether there are no hits beyond `count`: false if there may be more than "
        "2,000, of which those with the words in their ids come first."
    )
    facets: Facets


SEARCH = Operation(
    "GET",
    "/-/search",
    Permission.READ,
    query=SearchQuery,
    answers=SearchAnswer,
    description="Needs `q` or a condition.",
)


DEEPEST = 5


class ReferencesQuery(StrictQuery):
    """The entity that is asked about, the direction, and how far references are followed."""

    of: Term = Field(description="The xid of a group, resource or version.")
    direction: Literal["to", "from", "both"] = Field(
        default="both", description="References to the entity, from the entity, or both."
    )
    depth: int = Field(default=1, ge=1, le=DEEPEST, description="1 for direct references only.")


class FoundReference(AnswerBody):
    """The references of one entity to one target."""

    direction: Literal["to", "from"]
    depth: int = Field(ge=1, description="1 for a direct reference.")
    source: str = Field(description="What refers; a resource by its default version.")
    target: str | None = Field(
        default=None,
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
