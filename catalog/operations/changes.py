"""The operations of `/-/changes`: what changed, when, by whom, and what one change made of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from catalog.model.caller import AuthorKind
from catalog.model.roles import Permission
from catalog.operations.diff import DiffAnswer
from catalog.operations.operation import AnswerBody, Flag, Operation, Query, Time

_Text = Annotated[str, Field(max_length=2048)]
_WHO = (
    "The author, as far as the caller may know: admins of the catalog and of the entity's group "
    "may, and everybody may if the authority publishes its authors."
)


# What every update changes beside what it is for.
_ALWAYS = frozenset({"epoch", "modifiedat", "meta.epoch", "meta.modifiedat"})


def essence_of(names: Iterable[str]) -> list[str]:
    """The names of changed attributes, without those that every update changes."""
    return [name for name in names if name not in _ALWAYS]


class CatalogChangesQuery(Query):
    """The conditions on changes, and the page of the list."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: _Text | None = Field(
        default=None, description="Only changes of this entity or collection, and below it."
    )
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
    interaction: _Text | None = Field(
        default=None, description="Only the changes of the interaction with this id."
    )
    parents: Flag = Field(
        default=False, description="Also entities of which nothing but their children changed."
    )
    before: _Text | None = Field(
        default=None, description="Only changes before the one with this `sequence`."
    )
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
        default=None, description="Missing if a content is no longer kept, or was purged."
    )


LIST_CHANGES = Operation(
    method="GET",
    path="/-/changes",
    needs=Permission.READ,
    query=CatalogChangesQuery,
    answers=ChangesAnswer,
    headers={"Link": 'The next page, as `rel="next"`'},
    is_kept=False,
    description="Changes are told while the log lasts, of entities that the caller sees now.",
)
READ_CHANGE = Operation(
    method="GET",
    path="/-/changes/{sequence}",
    needs=Permission.READ,
    answers=ChangeAnswer,
    refuses=(400, 404),
    is_kept=False,
    description="A created entity is compared with nothing, a deleted one is compared to nothing.",
)
