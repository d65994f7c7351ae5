"""The bodies of the Subscriptions API, and their conversion to and from subscriptions."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
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
from catalog.model.masking import MASK, is_masked, masked_url, unmasked_url
from catalog.model.timestamps import format_time
from catalog.store.subscriptions import (
    ContentMode,
    Credential,
    Protocol,
    Subscription,
    SubscriptionDefinition,
)

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,1022}[\x21-\x7e])?")
_RESERVED_HEADERS = re.compile(
    r"host|content-.*|transfer-encoding|connection|keep-alive|te|trailer|upgrade|expect|"
    r"proxy-.*|ce-.*|webhook-.*",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[\x21-\x7e]{1,8192}")
_STARS = f"{MASK} keeps a stored value while the sink stays the same; here it stands for none"
_SCHEME = re.compile(r"[A-Za-z0-9-]{1,32}")


def _check_header(name: str, value: str) -> None:
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError(f'"{name[:64]}" is not the name of an HTTP header')
    if _RESERVED_HEADERS.fullmatch(name):
        raise ValueError(f'the header "{name}" is set by the delivery itself')
    if name.lower() == "authorization":
        raise ValueError('what authorizes the delivery belongs into "sinkcredential"')
    if not _HEADER_VALUE.fullmatch(value):
        raise ValueError(f'the value of the header "{name}" needs to be 1 to 1024 ASCII characters')


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

    @field_validator("identifier")
    @classmethod
    def _has_no_colon(cls, identifier: SecretStr) -> SecretStr:
        if ":" in identifier.get_secret_value():
            raise ValueError("it must not contain a colon")
        return identifier

    def to_credential(self) -> Credential:
        pair = f"{self.identifier.get_secret_value()}:{self.secret.get_secret_value()}"
        return Credential(authorization=f"Basic {base64.b64encode(pair.encode()).decode()}")


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

    def to_credential(self) -> Credential:
        scheme = "Bearer" if self.accesstokentype.lower() == "bearer" else self.accesstokentype
        return Credential(
            authorization=f"{scheme} {self.accesstoken.get_secret_value()}",
            expiresat=self.accesstokenexpiresutc,
        )


class _HttpSettings(_Body):
    headers: dict[str, str] = Field(default_factory=dict, max_length=32)
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    contentmode: ContentMode = "binary"

    @field_validator("headers")
    @classmethod
    def _headers_are_ours_to_send(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            _check_header(name, value)
        return headers


class _Config(_Body):
    """The supported settings (subscriptions-spec.md 3.2.1, "config")."""

    interval: float | None = Field(default=None, ge=0, le=3600)


class SubscriptionRequest(_Body):
    """A subscription as a client proposes it (subscriptions-spec.md 3.2.1).

    `protocolsettings.contentmode` is an addition: `binary` (the default) or `structured`. So is
    `config.interval`: the least seconds between two events; only the latest in between is sent.
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
    protocol: Literal["HTTP", "HTTPS"]
    protocolsettings: _HttpSettings = Field(default_factory=_HttpSettings)

    @field_validator("filter", "filters")
    @classmethod
    def _filters_compile(cls, given: Any) -> Any:
        if given is not None:
            compile_filters(given if isinstance(given, list) else [given])
        return given

    @field_validator("protocol")
    @classmethod
    def _sink_fits(cls, protocol: Protocol, info: ValidationInfo) -> Protocol:
        sink = str(info.data.get("sink", ""))
        if protocol == "HTTPS" and not sink.lower().startswith("https:"):
            raise ValueError("HTTPS needs a sink with an https URL")
        return protocol

    @model_validator(mode="before")
    @classmethod
    def _protocol_is_http(cls, data: Any) -> Any:
        """Ignore the settings of an unsupported protocol, so that the error names the protocol."""
        if isinstance(data, dict) and data.get("protocol", "HTTP") not in ("HTTP", "HTTPS"):
            return {name: value for name, value in data.items() if name != "protocolsettings"}
        return data

    def to_definition(self) -> SubscriptionDefinition:
        return SubscriptionDefinition(
            sink=self.sink,
            protocol=self.protocol,
            source=self.source,
            types=tuple(self.types),
            filters=tuple(self.filters if self.filter is None else [*self.filters, self.filter]),
            method=self.protocolsettings.method,
            headers=self.protocolsettings.headers,
            contentmode=self.protocolsettings.contentmode,
            interval=self.config.interval,
        )

    def to_credential(self) -> Credential | None:
        return None if self.sinkcredential is None else self.sinkcredential.to_credential()


def parse_subscription(data: Any, subject: str) -> SubscriptionRequest:
    """Check the body of a create or replace request.

    Raises:
        XRegistryError: the first error, with all others as its violations; none repeats a
            secret.
    """
    try:
        return SubscriptionRequest.model_validate(data)
    except ValidationError as error:
        details = error.errors(include_input=False, include_url=False, include_context=False)
        raise with_violations([_violation(subject, detail) for detail in details]) from None


def unmasked(
    definition: SubscriptionDefinition, stored: SubscriptionDefinition | None, subject: str
) -> SubscriptionDefinition:
    """A definition with stored values in place of stars, as an answer shows them.

    A value is kept only while it goes to the sink that it was stored for: nobody who cannot read
    it can have it sent elsewhere.

    Raises:
        InvalidAttribute: stars stand where no value is stored for this sink.
    """
    masked = [name for name, value in definition.headers.items() if value == MASK]
    if not masked and not is_masked(definition.sink):
        return definition
    sink = None if stored is None else unmasked_url(definition.sink, stored.sink)
    if stored is None or sink is None:
        name = "sink" if is_masked(definition.sink) else "protocolsettings.headers"
        raise InvalidAttribute(subject, name=name, error_detail=_STARS)
    headers = dict(definition.headers)
    for name in masked:
        if name not in stored.headers:
            raise InvalidAttribute(subject, name="protocolsettings.headers", error_detail=_STARS)
        headers[name] = stored.headers[name]
    return replace(definition, sink=sink, headers=headers)


def show_subscription(subscription: Subscription) -> dict[str, Any]:
    """A subscription as clients see it: defaults applied, without its credential.

    Stars stand for the values in the sink's query and for those of headers, which may be secrets.
    """
    definition = subscription.definition
    shown = {
        "id": subscription.id,
        "source": definition.source,
        "types": list(definition.types) or None,
        "config": None if definition.interval is None else {"interval": definition.interval},
        "filters": list(definition.filters) or None,
        "sink": masked_url(definition.sink),
        "protocol": definition.protocol,
        "protocolsettings": {
            "method": definition.method,
            "headers": dict.fromkeys(definition.headers, MASK),
            "contentmode": definition.contentmode,
        },
        "status": {
            "state": subscription.state,
            "failures": subscription.failures,
            "delivered": subscription.delivered,
            "deliveredat": subscription.deliveredat and format_time(subscription.deliveredat),
            "error": subscription.error,
            "lag": subscription.lag,
            **_loss_of(subscription),
        },
    }
    return {name: value for name, value in shown.items() if value is not None}


def _loss_of(subscription: Subscription) -> dict[str, Any]:
    if subscription.lostat is None:
        return {}
    detail = (
        "Changes left the log before they were delivered. Read from the catalog what their events "
        "would have told, then replace the subscription (PUT): this clears the notice."
    )
    return {"lost": {"at": format_time(subscription.lostat), "detail": detail}}


def _violation(subject: str, detail: ErrorDetails) -> XRegistryError:
    name = ".".join(str(step) for step in detail["loc"]) or "subscription"
    match detail["type"]:
        case "missing":
            return RequiredAttributeMissing(subject, list=name)
        case "extra_forbidden":
            return UnknownAttribute(subject, name=name[:128])
        case "literal_error" if name == "protocol":
            message = "only HTTP and HTTPS are supported"
        case _:
            message = detail["msg"].removeprefix("Value error, ")
    return InvalidAttribute(subject, name=name[:128], error_detail=message)
