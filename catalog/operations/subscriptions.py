"""The operations on subscriptions (subscriptions-spec.md 3.2), and on keys of subscriptions."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic_core import from_json

from catalog.model.credentials import CredentialType, PlainCredential, RefreshGrant, TokenCredential
from catalog.model.roles import IdentityKind, Permission
from catalog.model.sinkterms import SignatureScheme
from catalog.operations.operation import (
    LOCATION,
    AnswerBody,
    Body,
    Flag,
    Operation,
    PageQuery,
    Query,
    Secret,
    Term,
    Time,
    secret_like,
)

State = Literal["pending", "active", "paused", "suspended", "expired", "ended"]
"""Only active subscriptions get deliveries; inactive subscriptions keep the cursor."""

_IN_JSON = {
    "start": "from",
    "startsat": "startsAt",
    "expiresat": "expiresAt",
    "maxevents": "maxEvents",
    "initialevents": "initialEvents",
}
_Token = Annotated[
    Secret, secret_like(r"[\x21-\x7e]{1,8192}", "1 to 8192 visible ASCII characters")
]
_RefreshToken = Annotated[Secret, secret_like(r"[\x20-\x7e]{1,8192}", "1 to 8192 ASCII characters")]
Count = Annotated[int, Field(ge=0)]
Filter = dict[str, Any]
_OF_EVENTS = ["specversion", "id", "source", "type"]


def _parsed(event: object) -> object:
    return from_json(event) if isinstance(event, bytes) else event


Event = Annotated[
    dict[str, Any],
    BeforeValidator(_parsed),
    WithJsonSchema(
        {
            "type": "object",
            "description": "An event in the JSON format of CloudEvents.",
            "required": _OF_EVENTS,
            "properties": {name: {"type": "string", "minLength": 1} for name in _OF_EVENTS},
        }
    ),
]
Settings = dict[str, Any]


class NewPlainCredential(Body):
    """A name and a password for the sink."""

    credentialtype: Literal["PLAIN"]
    identifier: Annotated[Secret, Field(min_length=1, max_length=1024)]
    secret: Annotated[Secret, Field(min_length=1, max_length=8192)]

    def to_credential(self) -> PlainCredential:
        return PlainCredential(
            identifier=self.identifier.get_secret_value(), secret=self.secret.get_secret_value()
        )


class _NewTokenCredential(Body):
    """An access token.

    Members that the specification requires are required: a token with an unknown end would fail one
    day without a warning.
    """

    accesstoken: _Token
    accesstokenexpiresutc: Time
    accesstokentype: str = Field(
        pattern=r"^[A-Za-z0-9-]{1,32}$", description="An authorization scheme, such as Bearer."
    )

    def to_credential(self) -> TokenCredential:
        return TokenCredential(
            token=self.accesstoken.get_secret_value(),
            scheme=self.accesstokentype,
            expiresat=self.accesstokenexpiresutc,
        )


class NewAccessToken(_NewTokenCredential):
    """An access token for the sink."""

    credentialtype: Literal["ACCESSTOKEN"]


class NewRefreshToken(_NewTokenCredential):
    """An access token for the sink, and the means to get the next token."""

    credentialtype: Literal["REFRESHTOKEN"]
    refreshtoken: _RefreshToken
    refreshtokenendpoint: str = Field(min_length=1, max_length=2048)

    def to_credential(self) -> TokenCredential:
        refresh = RefreshGrant(
            token=self.refreshtoken.get_secret_value(), endpoint=self.refreshtokenendpoint
        )
        return replace(super().to_credential(), refresh=refresh)


class BatchLimits(Body):
    """The maximum numbers of events, and of bytes of JSON, that a sink gets at a time.

    A smaller batch waits for more events until the first event is `wait` seconds old.
    """

    count: int = Field(default=100, ge=1, le=10_000, strict=True)
    bytes: int = Field(default=1024 * 1024, ge=1, le=64 * 1024 * 1024, strict=True)
    wait: float = Field(default=0.0, ge=0, le=60)


class RetryLimits(Body):
    """The limits of attempts and seconds for an event that a sink refuses for now, if any."""

    attempts: int | None = Field(default=None, ge=1, le=10_000, strict=True)
    seconds: float | None = Field(default=None, ge=0, le=30 * 24 * 3600)


class SubscriptionConfig(Body):
    """The settings of a subscription (subscriptions-spec.md 3.2.1, "config")."""

    model_config = ConfigDict(alias_generator=lambda name: _IN_JSON.get(name, name))

    start: str | None = Field(
        default=None,
        max_length=64,
        description="Where in the log it begins: `now`, `earliest`, the `sequence` of an event, "
        "after which it goes on, or a time.",
    )
    startsat: Time | None = Field(
        default=None,
        description="Nothing is delivered before; without `from`, no earlier event either.",
    )
    expiresat: Time | None = Field(default=None, description="Nothing is delivered from then on.")
    maxevents: int | None = Field(
        default=None,
        ge=1,
        le=2**53,
        strict=True,
        description="It ends when its sink has accepted so many events.",
    )
    initialevents: bool = Field(
        default=False, strict=True, description="All entities come first, as created events."
    )
    interval: float | None = Field(
        default=None,
        ge=0,
        le=3600,
        description="The sink gets at most one event in so many seconds, the latest.",
    )
    batch: BatchLimits | None = Field(
        default=None, description="Else a sink gets all events that it takes."
    )
    retry: RetryLimits | None = Field(
        default=None, description="Else an event that a sink refuses for now is tried for ever."
    )
    order: Literal["wait", "continue"] = Field(
        default="continue",
        description="Whether the later events of its subject wait for an event that could not be "
        "delivered, or continue without it.",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> SubscriptionConfig:
        if self.initialevents and self.start not in (None, "now"):
            raise ValueError('"initialEvents" begin now, whatever "from" says: leave one out')
        if self.interval is not None and (self.initialevents or self.batch is not None):
            raise ValueError('with an "interval", only the latest event is sent')
        if self.expiresat and self.startsat and self.expiresat <= self.startsat:
            raise ValueError('"expiresAt" needs to be later than "startsAt"')
        return self


class NewSubscription(Body):
    """A subscription as a client proposes it (subscriptions-spec.md 3.2.1).

    The server assigns `id`, `status` and `signingkeys`; values from clients are ignored. An older
    draft (message catalog, 5.5) has one `filter` and the protocol `HTTPS`. Stars in the query of
    the sink, as the value of a header, or in place of secrets of the credential keep the stored
    values.
    """

    id: Any = None
    status: Any = None
    signingkeys: Any = None
    source: str | None = Field(default=None, min_length=1, max_length=2048)
    types: list[Annotated[str, Field(min_length=1, max_length=256)]] = Field(
        default_factory=list, max_length=256
    )
    config: SubscriptionConfig = Field(default_factory=SubscriptionConfig)
    filter: Filter | None = None
    filters: list[Filter] = Field(default_factory=list)
    sink: str = Field(min_length=1, max_length=2048)
    sinkcredential: (
        Annotated[
            NewPlainCredential | NewAccessToken | NewRefreshToken,
            Field(discriminator="credentialtype"),
        ]
        | None
    ) = None
    protocol: str
    protocolsettings: Settings = Field(default_factory=dict)


class SinkCredentialAnswer(AnswerBody):
    """A credential with stars in place of secrets."""

    credentialtype: CredentialType
    identifier: str | None = None
    secret: str | None = None
    accesstoken: str | None = None
    accesstokenexpiresutc: Time | None = None
    accesstokentype: str | None = None
    refreshtoken: str | None = None
    refreshtokenendpoint: str | None = None


class SigningKeyAnswer(AnswerBody):
    """A key that signs deliveries."""

    id: str
    signature: SignatureScheme
    publickey: str | None = Field(default=None, description="What verifies ed25519 signatures.")
    secret: str | None = Field(
        default=None, description="Of hmac-sha256, in the first answer only."
    )
    createdat: Time
    endsat: Time | None = None


class SubscriptionOwner(AnswerBody):
    """The caller that owns a subscription."""

    kind: IdentityKind
    name: str | None = None
    issuer: str | None = None


class DeadLetterCounts(AnswerBody):
    """The numbers of dead letters of a subscription, by state."""

    dead: Count = 0
    waiting: Count = 0
    due: Count = 0


class TokenRefresh(AnswerBody):
    """The refreshes of an access token that have failed."""

    failures: Count
    error: str


class LostChanges(AnswerBody):
    """The notice that changes left the log before they were delivered."""

    at: Time
    detail: str


class DeliveryStatus(AnswerBody):
    """The state of a delivery."""

    state: State
    reason: str | None = Field(default=None, description="Why it is in this state.")
    createdat: Time
    createdby: SubscriptionOwner | None = Field(
        default=None, description="Its events are what the caller may see."
    )
    failures: Count = Field(description="Failed attempts in a row.")
    failingsince: Time | None = None
    error: str | None = Field(default=None, description="Why the last attempt failed, if it did.")
    nextattemptat: Time | None = None
    delivered: Count = Field(description="Events that the sink accepted.")
    deliveredat: Time | None = None
    failed: Count = Field(description="Events that became dead letters.")
    failedattempts: Count
    failedat: Time | None = None
    failedcause: str | None = None
    lag: Count = Field(description="Changes after the cursor; 1000 stands for that many or more.")
    lagseconds: float = Field(ge=0)
    oldestundelivered: Time | None = None
    deadletters: DeadLetterCounts
    initialevents: str | None = None
    refresh: TokenRefresh | None = None
    lost: LostChanges | None = None


class ConfigAnswer(SubscriptionConfig):
    """The settings of a subscription, without default values."""

    model_config = ConfigDict(extra="ignore")

    @model_serializer(mode="wrap")
    def _without_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        shown = dump(self).items()
        return {name: value for name, value in shown if value is not False and value != "continue"}


class SubscriptionAnswer(AnswerBody):
    """A subscription, without secrets."""

    id: str
    source: str | None = None
    types: list[str] | None = None
    config: ConfigAnswer | None = None
    filters: list[Filter] | None = None
    sink: str = Field(description="Stars stand for the values in its query.")
    sinkcredential: SinkCredentialAnswer | None = None
    protocol: str
    protocolsettings: Settings
    signingkeys: list[SigningKeyAnswer] | None = Field(
        default=None, description="The keys that sign its deliveries, the current one first."
    )
    status: DeliveryStatus


class SubscriptionAnswers(RootModel[list[SubscriptionAnswer]]):
    """A page of subscriptions."""


class NewSubscriptionQuery(Query):
    """Whether a subscription is made."""

    dryrun: Flag = Field(
        default=False, description="Tell what it would have been sent, and make nothing."
    )


class TriedSubscription(AnswerBody):
    """The events of the latest changes that a subscription would have been sent.

    `changes` is the number of changes that were examined, `since` the time of the oldest.
    """

    changes: Count
    since: Time | None = None
    events: Count
    first: list[Event] = Field(description="The newest event first, without the rest.")


class KeyExchange(Body):
    """The time for which the old key signs beside the new key; with 0, the old key ends at once."""

    overlapseconds: int = Field(default=24 * 3600, ge=0, le=30 * 24 * 3600, strict=True)


_ALL, ONE = "/subscriptions", "/subscriptions/{id}"
_KEYS = f"{ONE}/signingkeys"
TAG = {"ETag": "Its tag, for If-Match"}
PENDING = {202: "Done; the sink has yet to consent before it gets events."}


class SubscriptionsQuery(PageQuery):
    """The page of the list, and the entity whose changes are to be sent."""

    about: Term | None = Field(
        default=None,
        description="The xid of a group, resource or version: only the subscriptions that would be "
        "sent an event of a change of it.",
    )


LIST_SUBSCRIPTIONS = Operation(
    "GET", _ALL, Permission.SUBSCRIBE, query=SubscriptionsQuery, answers=SubscriptionAnswers
)
TRY_SUBSCRIPTION = Operation(
    "POST",
    _ALL,
    Permission.SUBSCRIBE,
    takes=NewSubscription,
    query=NewSubscriptionQuery,
    answers=TriedSubscription,
)
CREATE_SUBSCRIPTION = Operation(
    "POST",
    _ALL,
    Permission.SUBSCRIBE,
    takes=NewSubscription,
    query=NewSubscriptionQuery,
    dry=TRY_SUBSCRIPTION,
    answers=SubscriptionAnswer,
    status=201,
    outcomes=PENDING,
    headers={**TAG, **LOCATION},
    refuses=(409,),
)
GET_SUBSCRIPTION = Operation(
    "GET", ONE, Permission.SUBSCRIBE, answers=SubscriptionAnswer, headers=TAG, is_kept=False
)
REPLACE_SUBSCRIPTION = Operation(
    "PUT",
    ONE,
    Permission.SUBSCRIBE,
    takes=NewSubscription,
    answers=SubscriptionAnswer,
    outcomes=PENDING,
    headers=TAG,
    conditions=True,
)
DELETE_SUBSCRIPTION = Operation(
    "DELETE", ONE, Permission.SUBSCRIBE, answers=SubscriptionAnswer, headers=TAG, conditions=True
)
ADD_KEY = Operation(
    "POST",
    _KEYS,
    Permission.SUBSCRIBE,
    takes=KeyExchange,
    is_optional=True,
    answers=SigningKeyAnswer,
    status=201,
    headers=LOCATION,
    conditions=True,
    refuses=(409,),
)
END_KEY = Operation(
    "DELETE", f"{_KEYS}/{{key}}", Permission.SUBSCRIBE, conditions=True, refuses=(409,)
)
