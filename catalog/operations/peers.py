"""The operations between catalogs: handshake, keys, repairs.

The operations about remote catalogs share the types of URLs, paths and authorities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import AfterValidator, Field, SkipValidation

from catalog.model.authoritykey import MOST_KEYS, PublicKey
from catalog.model.digest import DIGEST_VERSION
from catalog.model.entity import Origin
from catalog.model.linkterms import is_authority, is_scope
from catalog.model.roles import Permission
from catalog.operations.authoritycards import ToldCard
from catalog.operations.operation import AnswerBody, Body, Flag, Operation, Query, Time

MOST_ORIGINS = 1000
MOST_NAMED = 100
"""The maximum number of authorities, paths of a scope, or other names in a request."""

_LONGEST_SOFTWARE = 64
_LONGEST_DIGEST = 64


def being(is_one: Callable[[str], bool], what: str) -> AfterValidator:
    """A check that a text meets a condition, for pydantic."""

    def check(text: str) -> str:
        if not is_one(text):
            raise ValueError(f"it needs to be {what}")
        return text

    return AfterValidator(check)


def _is_group(path: str) -> bool:
    return is_scope(path) and path.count("/") == 2


def check_url(url: str) -> str:
    """The URL of a catalog without a slash at its end.

    Raises:
        ValueError: the text is no URL of a catalog.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it needs to be the http or https URL of a catalog")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("it must have no query, fragment or user")
    return url.rstrip("/")


def _usable_allowances(told: dict[str, str]) -> dict[str, str]:
    # Left out rather than refused, so that allowances cannot break a handshake.
    if len(told) > MOST_NAMED:
        return {}
    return {
        authority: digest
        for authority, digest in told.items()
        if is_authority(authority) and len(digest) <= _LONGEST_DIGEST
    }


Text = Annotated[str, Field(min_length=1, max_length=1024)]
Storable = Annotated[Text, being(lambda text: "\0" not in text, "a text without NUL")]
Authority = Annotated[str, being(is_authority, "an absolute URI")]
ScopePath = Annotated[
    Text, being(is_scope, "the path of an entity or collection, as /messagegroups/g")
]
GroupPath = Annotated[Text, being(_is_group, "the path of a group, as /messagegroups/g")]
CatalogUrl = Annotated[Text, AfterValidator(check_url)]
KeyText = Annotated[
    str,
    AfterValidator(lambda text: str(PublicKey.parse(text))),
    Field(json_schema_extra={"pattern": "^ed25519:"}),
]
KeyId = Annotated[str, Field(json_schema_extra={"pattern": "^[1-9][0-9]{0,8}-[0-9a-f]{16}$"})]
Count = Annotated[int, Field(strict=True, ge=0, le=2**62)]


class LogRange(AnswerBody):
    """The retained part of a change log."""

    dropped: str
    now: str


class Handshake(AnswerBody):
    """The identity that a catalog claims, and the parts of replication that it supports."""

    instance: UUID = Field(description="Of the log: another one has other cursors.")
    incarnation: UUID | None = Field(
        default=None, description="The last start noted in the database."
    )
    authority: Authority = Field(description="Whose the catalog's own entities are.")
    base: Annotated[str, AfterValidator(lambda url: url.rstrip("/"))] | None = Field(
        default=None, description="The URL of the catalog."
    )
    card: ToldCard = Field(default=None, description="Who stands behind the authority.")
    software: Annotated[str, AfterValidator(lambda text: text[:_LONGEST_SOFTWARE])] = ""
    digestversion: int = Field(
        description="The rule of digests.", json_schema_extra={"const": DIGEST_VERSION}
    )
    log: LogRange | None = None
    offers: list[str] = Field(
        default=[], description="Parts of this protocol; unknown ones are ignored."
    )
    allowances: Annotated[dict[str, str], AfterValidator(_usable_allowances)] = Field(
        default={},
        description="What operators have allowed authorities to lose, as digests of questions.",
    )
    pushbytes: int | None = Field(default=None, gt=0, description="The largest body that it takes.")
    entities: Count | None = Field(default=None, description="How many, if `count` asks for it.")


class HandshakeQuery(Query):
    """The options of a handshake."""

    count: Flag = Field(default=False, description="Count the entities, too.")


class ShownKey(AnswerBody):
    """A key in the history of an authority."""

    key: KeyText = Field(description="`ed25519:NUMBER:BASE64URL`")
    id: KeyId
    createdat: Time
    retiredat: Time | None = None
    revokedat: Time | None = Field(default=None, description="Nothing that it has signed is valid.")
    endorsement: str | None = Field(
        default=None, description="The former key's signature, in base64url."
    )


class KeyHistoryAnswer(AnswerBody):
    """The keys of an authority, oldest first."""

    authority: Text
    at: Time
    keys: list[ShownKey] = Field(min_length=1, max_length=MOST_KEYS)
    signature: str = Field(description="Of the last key over the rest, in base64url.")


# The reader leaves out unreadable histories: a later node may know further kinds of keys.
_History = SkipValidation[KeyHistoryAnswer]


class KnownKeys(AnswerBody):
    """The histories of keys that a catalog knows, starting with the catalog's own authority."""

    keys: list[_History]


class KeysQuery(Query):
    """The authorities whose keys are requested."""

    authority: list[Authority] = Field(
        default=[], max_length=MOST_NAMED, description="Of these only."
    )


class ToldKeys(Body):
    """Histories of keys, as `GET /replication/keys` shows them."""

    keys: list[_History] = Field(max_length=MOST_NAMED)


class LearntKeys(AnswerBody):
    """The number of histories of keys that were new to a catalog."""

    learnt: Count = Field(description="How many histories were new.")


class OriginName(Body):
    """The identity of an entity."""

    authority: Text
    origin: ScopePath


class WantedOrigins(Body):
    """Entities to send, or to fetch again."""

    origins: list[OriginName] = Field(max_length=MOST_ORIGINS)

    @classmethod
    def of(cls, origins: Iterable[Origin]) -> WantedOrigins:
        """A body with origins of this node, which need no check."""
        named = [OriginName.model_construct(authority=o.authority, origin=o.xid) for o in origins]
        return cls.model_construct(origins=named)

    def to_origins(self) -> list[Origin]:
        """Each origin once, in the order given."""
        return list(dict.fromkeys(Origin(one.authority, one.origin) for one in self.origins))


class UnresolvedOrigin(AnswerBody):
    """An entity that was not repaired, and the reason."""

    authority: str
    origin: str
    reason: str


class Repairs(AnswerBody):
    """The result of a repair: the number of copies by verdict, and unresolved entities."""

    verdicts: dict[str, Count]
    unresolved: list[UnresolvedOrigin]


SENDER = {
    "Concord-Authority": "The authority of the sender.",
    "Concord-Instance": "The sender's instance, a UUID.",
}

HANDSHAKE = Operation(
    "GET", "/replication", Permission.FOLLOW, query=HandshakeQuery, answers=Handshake
)
LIST_KEYS = Operation(
    "GET", "/replication/keys", Permission.FOLLOW, query=KeysQuery, answers=KnownKeys
)
TELL_KEYS = Operation(
    "POST",
    "/replication/keys",
    Permission.PUSH,
    requires=SENDER,
    takes=ToldKeys,
    answers=LearntKeys,
    refuses=(503,),
)
REPAIR = Operation(
    "POST",
    "/replication/repair",
    Permission.REPLICATE,
    takes=WantedOrigins,
    answers=Repairs,
    is_repeatable=True,
)
