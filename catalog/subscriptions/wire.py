"""The bodies of the Subscriptions API, and their conversion to and from subscriptions."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from catalog.events.filters import compile_filters
from catalog.http.outboundaddress import split_hosts
from catalog.model.errors import (
    InvalidAttribute,
    RequiredAttributeMissing,
    UnknownAttribute,
    XRegistryError,
    with_violations,
)
from catalog.model.sinkcredential import (
    PlainCredential,
    RefreshGrant,
    SinkCredential,
    TokenCredential,
)
from catalog.model.timestamps import parse_time
from catalog.sinks.protocols import PROTOCOLS, why_missing
from catalog.store.logpositions import check_position
from catalog.store.subscriptions import (
    BatchLimits,
    RetryLimits,
    SubscriptionConfig,
    SubscriptionDefinition,
)

_VISIBLE = re.compile(r"[\x21-\x7e]{1,8192}")
_PRINTABLE = re.compile(r"[\x20-\x7e]{1,8192}")
_LONGEST_TIME = 64
_SCHEME = re.compile(r"[A-Za-z0-9-]{1,32}")


def _check_token(value: SecretStr) -> SecretStr:
    if not _VISIBLE.fullmatch(value.get_secret_value()):
        raise ValueError("it needs to be 1 to 8192 visible ASCII characters")
    return value


def _check_refresh_token(value: SecretStr) -> SecretStr:
    if not _PRINTABLE.fullmatch(value.get_secret_value()):
        raise ValueError("it needs to be 1 to 8192 ASCII characters")
    return value


def _check_scheme(value: str) -> str:
    if not _SCHEME.fullmatch(value):
        raise ValueError("it needs to be the name of an authorization scheme, such as Bearer")
    return value


def _parse_instant(value: object) -> datetime:
    if not isinstance(value, str) or len(value) > _LONGEST_TIME:
        raise ValueError("it needs to be an RFC 3339 timestamp, as 2030-12-19T06:00:00Z")
    return parse_time(value)


_Time = Annotated[datetime, BeforeValidator(_parse_instant)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class _PlainCredential(_Body):
    credentialtype: Literal["PLAIN"]
    identifier: SecretStr = Field(min_length=1, max_length=1024)
    secret: SecretStr = Field(min_length=1, max_length=8192)

    def to_credential(self) -> PlainCredential:
        return PlainCredential(
            identifier=self.identifier.get_secret_value(), secret=self.secret.get_secret_value()
        )


class _TokenCredential(_Body):
    """An access token. What the specification requires is required: a token whose end is unknown
    would fail one day without a warning."""

    accesstoken: Annotated[SecretStr, AfterValidator(_check_token)]
    accesstokenexpiresutc: _Time
    accesstokentype: Annotated[str, AfterValidator(_check_scheme)]

    def to_credential(self) -> TokenCredential:
        return TokenCredential(
            token=self.accesstoken.get_secret_value(),
            scheme=self.accesstokentype,
            expiresat=self.accesstokenexpiresutc,
        )


class _AccessTokenCredential(_TokenCredential):
    credentialtype: Literal["ACCESSTOKEN"]


class _RefreshTokenCredential(_TokenCredential):
    credentialtype: Literal["REFRESHTOKEN"]
    refreshtoken: Annotated[SecretStr, AfterValidator(_check_refresh_token)]
    refreshtokenendpoint: str = Field(min_length=1, max_length=2048)

    def to_credential(self) -> TokenCredential:
        refresh = RefreshGrant(
            token=self.refreshtoken.get_secret_value(), endpoint=self.refreshtokenendpoint
        )
        return replace(super().to_credential(), refresh=refresh)


def _check_start(value: str) -> str:
    check_position(value)
    return value


class _Batch(_Body):
    count: int = Field(default=100, ge=1, le=10_000, strict=True)
    bytes: int = Field(default=1024 * 1024, ge=1, le=64 * 1024 * 1024, strict=True)
    wait: float = Field(default=0.0, ge=0, le=60)


class _Retry(_Body):
    attempts: int | None = Field(default=None, ge=1, le=10_000, strict=True)
    seconds: float | None = Field(default=None, ge=0, le=30 * 24 * 3600)


class _Config(_Body):
    """The supported settings (subscriptions-spec.md 3.2.1, "config"); see `SubscriptionConfig`."""

    start: Annotated[str, Field(max_length=64), AfterValidator(_check_start)] | None = Field(
        default=None, alias="from"
    )
    startsat: _Time | None = Field(default=None, alias="startsAt")
    expiresat: _Time | None = Field(default=None, alias="expiresAt")
    maxevents: int | None = Field(default=None, ge=1, le=2**53, strict=True, alias="maxEvents")
    initialevents: bool = Field(default=False, strict=True, alias="initialEvents")
    interval: float | None = Field(default=None, ge=0, le=3600)
    batch: _Batch | None = None
    retry: _Retry | None = None
    order: Literal["wait", "continue"] = "continue"

    @model_validator(mode="after")
    def _fits_together(self) -> _Config:
        if self.initialevents and self.start not in (None, "now"):
            raise ValueError('"initialEvents" begin now, whatever "from" says: leave one out')
        if self.interval is not None and (self.initialevents or self.batch is not None):
            raise ValueError('with an "interval", only the latest event is sent')
        if self.expiresat and self.startsat and self.expiresat <= self.startsat:
            raise ValueError('"expiresAt" needs to be later than "startsAt"')
        return self

    def to_config(self) -> SubscriptionConfig:
        return SubscriptionConfig(
            start=self.start,
            startsat=self.startsat,
            expiresat=self.expiresat,
            maxevents=self.maxevents,
            initialevents=self.initialevents,
            interval=self.interval,
            batch=None if self.batch is None else BatchLimits(**self.batch.model_dump()),
            retry=None if self.retry is None else RetryLimits(**self.retry.model_dump()),
            order=self.order,
        )


class SubscriptionRequest(_Body):
    """A subscription as a client proposes it (subscriptions-spec.md 3.2.1).

    `protocolsettings` are checked by the protocol that is named. The server assigns `id`, `status`
    and `signingkeys`; clients may send them back, and they are ignored. An older draft (message
    catalog, 5.5) has one `filter` and the protocol `HTTPS`. Stars in the query of the sink, or as
    the value of a header, keep what is stored (`unmasked`), and so do stars in place of the secrets
    of the credential (`keeps_credential`).
    """

    id: Any = None
    status: Any = None
    signingkeys: Any = None
    source: str | None = Field(default=None, min_length=1, max_length=2048)
    types: list[Annotated[str, Field(min_length=1, max_length=256)]] = Field(
        default_factory=list, max_length=256
    )
    config: _Config = Field(default_factory=_Config)
    filter: dict[str, Any] | None = None
    filters: list[Any] = Field(default_factory=list)
    sink: str = Field(min_length=1, max_length=2048)
    sinkcredential: (
        Annotated[
            _PlainCredential | _AccessTokenCredential | _RefreshTokenCredential,
            Field(discriminator="credentialtype"),
        ]
        | None
    ) = None
    protocol: str
    protocolsettings: dict[str, Any] = Field(default_factory=dict)

    @field_validator("sink")
    @classmethod
    def _is_a_url(cls, sink: str) -> str:
        for each in split_hosts(sink):
            try:
                urlsplit(each)
            except ValueError:
                # Its own message repeats the text.
                raise ValueError("it is not a URL") from None
        return sink

    @field_validator("filter", "filters")
    @classmethod
    def _filters_compile(cls, given: Any) -> Any:
        if given is not None:
            compile_filters(given if isinstance(given, list) else [given])
        return given

    @field_validator("protocol")
    @classmethod
    def _is_offered(cls, name: str) -> str:
        if name not in PROTOCOLS:
            raise ValueError(f"the protocols of this node are {', '.join(PROTOCOLS)}")
        missing = why_missing(PROTOCOLS[name])
        if missing is not None:
            raise ValueError(missing)
        return name

    def to_definition(self) -> SubscriptionDefinition:
        return SubscriptionDefinition(
            sink=self.sink,
            protocol=self.protocol,
            source=self.source,
            types=tuple(self.types),
            filters=tuple(self.filters if self.filter is None else [*self.filters, self.filter]),
            settings=self.protocolsettings,
            config=self.config.to_config(),
        )

    def to_credential(self) -> SinkCredential | None:
        return None if self.sinkcredential is None else self.sinkcredential.to_credential()


def parse_subscription(data: Any, subject: str) -> SubscriptionRequest:
    """Check the body of a create or replace request.

    Raises:
        XRegistryError: the first error, with all others as its violations; none repeats a
            secret.
    """
    try:
        wanted = SubscriptionRequest.model_validate(data)
    except ValidationError as error:
        raise with_violations(_violations(subject, error)) from None
    protocol = PROTOCOLS[wanted.protocol]
    try:
        settings = protocol.settings.model_validate(wanted.protocolsettings)
    except ValidationError as error:
        raise with_violations(_violations(subject, error, "protocolsettings")) from None
    credential = wanted.to_credential()
    if not isinstance(credential, (*protocol.credentials, type(None))):
        fault = f"{wanted.protocol} cannot use a credential of this type"
        raise InvalidAttribute(subject, name="sinkcredential.credentialtype", error_detail=fault)
    unfit = protocol.why_unfit(wanted.sink, settings.model_dump(), credential)
    if unfit is not None:
        name, fault = unfit
        raise InvalidAttribute(subject, name=name, error_detail=fault)
    valued = settings.model_dump(exclude_none=True)
    return wanted.model_copy(update={"protocolsettings": valued})


def _violations(subject: str, error: ValidationError, *within: str) -> list[XRegistryError]:
    details = error.errors(include_input=False, include_url=False, include_context=False)
    return [_violation(subject, detail, within) for detail in details]


def _violation(subject: str, detail: ErrorDetails, within: tuple[str, ...]) -> XRegistryError:
    name = ".".join(str(step) for step in (*within, *detail["loc"])) or "subscription"
    match detail["type"]:
        case "missing":
            return RequiredAttributeMissing(subject, list=name)
        case "extra_forbidden":
            return UnknownAttribute(subject, name=name[:128])
        case _:
            message = detail["msg"].removeprefix("Value error, ")
    return InvalidAttribute(subject, name=name[:128], error_detail=message)
