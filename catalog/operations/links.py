"""The operations of `/replication/links`: the links that bring or send entities.

A link brings entities from a source, or sends entities to a target. The source of a link that
accepts pushes sends on its own.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StrictBool, model_validator

from catalog.model import linkterms
from catalog.model.authoritykey import PublicKey
from catalog.model.roles import Permission
from catalog.model.xid import is_valid_id
from catalog.operations.operation import (
    LOCATION,
    AnswerBody,
    Body,
    Flag,
    Operation,
    PageQuery,
    Query,
    Taken,
    Time,
)
from catalog.operations.peercredentials import GivenCredential, ShownCredential, Token
from catalog.operations.peers import MOST_NAMED, Authority, Count, ScopePath, Text, being, check_url


def _check_peer(url: str) -> str:
    return url if urlsplit(url).scheme in linkterms.TOPIC_SCHEMES else check_url(url)


def _check_trust(text: str) -> str:
    return text if text == linkterms.TRUST_FIRST else str(PublicKey.parse(text))


def _check_authorities(authorities: tuple[str, ...]) -> tuple[str, ...]:
    if "*" in authorities and authorities != linkterms.RELAY:
        raise ValueError('"*" means all authorities, so it has to be alone')
    return authorities


_Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9\-._~]{0,127}$")]
_Pairs = Annotated[dict[str, str], Field(max_length=MOST_NAMED)]
_Named = Field(default=(), max_length=MOST_NAMED)
_Authorities = Annotated[tuple[Text, ...], AfterValidator(_check_authorities)]
_Type = Annotated[Text, being(linkterms.is_type, "a type, as endpoints or messagegroups/messages")]
_Trusted = Annotated[Text, AfterValidator(_check_trust)]
_Label = Annotated[Text, being(linkterms.is_label, "a label, as name or name=value")]
_Prefix = Annotated[
    str,
    Field(max_length=64),
    being(lambda text: not text or is_valid_id(text), "the beginning of an id, as eu-"),
]
PeerUrl = Annotated[Text, AfterValidator(_check_peer)]
"""The URL of a remote catalog, or of a topic of Kafka as `kafka://HOST:PORT/TOPIC`."""


class LinkSelection(Body):
    """The entities that a link brings, and the local names and addresses of the entities.

    Xids of the `scope` include the entities below; empty lists select everything. Groups and
    resources have all of the `labels`. `prefix` comes before the ids of groups that `map`, as
    `{"messagegroups/shop": "messagegroups/eu-shop"}`, does not name.
    """

    scope: tuple[ScopePath, ...] = _Named
    types: tuple[_Type, ...] = _Named
    labels: tuple[_Label, ...] = _Named
    prefix: _Prefix = ""
    map: _Pairs = Field(default_factory=dict)
    addresses: _Pairs = Field(default_factory=dict)


class LinkTerms(LinkSelection):
    """The members that the definition and the changes of a link share."""

    source: PeerUrl | None = None
    target: PeerUrl | None = None
    token: Token | None = None
    credential: GivenCredential | None = None
    authority: Authority | None = None


class LinkChanges(LinkTerms):
    """The members of a link to replace.

    With a new `source`, or a new `target` of a link that sends, the same catalog has moved to the
    new URL. With a new `authority`, the source speaks for the new authority, and the link begins
    anew. A `token` is short for a `credential` with only a token; an empty token stands for no
    credential.
    """

    paused: StrictBool | None = Field(
        default=None,
        description="A paused link brings nothing and keeps its place. With false, it goes on "
        "from there.",
    )
    reason: Annotated[str, Field(min_length=1, max_length=256)] | None = Field(
        default=None, description="Why it is paused, which the link shows."
    )
    allow: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None,
        description="The digest of the question that the link asks: it may lose those entities.",
    )

    @model_validator(mode="after")
    def _gives_reason_for_pause(self) -> Self:
        if self.reason is not None and not self.paused:
            raise ValueError('a "reason" is that of a pause: it needs "paused": true')
        return self


class NewLink(LinkTerms):
    """A link as defined by an operator.

    A link of mode `push`, `publish` or `write` has a `target`, a link of a different mode has a
    `source`; for `publish` and `kafka`, the URL is a topic. A link of mode `accept` has neither,
    and takes the copies that the `authority` pushes. Without a mode, a new link walks a source that
    offers no replication.

    `authority` pins the remote catalog to an authority; by default, a new link is pinned to the
    authority that the catalog names first, and an existing link keeps the pin. The link brings
    entities of the `authorities`; `*` stands for all authorities. `dialect` is for links that walk
    or write. `trust` holds keys of the authority of a link that brings entities, or `first` for the
    keys that the source shows at the first contact. A topic of events, `eventtopic`, may wake a
    link of mode `events`.
    """

    id: _Id | None = None
    mode: linkterms.Mode = "events"
    authorities: _Authorities = _Named
    dialect: linkterms.Dialect | None = None
    trust: tuple[_Trusted, ...] = _Named
    eventtopic: PeerUrl | None = None


class LinkReset(Body):
    """The extent of a reset.

    With `drop`, the replicas that the link may bring, or only replicas of the `authorities`, are
    dropped first. With `full`, everything is copied without a comparison first.
    """

    drop: StrictBool = False
    full: StrictBool = False
    authorities: tuple[Text, ...] = _Named

    @model_validator(mode="after")
    def _drops_what_it_names(self) -> Self:
        if self.authorities and not self.drop:
            raise ValueError("`authorities` names what to drop, and `drop` is false")
        return self


class CompleteCopy(AnswerBody):
    """The complete copy under way: copies made, number of all copies, and seconds left."""

    copies: Count
    of: Count | None = None
    seconds: float | None = None


class LostEntity(AnswerBody):
    """An entity that a link would lose."""

    authority: str
    origin: str


class LinkQuestion(AnswerBody):
    """The question that a link asks before deleting many of the link's entities."""

    deletions: Count
    of: Count
    digest: str
    first: list[LostEntity]


class LinkEvent(AnswerBody):
    """An event in the history of a link."""

    at: Time
    event: str
    detail: str


class FoundCatalog(AnswerBody):
    """The remote catalog, as it answered when the link was made.

    `followedby` lists the links that follow the catalog's authority already, `left` the types of
    entities that the local model lacks.
    """

    authority: str
    software: str
    digestversion: int | None = None
    entities: Count | None = None
    left: list[str] | None = None
    followedby: list[str] = Field(default_factory=list)


class LinkAnswer(AnswerBody):
    """A link as operators see it; `lag` and `confirmed` are in seconds.

    `confirmed` is the time since the source was last found to have no further change. `lag` is the
    greatest possible age of a missing change: 0 while the link is current, else equal to
    `confirmed`. `behind` is the number of changes still to read, by the last report of the source,
    while the source answers. `rate` is in copies per second, in the last minute. `differing` is the
    number of entities whose states differed at the link and at the peer when digests were last
    compared, at `comparedat`; conflicts of the link do not count. Stars stand for a
    `token`. `found` is in the answer to the request that makes a link, `allowed`, the number of
    deletions, in the answer to a request with `allow`.
    """

    id: str
    source: str | None = None
    target: str | None = None
    direction: Literal["in", "out"]
    mode: linkterms.Mode
    dialect: linkterms.Dialect | None = None
    authorities: list[str]
    scope: list[str]
    types: list[str]
    labels: list[str]
    prefix: str
    map: dict[str, str]
    addresses: dict[str, str]
    trust: list[str]
    eventtopic: str | None = None
    token: str | None = None
    credential: ShownCredential | None = None
    authority: str | None = Field(default=None, description="The other catalog is pinned to it.")
    instance: str | None = None
    state: linkterms.State
    reason: str | None = Field(default=None, description="Why it is paused.")
    cursor: str | None = None
    lag: float | None = None
    behind: Count | None = None
    confirmed: float | None = None
    currentat: Time | None = None
    applied: Count
    appliedat: Time | None = None
    succeededat: Time | None = None
    rate: float
    bytes: Count
    progress: CompleteCopy | None = None
    conflicts: Count
    differing: Count | None = None
    comparedat: Time | None = None
    failures: Count = Field(description="In a row.")
    error: str | None = None
    errors: dict[str, int] = Field(description="Numbers of errors, by class.")
    nextattemptat: Time | None = None
    question: LinkQuestion | None = None
    subscription: str | None = None
    history: list[LinkEvent] = Field(description="The newest event first.")
    found: FoundCatalog | None = None
    allowed: Count | None = None


class LinkAnswers(AnswerBody):
    """A page of links."""

    links: list[LinkAnswer]


class TriedCopy(AnswerBody):
    """A copy that a link would apply, or would refuse for the reason in `detail`."""

    authority: str
    origin: str
    xid: str
    epoch: Count
    detail: str | None = None
    advice: str | None = None


class ConflictSide(AnswerBody):
    """One side of a conflict: a state of an entity."""

    authority: str
    epoch: Count
    deleted: bool = False
    modifiedat: Time | None = None
    attributes: dict[str, Any] | None = None
    document: str | None = Field(default=None, description="The document of a version, as text.")
    complete: bool = Field(default=True, description="False for no text, or more than 64 KiB.")


class CopyConflict(TriedCopy):
    """A copy that a link could not apply."""

    verdict: str
    at: Time
    refused: ConflictSide | None = Field(
        default=None,
        description="The copy, if it could be read and is kept: of the first 500 conflicts of a "
        "link, at most 64 KiB each, and 4 MiB in an answer. Of a link that sends, the entity here.",
    )
    held: ConflictSide | None = Field(
        default=None, description="What its path has here, at a link that brings."
    )


class CopyConflicts(AnswerBody):
    """A page of the copies that a link could not apply."""

    conflicts: list[CopyConflict]


class TriedCopies(AnswerBody):
    """The number of copies that would have the same outcome, and the first copies."""

    number: Count
    first: list[TriedCopy]


class DryRunAnswer(AnswerBody):
    """The effect of a link on the `rows` that the link may bring, and the first question.

    No copy is judged if too many copies differ; `reason` says so.
    """

    isdecided: bool
    reason: str | None = None
    rows: Count | None = None
    differing: Count | None = None
    outcomes: dict[str, TriedCopies] | None = None
    question: LinkQuestion | None = None


class AdoptedGroups(AnswerBody):
    """The groups that have become this node's own, with the number of entities in all."""

    groups: list[str]
    entities: Count


class ConflictQuery(PageQuery):
    """The page of conflicts; `after` has an authority and an origin."""

    after: str = Field(default="", max_length=4096)


class ForceQuery(Query):
    """Whether the remote catalog is asked."""

    force: Flag = Field(default=False, description="Do not ask the other catalog first.")


class RunQuery(Query):
    """Whether a run changes state."""

    dryrun: Flag = Field(default=False, description="Tell what it would do, and do nothing.")


class NewLinkQuery(ForceQuery, RunQuery):
    """The ways to create a link."""


class AdoptQuery(Query):
    """What becomes of a schema registry's default context."""

    default: Flag = Field(
        default=False,
        description="What a registry of the Confluent API has in its default context becomes the "
        "default context of this node.",
    )


class DropQuery(Query):
    """Whether replicas stay."""

    drop: Flag = Field(default=False, description="Drop what it brought first.")


_LINKS, _LINK = "/replication/links", "/replication/links/{id}"
_DROPPING = {202: "It is deleted when its replicas are dropped."}
_Told = Operation[None, LinkAnswer]


def _link(
    method: str,
    path: str,
    takes: type[Taken] | None = None,
    needs: Permission = Permission.ADMINISTER,
    **more: Any,
) -> Operation[Taken, LinkAnswer]:
    """An operation that answers with a link."""
    return Operation(method, path, needs, takes=takes, answers=LinkAnswer, **more)


LIST_LINKS = Operation("GET", _LINKS, Permission.REPLICATE, query=PageQuery, answers=LinkAnswers)
TRY_LINK = Operation(
    "POST", _LINKS, Permission.ADMINISTER, takes=NewLink, query=NewLinkQuery, answers=DryRunAnswer
)
CREATE_LINK = _link(
    "POST",
    _LINKS,
    NewLink,
    query=NewLinkQuery,
    dry=TRY_LINK,
    status=201,
    headers=LOCATION,
    refuses=(409,),
)
GET_LINK: _Told = _link("GET", _LINK, needs=Permission.REPLICATE)
REPLACE_LINK = _link("PUT", _LINK, NewLink)
CHANGE_LINK = _link("PATCH", _LINK, LinkChanges, query=ForceQuery, refuses=(409,))
DELETE_LINK: _Told = _link("DELETE", _LINK, query=DropQuery, outcomes=_DROPPING)
RESET_LINK = _link("POST", f"{_LINK}/reset", LinkReset)
TRY_RUN = Operation(
    "POST", f"{_LINK}/run", Permission.ADMINISTER, query=RunQuery, answers=DryRunAnswer
)
RUN_LINK: _Told = _link("POST", f"{_LINK}/run", query=RunQuery, refuses=(400, 409), dry=TRY_RUN)
ADOPT_LINK = Operation(
    "POST",
    f"{_LINK}/adopt",
    Permission.ADMINISTER,
    query=AdoptQuery,
    answers=AdoptedGroups,
    refuses=(400, 409),
)
LIST_CONFLICTS = Operation(
    "GET", f"{_LINK}/conflicts", Permission.ADMINISTER, query=ConflictQuery, answers=CopyConflicts
)
