"""Kafka as a delivery protocol: its settings (subscriptions-spec.md 3.2.2.4), and its clusters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import field_validator

from catalog.http.outboundaddress import split_hosts
from catalog.model.credentials import PlainCredential, SinkCredential, TokenCredential
from catalog.operations.cacertificate import CaCertificate
from catalog.subscriptions.sinks.sink import DeliveryProtocol, ProtocolSettings, Unfit

_DEFAULT_PORT = 9092
_MOST_SERVERS = 16
_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_ATTRIBUTE = re.compile(r"[a-z0-9]{1,128}")
_CLIENT_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_TOPIC_RULE = "a topic's name is 1 to 249 of A to Z, a to z, 0 to 9, dot, hyphen and underscore"


class KafkaSettings(ProtocolSettings):
    """The settings of a Kafka sink; `contentmode` and those below it are additions.

    `partitionkeyextractor` is the name of the context attribute whose value is the key of a
    record. Records of one key are in one partition, so the subject keeps the order of each subject.
    """

    topicname: str | None = None
    """Topic to send to, if the sink's path does not name it"""
    partitionkeyextractor: str = "subject"
    """Context attribute whose value becomes the key of a record"""
    clientid: str = "concord"
    """Name by which brokers know this client"""
    acks: Literal["0", "1", "all"] = "all"
    """Whose acknowledgement counts: nobody's (0), the leader's (1), or that of all replicas"""
    contentmode: Literal["binary", "structured"] = "binary"
    """Whether an event is in headers and value, or is one JSON object"""
    saslmechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    """Mechanism that proves the credential"""
    cacertificate: CaCertificate | None = None
    """Certificates, as PEM, that the brokers' have to be signed by"""

    @field_validator("topicname")
    @classmethod
    def _is_a_topic(cls, name: str | None) -> str | None:
        if name is not None and not _TOPIC.fullmatch(name):
            raise ValueError(_TOPIC_RULE)
        return name

    @field_validator("acks", mode="before")
    @classmethod
    def _is_a_text(cls, acks: Any) -> Any:
        return str(acks) if acks in (0, 1) else acks

    @field_validator("partitionkeyextractor")
    @classmethod
    def _is_an_attribute(cls, name: str) -> str:
        if not _ATTRIBUTE.fullmatch(name) or name == "data":
            raise ValueError(
                "it needs to be the name of a context attribute, such as subject, whose value "
                "becomes the key; other expressions are not evaluated"
            )
        return name

    @field_validator("clientid")
    @classmethod
    def _is_a_client_id(cls, name: str) -> str:
        if not _CLIENT_ID.fullmatch(name):
            raise ValueError(
                "it needs to be 1 to 128 of A to Z, a to z, 0 to 9, dot, hyphen and underscore"
            )
        return name


def servers_of(sink: str) -> list[tuple[str, int]]:
    """The hosts and ports of a sink's bootstrap servers.

    Raises:
        ValueError: `sink` is not a URL.
    """
    parts = [urlsplit(each) for each in split_hosts(sink)]
    return [(each.hostname or "", each.port or _DEFAULT_PORT) for each in parts]


def topic_of(sink: str, settings: KafkaSettings) -> str:
    """The topic of the settings, or else the path of the sink's URL."""
    return settings.topicname or _topic_in(sink)


def _topic_in(sink: str) -> str:
    return unquote(urlsplit(split_hosts(sink)[0]).path.removeprefix("/"))


def _why_unfit(
    sink: str, values: Mapping[str, Any], credential: SinkCredential | None
) -> Unfit | None:
    settings = KafkaSettings.model_validate(values)
    try:
        parts, topic = urlsplit(split_hosts(sink)[0]), _topic_in(sink)
    except ValueError:
        return "sink", "it is not a URL"
    if parts.query:
        return "sink", "it must not have a query"
    if topic and not _TOPIC.fullmatch(topic):
        return "sink", f"its path needs to be empty or /TOPIC: {_TOPIC_RULE}"
    if not topic and settings.topicname is None:
        return "protocolsettings.topicname", "it is required, unless the path of the sink is /TOPIC"
    if parts.scheme == "kafka" and settings.cacertificate is not None:
        return "protocolsettings.cacertificate", "only a sink of the scheme kafkas uses TLS"
    return _why_credential_unfit(parts.scheme, settings, credential)


def _why_credential_unfit(
    scheme: str, settings: KafkaSettings, credential: SinkCredential | None
) -> Unfit | None:
    if credential is None and settings.saslmechanism is not None:
        return "sinkcredential", f"{settings.saslmechanism} needs a credential"
    if (
        isinstance(credential, PlainCredential)
        and "\0" in credential.identifier + credential.secret
    ):
        return "sinkcredential", "it must not contain U+0000 (RFC 4616)"
    if isinstance(credential, TokenCredential):
        if scheme != "kafkas":
            return "sink", "a token is sent over TLS only, so its scheme needs to be kafkas"
        if settings.saslmechanism is not None:
            return "protocolsettings.saslmechanism", "a token is sent with OAUTHBEARER alone"
        if credential.scheme.lower() != "bearer":
            return "sinkcredential.accesstokentype", "it needs to be Bearer"
    return None


KAFKA = DeliveryProtocol(
    schemes={"KAFKA": ("kafka", "kafkas")},
    settings=KafkaSettings,
    module="catalog.subscriptions.sinks.kafkasink",
    extra="kafka",
    library="aiokafka",
    most_hosts=_MOST_SERVERS,
    why_unfit=_why_unfit,
)
"""Sinks are `kafka://HOST:PORT,HOST:PORT/TOPIC`, or `kafkas` with TLS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaCluster:
    """A cluster, and how a client connects to the cluster.

    Args:
        servers: the hosts and ports of the bootstrap servers.
        clientid: the name by which brokers know the client.
        acks: `all`, `1` or `0`: the replicas that have to store a record.
        tls: whether connections use TLS.
        cacertificate: the certificates in PEM that sign the brokers' certificates; `None` for the
            certificates of the system.
        saslmechanism: the SASL mechanism for a password.
        credential: the credential of the client.
    """

    servers: tuple[tuple[str, int], ...]
    clientid: str = "concord"
    acks: str = "all"
    tls: bool = False
    cacertificate: str | None = None
    saslmechanism: str | None = None
    credential: SinkCredential | None = None
