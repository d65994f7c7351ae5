"""The operations about the federation: its catalogs, their links, and the freshness of copies."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from catalog.model.linkterms import Mode, State
from catalog.model.roles import Permission
from catalog.operations.authoritycards import ToldCard
from catalog.operations.links import LinkAnswer
from catalog.operations.operation import AnswerBody, Operation, StrictQuery, Term, Time
from catalog.operations.peers import Authority, Count

MOST_SHARED = 1000
"""The most links of a catalog that are read."""


class SharedLink(AnswerBody):
    """A link of a catalog, without URLs and texts."""

    authority: Authority = Field(description="The other catalog.")
    direction: Literal["in", "out"] = Field(description="`in`: brings entities from there.")
    mode: Mode
    state: State
    lag: float | None = Field(
        default=None, ge=0, description="The greatest age of a missing change in seconds."
    )
    conflicts: Count = 0
    failures: Count = Field(default=0, description="In a row.")
    id: str | None = Field(default=None, description="The id, of links of this node only.")

    @classmethod
    def of(cls, link: LinkAnswer) -> SharedLink | None:
        """The link that a catalog has shown; `None` before its first contact, and for a topic."""
        if link.authority is None:
            return None
        lag = None if link.lag is None else max(0.0, link.lag)
        return cls.model_validate(link.model_copy(update={"lag": lag}))


class FederatedCatalog(AnswerBody):
    """A catalog of the federation, as far as it has told this node."""

    authority: str
    isown: bool = Field(default=False, description="Whether it is this node.")
    card: ToldCard = None
    links: list[SharedLink] | None = Field(
        default=None, description="Missing if it does not share links."
    )
    readat: Time | None = Field(default=None, description="When the links were told.")
    triedat: Time | None = Field(default=None, description="When the catalog was last asked.")
    error: str | None = Field(default=None, description="Why the catalog was not read then.")


class FederationAnswer(AnswerBody):
    """This node, then the catalogs at the other ends of its links."""

    catalogs: list[FederatedCatalog]


class FreshnessQuery(StrictQuery):
    """The entity that is asked about."""

    of: Term = Field(description="The xid of a group, resource or version.")


class Freshness(AnswerBody):
    """The owner of an entity, and how old the copy here may be.

    `own` is the state of an entity of this node. A copy is `current` if its source had no further
    change when it was last asked, `lag` seconds `behind` if that is longer ago, and `unknown` if no
    link brings it.
    """

    of: str
    authority: str
    card: ToldCard = None
    state: Literal["own", "current", "behind", "unknown"]
    lag: float | None = Field(
        default=None, description="The greatest age of a missing change in seconds."
    )
    confirmedat: Time | None = Field(
        default=None, description="When the source last had no other change."
    )
    through: str | None = Field(default=None, description="The authority that relays the copy.")
    conflict: str | None = Field(default=None, description="Why a later copy could not be applied.")
    editurl: str | None = Field(
        default=None, description="The page of the owner's console to edit it."
    )


READ_FEDERATION = Operation(
    "GET",
    "/-/federation",
    Permission.REPLICATE,
    answers=FederationAnswer,
    description="Catalogs are asked in the background, once a minute, with the credentials of the "
    "links to them: a catalog shares its links with the role `replicator`.",
)
READ_FRESHNESS = Operation(
    "GET", "/-/freshness", Permission.READ, query=FreshnessQuery, answers=Freshness, refuses=(404,)
)
