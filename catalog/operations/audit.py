"""The operation of `/audit`: the record of changes, refusals and authors."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from catalog.model.roles import Permission
from catalog.operations.changes import ChangeAuthor
from catalog.operations.operation import AnswerBody, Operation, StrictQuery, Time

Outcome = Literal["done", "refused"]
_Text = Annotated[str, Field(max_length=1000)]


class AuditQuery(StrictQuery):
    """The conditions on entries, and the page of the list."""

    limit: int | None = Field(default=None, ge=1)
    since: Time | None = Field(default=None, description="Only entries from this time on.")
    until: Time | None = Field(default=None, description="Only entries before this time.")
    identity: _Text | None = Field(
        default=None,
        description="Only entries of callers with this name, of this kind, or both as `KIND:NAME`.",
    )
    path: _Text | None = Field(
        default=None, description="Only requests to, or about, this path or one below."
    )
    interaction: _Text | None = Field(
        default=None, description="Only the entry of this interaction."
    )
    outcome: Outcome | None = Field(
        default=None, description="Only requests that were done, or refused."
    )
    after: _Text | None = Field(
        default=None,
        description="Only entries after the one with this `sequence`, the oldest first.",
    )
    before: _Text | None = Field(
        default=None,
        description="Only entries before the one with this `sequence`, the newest first.",
    )


class AuditTarget(AnswerBody):
    """An entity or object that a request made or changed."""

    path: str
    action: str | None = None


class AuditEntry(AnswerBody):
    """An entry of the audit."""

    sequence: str = Field(description="The place of the entry, in the order of texts.")
    time: Time
    outcome: Outcome
    identity: ChangeAuthor = Field(description="The author, or the caller that was refused.")
    address: str | None = None
    agent: str | None = None
    method: str | None = None
    path: str | None = None
    interaction: str | None = Field(default=None, description="The id, which its events have, too.")
    changed: int | None = Field(default=None, ge=0, description="The number of changed entities.")
    targets: list[AuditTarget] | None = Field(
        default=None,
        description="Up to 20 targets: of more, the first at the path that was asked for.",
    )
    status: int | None = Field(default=None, description="The status of the refusal.")
    reason: str | None = Field(default=None, description="The name of the problem.")
    attempts: int | None = Field(
        default=None, ge=0, description="The refusals that the entry stands for."
    )


class AuditEntries(AnswerBody):
    """A page of the audit."""

    audit: list[AuditEntry]


READ_AUDIT = Operation(
    "GET",
    "/audit",
    Permission.GRANT,
    query=AuditQuery,
    answers=AuditEntries,
    is_kept=False,
    description="Admins of groups read what was done in their groups, without the addresses of "
    "callers, and without what else an interaction did.",
)
