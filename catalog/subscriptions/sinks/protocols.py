"""The delivery protocols that subscriptions can name, and their settings.

The module imports no library of a protocol. Source: subscriptions-spec.md 3.2.2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Annotated, Any, Literal
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from catalog import install_command
from catalog.http.allowedaddresses import split_hosts
from catalog.model.credentials import PlainCredential, SinkCredential, TokenCredential
from catalog.model.sinkterms import DEFAULT_PORTS, SignatureScheme
from catalog.operations.peercredentials import CaCertificate

Unfit = tuple[str, str]
"""The name of an attribute of a subscription, and a sentence that describes the fault."""
TLS_SCHEMES = frozenset({"https", "kafkas", "mqtts", "tls", "amqps"})
"""The schemes of sinks whose connections use TLS."""


def _matching(pattern: re.Pattern[str], rule: str) -> AfterValidator:
    """A check of a whole text against a pattern, for pydantic."""

    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(rule)
        return text

    return AfterValidator(check)


class ProtocolSettings(BaseModel):
    """The `protocolsettings` of one protocol, checked.

    The docstring of each setting is one line for users.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True
    )

    def why_unfit(self, sink: SplitResult, credential: SinkCredential | None) -> Unfit | None:
        """The attribute that does not fit the rest; `None` if the settings fit.

        Args:
            sink: the parts of the sink's URL; of several hosts, the parts of the first.
        """
        return None


class BrokerSettings(ProtocolSettings):
    """The settings of every protocol but HTTP. Both are additions to the specification."""

    contentmode: Literal["binary", "structured"] = "binary"
    """Whether the attributes of an event are beside its data, or the event is one JSON object"""
    cacertificate: CaCertificate | None = None
    """Certificates, as PEM, that the server's has to be signed by"""

    def why_unfit(self, sink: SplitResult, credential: SinkCredential | None) -> Unfit | None:
        if sink.query:
            return "sink", "it must not have a query"
        if self.cacertificate is not None and sink.scheme not in TLS_SCHEMES:
            schemes = ", ".join(sorted(TLS_SCHEMES - {"https"}))
            fault = f"only sinks of the schemes {schemes} have a certificate"
            return "protocolsettings.cacertificate", fault
        return None


class _ServerSettings(BrokerSettings):
    """The settings of a protocol whose sinks name a server alone."""

    def why_unfit(self, sink: SplitResult, credential: SinkCredential | None) -> Unfit | None:
        if sink.path not in ("", "/"):
            fault = 'it names the server only; where to publish belongs into "protocolsettings"'
            return "sink", fault
        return super().why_unfit(sink, credential)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryProtocol:
    """A protocol that subscriptions can name.

    Args:
        schemes: the identifiers in the Subscriptions API, each with the URL schemes of sinks.
        settings: the model of the `protocolsettings`.
        module: the name of the module in `catalog.subscriptions.sinks` with the function
            `open_connections(settings, now) -> SinkConnections`.
        extra: the extra of the distribution that installs `library`; `None` if not needed.
        library: the name of the module that the protocol needs.
        credentials: the types of credentials that the protocol can use.
        masked: the maps among the settings whose values are never shown.
        most_hosts: the largest number of hosts in the URL of a sink, separated by commas.
    """

    schemes: Mapping[str, tuple[str, ...]]
    settings: type[ProtocolSettings]
    module: str
    extra: str | None = None
    library: str | None = None
    credentials: tuple[type[SinkCredential], ...] = (PlainCredential, TokenCredential)
    masked: tuple[str, ...] = ()
    most_hosts: int = 1


def why_missing(protocol: DeliveryProtocol) -> str:
    """A sentence that says how to install a protocol, or "" if it is installed."""
    if protocol.extra is None or protocol.library is None or find_spec(protocol.library):
        return ""
    name = next(iter(protocol.schemes))
    return f"{name} is not installed: {install_command(protocol.extra)}"


# HTTP (subscriptions-spec.md 3.2.2.1)

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,1022}[\x21-\x7e])?")
_RESERVED_HEADERS = re.compile(
    r"host|content-.*|transfer-encoding|connection|keep-alive|te|trailer|upgrade|expect|"
    r"proxy-.*|ce-.*|webhook-.*",
    re.IGNORECASE,
)


class HttpSettings(ProtocolSettings):
    """The settings of an HTTP sink. `contentmode`, `compression` and `signature` are additions.

    Batches are compressed only where the subscriber asks for it, since no answer tells beforehand
    whether a sink takes them so.
    """

    headers: dict[str, str] = Field(default_factory=dict, max_length=32)
    """Headers of every request, whose values are never shown"""
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    """Method of the requests"""
    contentmode: Literal["binary", "structured", "batched"] = "binary"
    """Whether an event is in headers and body, is one JSON object, or several are an array"""
    compression: Literal["none", "gzip"] = "none"
    """Compression of the bodies of batches"""
    signature: Literal["none", SignatureScheme] = "none"
    """Signature of requests, as Standard Webhooks say"""

    @field_validator("headers")
    @classmethod
    def _headers_are_ours_to_send(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if not _HEADER_NAME.fullmatch(name):
                raise ValueError(f'"{name[:64]}" is not the name of an HTTP header')
            if _RESERVED_HEADERS.fullmatch(name):
                raise ValueError(f'the header "{name}" is set by the delivery itself')
            if name.lower() == "authorization":
                raise ValueError('what authorizes the delivery belongs into "sinkcredential"')
            if not _HEADER_VALUE.fullmatch(value):
                fault = f'the value of the header "{name}" needs to be 1 to 1024 ASCII characters'
                raise ValueError(fault)
        return headers

    @field_validator("compression")
    @classmethod
    def _is_of_batches(cls, compression: str, info: ValidationInfo) -> str:
        if compression != "none" and info.data.get("contentmode", "batched") != "batched":
            raise ValueError('only the content mode "batched" is compressed')
        return compression

    def why_unfit(self, sink: SplitResult, credential: SinkCredential | None) -> Unfit | None:
        if isinstance(credential, PlainCredential) and ":" in credential.identifier:
            return "sinkcredential.PLAIN.identifier", "it must not contain a colon (RFC 7617 2)"
        return None


# Kafka (subscriptions-spec.md 3.2.2.4): `kafka://HOST:PORT,HOST:PORT/TOPIC`

_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_TOPIC_RULE = "a topic's name is 1 to 249 of A to Z, a to z, 0 to 9, dot, hyphen and underscore"
_ATTRIBUTE = re.compile(r"(?!data$)[a-z0-9]{1,128}")
_ATTRIBUTE_RULE = (
    "it needs to be the name of a context attribute, such as subject, whose value becomes the key; "
    "other expressions are not evaluated"
)
_CLIENT_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_CLIENT_ID_RULE = "it needs to be 1 to 128 of A to Z, a to z, 0 to 9, dot, hyphen and underscore"


class KafkaSettings(BrokerSettings):
    """The settings of a Kafka sink; `contentmode`, `cacertificate`, `saslmechanism` are additions.

    `partitionkeyextractor` is the name of the context attribute whose value is the key of a
    record. Records of one key are in one partition, so the subject keeps the order of each subject.
    """

    topicname: Annotated[str, _matching(_TOPIC, _TOPIC_RULE)] | None = None
    """Topic to send to, if the sink's path does not name it"""
    partitionkeyextractor: Annotated[str, _matching(_ATTRIBUTE, _ATTRIBUTE_RULE)] = "subject"
    """Context attribute whose value becomes the key of a record"""
    clientid: Annotated[str, _matching(_CLIENT_ID, _CLIENT_ID_RULE)] = "concord"
    """Name by which brokers know this client"""
    acks: Literal["0", "1", "all"] = "all"
    """Whose acknowledgement counts: nobody's (0), the leader's (1), or that of all replicas"""
    saslmechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    """Mechanism that proves the credential"""

    @field_validator("acks", mode="before")
    @classmethod
    def _is_a_text(cls, acks: Any) -> Any:
        return str(acks) if acks in (0, 1) else acks

    def why_unfit(self, sink: SplitResult, credential: SinkCredential | None) -> Unfit | None:
        topic = unquote(sink.path.removeprefix("/"))
        if topic and not _TOPIC.fullmatch(topic):
            return "sink", f"its path needs to be empty or /TOPIC: {_TOPIC_RULE}"
        if not topic and self.topicname is None:
            fault = "it is required, unless the path of the sink is /TOPIC"
            return "protocolsettings.topicname", fault
        if credential is None and self.saslmechanism is not None:
            return "sinkcredential", f"{self.saslmechanism} needs a credential"
        if isinstance(credential, PlainCredential):
            if "\0" in credential.identifier + credential.secret:
                return "sinkcredential", "it must not contain U+0000 (RFC 4616)"
        elif credential is not None:
            if sink.scheme not in TLS_SCHEMES:
                return "sink", "a token is sent over TLS only, so its scheme needs to be kafkas"
            if self.saslmechanism is not None:
                return "protocolsettings.saslmechanism", "a token is sent with OAUTHBEARER alone"
            if credential.scheme.lower() != "bearer":
                return "sinkcredential.accesstokentype", "it needs to be Bearer"
        return super().why_unfit(sink, credential)

    def topic_of(self, sink: str) -> str:
        """The topic of the settings, or else the path of the sink's URL."""
        return self.topicname or unquote(urlsplit(split_hosts(sink)[0]).path.removeprefix("/"))


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaCluster:
    """A cluster by its bootstrap servers, and how a client connects to the cluster.

    `clientid` is the name by which brokers know the client; `acks` is `all`, `1` or `0`, the
    replicas that have to store a record. Without `cacertificate`, in PEM, the certificates of the
    system sign those of the brokers.
    """

    servers: tuple[tuple[str, int], ...]
    clientid: str = "concord"
    acks: str = "all"
    tls: bool = False
    cacertificate: str | None = None
    saslmechanism: str | None = None
    credential: SinkCredential | None = None


def servers_of(sink: str) -> tuple[tuple[str, int], ...]:
    """The hosts and ports in the URL of a Kafka sink; `ValueError` if it is no URL."""
    parts = [urlsplit(each) for each in split_hosts(sink)]
    return tuple((each.hostname or "", each.port or DEFAULT_PORTS["kafka"]) for each in parts)


# MQTT (subscriptions-spec.md 3.2.2.2): `mqtt://HOST:PORT`

# Servers end the connection of a client that sends such a character (MQTT 5.0 1.5.4).
_DISALLOWED = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_DISALLOWED_FAULT = "it must not contain control characters or noncharacters"
_CONTEXT_ATTRIBUTES = frozenset(
    {
        *("specversion", "id", "source", "type"),
        *("subject", "time", "datacontenttype", "dataschema", "data"),
    }
)


class MqttSettings(_ServerSettings):
    """The settings of both versions of the protocol."""

    topicname: str = Field(min_length=1, max_length=1024)
    """Topic to publish to"""
    qos: int = Field(default=1, ge=0, le=2, strict=True)
    """Quality of service: at most once (0), at least once (1), exactly once (2)"""
    retain: bool = Field(default=False, strict=True)
    """Whether the server keeps the last event of the topic for new subscribers"""

    @field_validator("topicname")
    @classmethod
    def _is_a_topic(cls, name: str) -> str:
        if _DISALLOWED.search(name):
            raise ValueError(_DISALLOWED_FAULT)
        if "+" in name or "#" in name:
            raise ValueError("it must not contain the wildcards + and #")
        if name.startswith("$"):
            raise ValueError("names that begin with $ are reserved for servers (MQTT 5.0 4.7.2)")
        return name

    def why_unfit(self, sink: SplitResult, credential: SinkCredential | None) -> Unfit | None:
        if isinstance(credential, PlainCredential) and _DISALLOWED.search(credential.identifier):
            return "sinkcredential.PLAIN.identifier", _DISALLOWED_FAULT
        return super().why_unfit(sink, credential)


class Mqtt3Settings(MqttSettings):
    """The settings of an MQTT 3.1.1 sink.

    `contentmode` and `cacertificate` are additions. The protocol has no place for attributes, so
    the content mode is always structured (mqtt-protocol-binding.md 3).
    """

    contentmode: Literal["structured"] = "structured"
    """An event is one JSON object"""


class Mqtt5Settings(MqttSettings):
    """The settings of an MQTT 5.0 sink; `contentmode` and `cacertificate` are additions."""

    expiry: int | None = Field(default=None, ge=1, lt=2**32, strict=True)
    """Seconds after which the server drops an event that nobody took"""
    userproperties: dict[str, str] = Field(default_factory=dict, max_length=32)
    """User properties of every message"""

    @field_validator("userproperties")
    @classmethod
    def _properties_are_ours_to_send(cls, properties: dict[str, str]) -> dict[str, str]:
        for name, value in properties.items():
            if not 0 < len(name) <= 128 or len(value) > 1024:
                raise ValueError("a name has 1 to 128 characters, and a value no more than 1024")
            if _DISALLOWED.search(name + value):
                raise ValueError(f"of a name or value, {_DISALLOWED_FAULT}")
            if name in _CONTEXT_ATTRIBUTES:
                raise ValueError(f'"{name}" is the name of a context attribute of the event')
        return properties


# NATS (subscriptions-spec.md 3.2.2.5): `nats://HOST:PORT`, or `tls` to refuse servers without TLS

_NO_TOKEN = re.compile("[\\s\x00-\x1f\x7f-\x9f\ud800-\udfff*>]")


class NatsSettings(_ServerSettings):
    """The settings of a NATS sink; `contentmode` and `cacertificate` are additions."""

    # A protocol line has at most 4096 bytes by default, and the subject is only a part of it.
    subject: str = Field(min_length=1, max_length=512)
    """Subject to publish to"""

    @field_validator("subject")
    @classmethod
    def _is_a_subject(cls, name: str) -> str:
        if _NO_TOKEN.search(name):
            raise ValueError("it must not contain the wildcards * and >, spaces or controls")
        if "" in name.split("."):
            raise ValueError("a dot stands between two tokens, none of which is empty")
        if name.startswith("$"):
            raise ValueError("names that begin with $ are reserved for servers")
        return name


# AMQP 1.0 (subscriptions-spec.md 3.2.2.3): `amqp://HOST:PORT/ADDRESS`

_SYMBOL = re.compile(r"[\x21-\x7e]{1,128}")
_LONGEST_ADDRESS = 1024
_PRINTABLE = r"^[^\x00-\x1f\x7f]+$"
_Long = Annotated[int, Field(ge=-(2**63), lt=2**63)]
_Value = Annotated[str, Field(max_length=1024)] | bool | _Long | float


class AmqpSettings(BrokerSettings):
    """The settings of an AMQP sink. `contentmode` and `cacertificate` are additions."""

    address: str | None = Field(
        default=None, min_length=1, max_length=_LONGEST_ADDRESS, pattern=_PRINTABLE
    )
    """Node to send to, if the sink's path does not name it"""
    linkname: str | None = Field(default=None, min_length=1, max_length=256, pattern=_PRINTABLE)
    """Name of the link; a random one if it is not given"""
    sendersettlementmode: Literal["unsettled", "settled"] = "unsettled"
    """Whether the server acknowledges events (unsettled) or not (settled)"""
    linkproperties: dict[str, _Value] = Field(default_factory=dict, max_length=32)
    """Properties of the link"""

    @field_validator("linkproperties")
    @classmethod
    def _names_are_symbols(cls, properties: dict[str, Any]) -> dict[str, Any]:
        for name in properties:
            if not _SYMBOL.fullmatch(name):
                raise ValueError("a name needs to be 1 to 128 visible ASCII characters")
        return properties

    def why_unfit(self, sink: SplitResult, credential: SinkCredential | None) -> Unfit | None:
        in_path = unquote(sink.path[1:])
        if bool(in_path) == bool(self.address):
            fault = "either the sink's path or this setting needs to name the node to send to"
            return "protocolsettings.address", fault
        if len(in_path) > _LONGEST_ADDRESS or not in_path.isprintable():
            return "sink", f"its path needs to be at most {_LONGEST_ADDRESS} printable characters"
        return super().why_unfit(sink, credential)

    def address_of(self, sink: str) -> str:
        """The address of the node that receives the events; empty if not named."""
        return self.address or unquote(urlsplit(sink).path[1:])


_HTTP = DeliveryProtocol(
    schemes={"HTTP": ("http", "https"), "HTTPS": ("https",)},
    settings=HttpSettings,
    module="httpsink",
    masked=("headers",),
)
_KAFKA = DeliveryProtocol(
    schemes={"KAFKA": ("kafka", "kafkas")},
    settings=KafkaSettings,
    module="kafkasink",
    extra="kafka",
    library="aiokafka",
    most_hosts=16,
)
_MQTT5 = DeliveryProtocol(
    schemes={"MQTT5": ("mqtt", "mqtts")},
    settings=Mqtt5Settings,
    module="mqttsink",
    extra="mqtt",
    library="paho",
    credentials=(PlainCredential,),
    masked=("userproperties",),
)
_MQTT3 = replace(_MQTT5, schemes={"MQTT3": ("mqtt", "mqtts")}, settings=Mqtt3Settings, masked=())
_NATS = DeliveryProtocol(
    schemes={"NATS": ("nats", "tls")},
    settings=NatsSettings,
    module="natssink",
    extra="nats",
    library="nats",
)
_AMQP = DeliveryProtocol(
    schemes={"AMQP": ("amqp", "amqps")},
    settings=AmqpSettings,
    module="amqpsink",
    extra="amqp",
    library="proton",
    credentials=(PlainCredential,),
)

PROTOCOLS: Mapping[str, DeliveryProtocol] = {
    name: protocol
    for protocol in (_HTTP, _KAFKA, _MQTT5, _MQTT3, _NATS, _AMQP)
    for name in protocol.schemes
}
"""Every protocol by each of its identifiers."""
