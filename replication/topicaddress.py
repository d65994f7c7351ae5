"""The address of a topic of copies, and the errors of those that use it. Needs no Kafka client."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from urllib.parse import urlsplit

from catalog.client import ClientError
from catalog.config import Settings
from catalog.http.outboundaddress import split_hosts, why_refused
from catalog.sinks.kafkacluster import KafkaCluster
from catalog.sinks.kafkasettings import servers_of

SCHEMES = ("kafka", "kafkas")
_MOST_BROKERS = 16
_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


class TopicUnusable(ClientError):
    """A topic cannot be used now."""

    is_retryable = True


class TopicLost(ClientError):
    """A topic does not have what it had: it was deleted, truncated or written anew."""

    is_retryable = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAddress:
    """A topic of a cluster."""

    cluster: KafkaCluster
    name: str

    @property
    def brokers(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.cluster.servers)


def address_of(url: str) -> TopicAddress:
    """The address that a URL names, `kafka://HOST:PORT,HOST:PORT/TOPIC`, or `kafkas` with TLS."""
    parts = urlsplit(split_hosts(url)[0])
    cluster = KafkaCluster(servers=tuple(servers_of(url)), tls=parts.scheme == "kafkas")
    return TopicAddress(cluster=cluster, name=parts.path.removeprefix("/"))


def why_no_topic(url: str, settings: Settings) -> str | None:
    """The reason why a URL is not that of a topic that may be used, or `None`."""
    if refusal := why_refused(url, settings, schemes=SCHEMES, most_hosts=_MOST_BROKERS):
        return refusal
    name = urlsplit(split_hosts(url)[0]).path.removeprefix("/")
    if not _TOPIC.fullmatch(name):
        return (
            "its path needs to be /TOPIC, of 1 to 249 of A to Z, a to z, 0 to 9, dot, hyphen and "
            "underscore"
        )
    if find_spec("aiokafka") is None:
        return 'Kafka is not installed on this node: pip install "concord[kafka]"'
    return None
