"""The bodies of the Subscriptions API, and their conversion to and from subscriptions."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
)
from pydantic_core import ErrorDetails

from catalog.events.filters import compile_filters
from catalog.model.errors import (
    InvalidAttribute,
    RequiredAttributeMissing,
    UnknownAttribute,
    XRegistryError,
    with_violations,
)
from catalog.model.sinkcredential import PlainCredential, SinkCredential, TokenCredential
from catalog.sinks.protocols import PROTOCOLS, why_missing
from catalog.store.subscriptions import SubscriptionConfig, SubscriptionDefinition

_TOKEN = re.compile(r"[\x21-\x7e]{1,8192}")
_SCHEME = re.compile(r"[A-Za-z0-9-]{1,32}")


def _check_token(value: SecretStr) -> SecretStr:
    if not _TOKEN.fullmatch(value.get_secret_value()):
        raise ValueError("it needs to be 1 to 8192 visible ASCII characters")
    return value


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


class _AccessTokenCredential(_Body):
    credentialtype: Literal["ACCESSTOKEN"]
    accesstoken: Annotated[SecretStr, AfterValidator(_check_token)]
    accesstokenexpiresutc: AwareDatetime | None = None
    accesstokentype: str = "Bearer"

    @field_validator("accesstokentype")
    @classmethod
    def _is_a_scheme(cls, scheme: str) -> str:
        if not _SCHEME.fullmatch(scheme):
            raise ValueError("it needs to be the name of an authorization scheme")
        return scheme

    def to_credential(self) -> TokenCredential:
        return TokenCredential(
            token=self.accesstoken.get_secret_value(),
            scheme=self.accesstokentype,
            expiresat=self.accesstokenexpiresutc,
        )


class _Config(_Body):
    """The supported settings (subscriptions-spec.md 3.2.1, "config")."""

    interval: float | None = Field(default=None, ge=0, le=3600)


class SubscriptionRequest(_Body):
    """A subscription as a client proposes it (subscriptions-spec.md 3.2.1).

    `config.interval` is an addition: the least seconds between two events; only the latest in
    between is sent. `protocolsettings` are checked by the protocol that is named.
    The server assigns `id` and `status`; clients may send them back, and they are ignored. An
    older draft (message catalog, 5.5) has one `filter` and the protocol `HTTPS`. Stars in the query
    of the sink, or as the value of a header, keep what is stored (`unmasked`).
    """

    id: Any = None
    status: Any = None
    source: str | None = Field(default=None, min_length=1, max_length=2048)
    types: list[Annotated[str, Field(min_length=1, max_length=256)]] = Field(
        default_factory=list, max_length=256
    )
    config: _Config = Field(default_factory=_Config)
    filter: dict[str, Any] | None = None
    filters: list[Any] = Field(default_factory=list)
    sink: str = Field(min_length=1, max_length=2048)
    sinkcredential: (
        Annotated[_PlainCredential | _AccessTokenCredential, Field(discriminator="credentialtype")]
        | None
    ) = None
    protocol: str
    protocolsettings: dict[str, Any] = Field(default_factory=dict)

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
            config=SubscriptionConfig(interval=self.config.interval),
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
        settings = protocol.settings.model_validate(wanted.protocolsettings).model_dump()
    except ValidationError as error:
        raise with_violations(_violations(subject, error, "protocolsettings")) from None
    credential = wanted.to_credential()
    if not isinstance(credential, (*protocol.credentials, type(None))):
        fault = f"{wanted.protocol} cannot use a credential of this type"
        raise InvalidAttribute(subject, name="sinkcredential.credentialtype", error_detail=fault)
    unfit = protocol.why_unfit(wanted.sink, settings, credential)
    if unfit is not None:
        name, fault = unfit
        raise InvalidAttribute(subject, name=name, error_detail=fault)
    return wanted.model_copy(update={"protocolsettings": settings})


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
