"""A Kafka cluster as one of its clients sees it."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.model.sinkcredential import SinkCredential


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaCluster:
    """A cluster as a client with a credential sees it.

    Args:
        servers: the hosts and ports of its bootstrap servers.
        clientid: the name that the client gives itself.
        acks: `all`, `1` or `0`: the replicas that have to have a record.
        tls: whether connections use TLS.
        cacertificate: the certificates in PEM that sign those of brokers; `None` for the system's.
        saslmechanism: how a password is proven.
        credential: what the client proves itself with.
    """

    servers: tuple[tuple[str, int], ...]
    clientid: str = "concord"
    acks: str = "all"
    tls: bool = False
    cacertificate: str | None = None
    saslmechanism: str | None = None
    credential: SinkCredential | None = None
