"""The address of a topic of copies, and the errors of topics; imports no Kafka client."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from catalog import install_command
from catalog.client import ClientError
from catalog.http.outboundaddress import split_hosts, why_refused
from catalog.model.credentials import PlainCredential
from catalog.model.linkterms import TOPIC_SCHEMES
from catalog.settings import Settings
from catalog.subscriptions.sinks.protocols import KafkaCluster, servers_of
from replication.transfer.linkrun import BeginAgain

if TYPE_CHECKING:
    from replication.transfer.topic import Topic

_MOST_BROKERS = 16
_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


class TopicUnusable(ClientError):
    """A topic cannot be used now."""

    is_retryable = True


class TopicLost(BeginAgain):
    """A topic lacks earlier records: the topic was deleted, truncated or written anew."""

    def __init__(self, message: str, *, loss: str = "") -> None:
        super().__init__(f"{message}: {loss}" if loss else message, loss=loss)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAddress:
    """A topic of a cluster."""

    cluster: KafkaCluster
    name: str

    @property
    def brokers(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.cluster.servers)


def address_of(url: str, settings: Settings) -> TopicAddress:
    """The address in a URL, `kafka://HOST:PORT,HOST:PORT/TOPIC`, or `kafkas` for TLS.

    `kafka:///TOPIC` is a topic of the cluster in the node's settings. The credential of the
    settings is sent only to that cluster.

    Raises:
        TopicUnusable: the settings name no cluster, or a file of certificates that cannot be read.
    """
    parts = urlsplit(split_hosts(url)[0])
    if parts.netloc:
        cluster = KafkaCluster(servers=servers_of(url), tls=parts.scheme == "kafkas")
    else:
        cluster = _cluster_in(settings)
    return TopicAddress(cluster=cluster, name=parts.path.removeprefix("/"))


@asynccontextmanager
async def open_topic(url: str, settings: Settings) -> AsyncIterator[Topic]:
    """Connect to the cluster of the topic with a URL.

    Raises:
        TopicUnusable
    """
    # Kafka is an extra.
    from replication.transfer.topic import Topic

    topic = Topic(address_of(url, settings), settings)
    try:
        await topic.start()
        yield topic
    finally:
        await topic.close()


def _cluster_in(settings: Settings) -> KafkaCluster:
    if settings.kafka_url is None:
        raise TopicUnusable("The topic names no brokers, and CONCORD_KAFKA_URL is not set.")
    parts = urlsplit(settings.kafka_url.get_secret_value())
    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    given = dict(parse_qsl(parts.query))
    credential = PlainCredential(identifier=unquote(user), secret=unquote(password))
    return KafkaCluster(
        servers=servers_of(f"{parts.scheme}://{hosts}"),
        tls=parts.scheme == "kafkas",
        cacertificate=_certificates_in(given.get("cafile")),
        saslmechanism=given.get("saslmechanism"),
        credential=credential if login else None,
    )


def _certificates_in(file: str | None) -> str | None:
    try:
        return None if file is None else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise TopicUnusable("The cafile of CONCORD_KAFKA_URL cannot be read.") from error


def why_no_topic(url: str, settings: Settings) -> str:
    """The reason why a URL is not the URL of a permitted topic, or ""."""
    parts = urlsplit(split_hosts(url)[0])
    if parts.scheme in TOPIC_SCHEMES and not parts.netloc:
        if settings.kafka_url is None:
            return "it is no kafka://HOST:PORT/TOPIC, and CONCORD_KAFKA_URL is not set"
    elif refusal := why_refused(url, settings, schemes=TOPIC_SCHEMES, most_hosts=_MOST_BROKERS):
        return refusal
    if parts.query or parts.fragment:
        return "it must have no query or fragment"
    name = parts.path.removeprefix("/")
    if not _TOPIC.fullmatch(name):
        return (
            "its path needs to be /TOPIC, of 1 to 249 of A to Z, a to z, 0 to 9, dot, hyphen and "
            "underscore"
        )
    if find_spec("aiokafka") is None:
        return f"Kafka is not installed: {install_command('kafka')}"
    return ""
