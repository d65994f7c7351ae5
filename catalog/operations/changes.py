"""The operations of `/-/changes`, `/-/revisions` and `/-/diff`: former contents and differences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field

from catalog.model.caller import AuthorKind
from catalog.model.roles import Permission
from catalog.operations.operation import AnswerBody, Flag, Operation, StrictQuery, Term, Time

_Text = Annotated[str, Field(max_length=2048)]
_WHO = (
    "The author, as far as the caller may know: admins of the catalog and of the entity's group "
    "may, and everybody may if the authority publishes its authors."
)
# The attributes that every update changes.
_ALWAYS = frozenset({"epoch", "modifiedat", "meta.epoch", "meta.modifiedat"})
_OF = (
    "The xid of an entity; of a resource it means the default version. `/meta` behind the xid of a "
    "resource means the resource itself."
)


class DiffQuery(StrictQuery):
    """The two versions, or the two revisions."""

    of: Term = Field(
        description="The xid of the older version; that of a resource means its default version. "
        "Also the registry, a group, or `/meta` behind a resource, if their contents are compared."
    )
    to: Term | None = Field(
        default=None,
        description="The id of the newer version, or its xid if it is one of another resource. "
        "Missing, it is the entity `of` itself: then an epoch is needed.",
    )
    ofepoch: int | None = Field(
        default=None, ge=0, description="The epoch of an older version's content."
    )
    toepoch: int | None = Field(
        default=None, ge=0, description="The epoch of a newer version's content."
    )


class DiffValue(AnswerBody):
    """A short value that differs, inside an attribute."""

    path: list[str] = Field(description="The names that lead to the value.")
    old: Any = Field(default=None, description="Missing if there was none.")
    new: Any = Field(default=None, description="Missing if there is none.")


class DiffLine(AnswerBody):
    """A line of the documents."""

    sign: Literal["=", "-", "+"] = Field(description="In both, the older, or the newer document.")
    number: int = Field(description="In the older document for `-`, else in the newer one.")
    text: str


class DiffField(AnswerBody):
    """A field of a schema that differs."""

    path: str
    old: str | None = Field(default=None, description="Its type; missing if it is new.")
    new: str | None = Field(default=None, description="Its type; missing if it is gone.")


class Compatibility(AnswerBody):
    """Whether a schema can be used in the place of another one."""

    compatible: bool
    reason: str | None = Field(default=None, description="What breaks, and where.")


class DiffAnswer(AnswerBody):
    """The difference of two contents."""

    of: str
    to: str
    ofepoch: int = Field(description="The epoch of the older content.")
    toepoch: int = Field(description="The epoch of the newer content.")
    changed: list[str] = Field(description="The names of the attributes that differ.")
    values: list[DiffValue] = Field(description="The first short values that differ.")
    text: list[DiffLine] | None = Field(
        default=None,
        description="The lines of the attributes as JSON that differ, with equal ones around.",
    )
    lines: list[DiffLine] | None = Field(
        default=None, description="The lines of the documents that differ, with equal ones around."
    )
    fields: list[DiffField] | None = Field(
        default=None, description="Fields of schemas that differ."
    )
    backward: Compatibility | None = Field(
        default=None, description="Whether readers with the newer schema can read older data."
    )
    forward: Compatibility | None = Field(
        default=None, description="Whether readers with the older schema can read newer data."
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


def essence_of(names: Iterable[str]) -> list[str]:
    """The names of changed attributes, without those that every update changes."""
    return [name for name in names if name not in _ALWAYS]


class CatalogChangesQuery(StrictQuery):
    """The conditions on changes, and the page of the list."""

    path: _Text | None = Field(default=None, description="Only changes at this path and below it.")
    since: Time | None = Field(default=None, description="Only changes from this time on.")
    until: Time | None = Field(default=None, description="Only changes before this time.")
    who: _Text | None = Field(
        default=None,
        description="Only changes of authors with this name, of this kind, or both as `KIND:NAME`, "
        "as far as the caller may know them.",
    )
    authority: _Text | None = Field(
        default=None, description="Only changes of entities of this authority."
    )
    interaction: _Text | None = Field(default=None, description="Only changes of this interaction.")
    parents: Flag = Field(
        default=False, description="Also entities of which only children changed."
    )
    before: _Text | None = Field(default=None, description="Only changes before this `sequence`.")
    limit: int | None = Field(default=None, ge=1)


class ChangeAuthor(AnswerBody):
    """The author of a change."""

    kind: AuthorKind
    name: str | None = None
    issuer: str | None = None


class ChangeEntry(AnswerBody):
    """A change of an entity by an interaction."""

    sequence: str = Field(description="The place of the change in the log, in the order of texts.")
    time: Time = Field(description="When it was written here: for a copy, when the copy came.")
    xid: str
    kind: Literal["registry", "group", "resource", "version"] = Field(
        description="An entity of the kind `resource` is the meta of the resource."
    )
    action: Literal["created", "updated", "deleted"]
    epoch: int
    changed: list[str] = Field(description="The names of the attributes that an update changed.")
    who: ChangeAuthor | None = Field(default=None, description=_WHO)
    authority: str
    origin: str = Field(description="The xid at the authority.")
    interaction: str = Field(description="The id that the events of the interaction carry, too.")
    content: Literal["kept", "purged", "gone"] | None = Field(
        default=None,
        description="Whether the content after the change can be read; missing if it was deleted.",
    )

    @property
    def essence(self) -> list[str]:
        """The names of the attributes that the update was for.

        A resource also names the attributes of its default version, which has a change of its own.
        """
        return essence_of(
            [name for name in self.changed if name.startswith("meta.")]
            if self.kind == "resource"
            else self.changed
        )


class ChangesAnswer(AnswerBody):
    """A page of changes, the newest first."""

    changes: list[ChangeEntry]


class ChangeAnswer(AnswerBody):
    """A change, with what was different before and after it."""

    change: ChangeEntry
    difference: DiffAnswer | None = Field(
        default=None, description="Missing if a content is not kept."
    )


LIST_CHANGES = Operation(
    "GET",
    "/-/changes",
    Permission.READ,
    query=CatalogChangesQuery,
    answers=ChangesAnswer,
    is_kept=False,
    description="Changes are told while the log lasts, of entities that the caller sees now.",
)
READ_CHANGE = Operation(
    "GET",
    "/-/changes/{sequence}",
    Permission.READ,
    answers=ChangeAnswer,
    refuses=(400, 404),
    is_kept=False,
    description="A created entity is compared with nothing, a deleted one is compared to nothing.",
)


class RevisionQuery(StrictQuery):
    """The entity whose contents are asked for."""

    of: Term = Field(description=_OF)


class RevisionsQuery(RevisionQuery):
    """The entity, and the page of the list."""

    before: str | None = Field(
        default=None, max_length=100, description="Only before this `sequence`."
    )
    limit: int | None = Field(default=None, ge=1)


class PurgeQuery(StrictQuery):
    """The entity whose former contents are purged."""

    of: Term = Field(
        description="The xid of an entity: its former contents, and those of what is or was below."
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
        default=None, description="What made it, if the log has that."
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
    "GET",
    "/-/revisions",
    Permission.READ,
    query=RevisionsQuery,
    answers=RevisionsAnswer,
    refuses=(404,),
    is_kept=False,
    description="Contents are kept while the log lasts, and up to `CONCORD_REVISION_BYTES` in all: "
    "beyond, the oldest go first.",
)
READ_REVISION = Operation(
    "GET",
    "/-/revisions/{epoch}",
    Permission.READ,
    query=RevisionQuery,
    answers=RevisionAnswer,
    refuses=(404,),
    is_kept=False,
)
PURGE_REVISIONS = Operation(
    "DELETE",
    "/-/revisions",
    Permission.GRANT,
    query=PurgeQuery,
    answers=PurgeAnswer,
    description="For a secret that was written by mistake: the contents are emptied, and the log "
    "tells of the changes without them. Admins of a group may purge what is in the group. The "
    "audit names who purged.",
)
