"""The operations of `/-/revisions`: the contents that an entity had, and how to purge them."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from catalog.model.roles import Permission
from catalog.operations.changes import ChangeEntry
from catalog.operations.operation import AnswerBody, Operation, Query, Time

_OF = (
    "The xid of an entity; of a resource it means the default version. `/meta` behind the xid of a "
    "resource means the resource itself."
)


class RevisionQuery(Query):
    """The entity whose contents are asked for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    of: str = Field(min_length=1, max_length=2048, description=_OF)


class RevisionsQuery(RevisionQuery):
    """The entity, and the page of the list."""

    before: str | None = Field(
        default=None,
        max_length=100,
        description="Only revisions before the one with this `sequence`.",
    )
    limit: int | None = Field(default=None, ge=1)


class PurgeQuery(Query):
    """The entity whose former contents are purged."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    of: str = Field(
        min_length=1,
        max_length=2048,
        description="The xid of an entity: its former contents, and those of what is or was below.",
    )


class RevisionsAnswer(AnswerBody):
    """A page of the revisions of an entity, the newest first: the changes that made them."""

    of: str
    revisions: list[ChangeEntry]


class RevisionAnswer(AnswerBody):
    """The content of an entity at an epoch."""

    of: str
    epoch: int
    change: ChangeEntry | None = Field(
        default=None, description="What made it; missing if it is from before the log."
    )
    createdat: Time
    modifiedat: Time
    attributes: dict[str, Any]
    document: str | None = Field(default=None, description="The document, if it is text.")
    documentbase64: str | None = Field(default=None, description="The document, if it is not.")


class PurgeAnswer(AnswerBody):
    """What was purged, and what can't be reached."""

    of: str
    purged: int = Field(description="The number of contents that are no longer kept.")
    isheld: bool = Field(
        description="Whether the entity is here still: its present content stays. If the secret is "
        "in it, write it without the secret, and purge again."
    )
    unreached: list[str] = Field(description="Where the contents may be still, in words.")


LIST_REVISIONS = Operation(
    method="GET",
    path="/-/revisions",
    needs=Permission.READ,
    query=RevisionsQuery,
    answers=RevisionsAnswer,
    refuses=(404,),
    headers={"Link": 'The next page, as `rel="next"`'},
    is_kept=False,
    description="Contents are kept while the log lasts, and up to `CONCORD_REVISION_BYTES` in all: "
    "beyond, the oldest go first.",
)
READ_REVISION = Operation(
    method="GET",
    path="/-/revisions/{epoch}",
    needs=Permission.READ,
    query=RevisionQuery,
    answers=RevisionAnswer,
    refuses=(404,),
    is_kept=False,
)
PURGE_REVISIONS = Operation(
    method="DELETE",
    path="/-/revisions",
    needs=Permission.GRANT,
    query=PurgeQuery,
    answers=PurgeAnswer,
    description="For a secret that was written by mistake: the contents are emptied, and the log "
    "tells of the changes without them. Admins of a group may purge what is in the group. The "
    "audit names who purged.",
)
