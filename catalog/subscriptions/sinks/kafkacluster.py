"""A Kafka cluster from the point of view of a client."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.model.credentials import SinkCredential


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
