"""The operations about followers: who follows this node, how far each is, and who has a change.

A follower reports with each request for changes, by a header: the cursor of the request says that
the follower has everything before.
"""

from __future__ import annotations

import json
from typing import Literal

from pydantic import Field, ValidationError

from catalog.model.roles import Permission
from catalog.operations.authoritycards import ToldCard
from catalog.operations.operation import AnswerBody, Operation, StrictQuery, Term, Time
from catalog.operations.peers import Authority, Count, Text

FOLLOWER = "Concord-Follower"
"""The header by which a follower names itself: `FollowerName` as JSON in ASCII."""
MOST_FOLLOWERS = 1000
KEPT_DAYS = 30
_LONGEST_HEADER = 4096


class FollowerName(AnswerBody):
    """The name that a follower gives itself, without proof."""

    authority: Authority
    card: ToldCard = None

    def header(self) -> str:
        """The name as the value of a header, without a card that would be too long for a header."""
        text = json.dumps(self.model_dump(mode="json", exclude_none=True))
        return text if len(text) <= _LONGEST_HEADER else json.dumps({"authority": self.authority})

    @classmethod
    def read(cls, header: str | None) -> FollowerName | None:
        """Read the value of a header; `None` for a value that names nobody."""
        if not header or len(header) > _LONGEST_HEADER:
            return None
        try:
            return cls.model_validate_json(header)
        except ValidationError:
            return None


class FollowedSelection(AnswerBody):
    """The entities that a follower asks for; empty lists stand for all."""

    authorities: list[str] = Field(default_factory=list)
    scope: list[str] = Field(default_factory=list)
    types: list[str] = Field(default_factory=list)


class Follower(AnswerBody):
    """A catalog that has copies from this node.

    A follower that pulls reports by itself, as the caller in `identity`. The follower at the end of
    one of this node's links is known by the answers to the link, and has the `link`.
    """

    authority: str
    card: ToldCard = None
    identity: str | None = Field(default=None, description="Who reports, as known to this node.")
    link: str | None = Field(default=None, description="The link of this node that sends.")
    selection: FollowedSelection = Field(default_factory=FollowedSelection)
    position: str | None = Field(default=None, description="Everything up to there has arrived.")
    lag: float | None = Field(
        default=None,
        description="The age in seconds of the oldest change that has not arrived; 0 if none.",
    )
    seenat: Time | None = Field(default=None, description="When the follower last reported.")


class Followers(AnswerBody):
    """The followers of this node, the farthest behind first."""

    followers: list[Follower]


class ArrivalsQuery(StrictQuery):
    """The change that is asked about: one of an entity, or a position in the log."""

    of: Term | None = Field(default=None, description="The xid of a group, resource or version.")
    epoch: int | None = Field(
        default=None,
        ge=1,
        le=2**62,
        description="The epoch of that entity; the present one unless given.",
    )
    position: Text | None = Field(
        default=None, description="A position, as the header `Concord-Position` of a write has it."
    )


class Arrival(AnswerBody):
    """Whether a follower has a change.

    `arrived` means that the follower has confirmed a later position, `awaited` that it has not, and
    `unselected` that the follower does not ask for the entity. A follower that has received a copy
    can still have refused it: its conflicts are shown there.
    """

    authority: str
    card: ToldCard = None
    state: Literal["arrived", "awaited", "unselected"]
    epoch: Count | None = Field(
        default=None,
        description="The epoch that has arrived; missing if none has, or if that is not known.",
    )
    since: Time | None = Field(
        default=None, description="The time of the first change that is awaited."
    )
    seenat: Time | None = Field(default=None, description="When the follower last reported.")


class Arrivals(AnswerBody):
    """The followers of this node, those that await the change first."""

    of: str | None = None
    epoch: Count | None = None
    position: str | None = None
    followers: list[Arrival]


LIST_FOLLOWERS = Operation(
    "GET",
    "/replication/followers",
    Permission.REPLICATE,
    answers=Followers,
    description=f"The {MOST_FOLLOWERS:,} that reported last, for {KEPT_DAYS} days. A follower "
    f"names itself by the header `{FOLLOWER}` of `GET /replication/changes`.",
)
READ_ARRIVALS = Operation(
    "GET",
    "/replication/arrivals",
    Permission.READ,
    query=ArrivalsQuery,
    answers=Arrivals,
    refuses=(400, 404),
    description="Needs `of` or `position`. Followers of followers are known to these.",
)
