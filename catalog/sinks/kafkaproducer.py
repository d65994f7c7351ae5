"""A producer of records to one Kafka cluster."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)
from aiokafka.partitioner import murmur2

from catalog.config import Settings
from catalog.model.sinkcredential import PlainCredential, SinkCredential
from catalog.sinks.cacertificate import tls_context
from catalog.sinks.kafkaconnection import ConnectionGuard
from catalog.sinks.kafkarecords import KafkaRecord

# The most bytes of a batch of several records. Kafka's own default for the largest is a megabyte.
BATCH_BYTES = 512 * 1024
# A producer gives up a little earlier than deliveries do, so that its own error is seen.
_SHARE_OF_TIME = 0.8
# Errors that aiokafka raises where it could not connect, too.
_VAGUE = (
    KafkaConnectionError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
    TimeoutError,
    UnknownTopicOrPartitionError,
)
_HASHES = 4096

# At the level debug it would log passwords, and the delivery tells what its errors tell.
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


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
    clientid: str
    acks: str
    tls: bool
    cacertificate: str | None
    saslmechanism: str | None
    credential: SinkCredential | None


def partition_of(key: bytes, partitions: Sequence[int]) -> int:
    """The partition of a key, as Kafka's own clients choose it."""
    return partitions[_hash_of(key) % len(partitions)]


@functools.lru_cache(maxsize=_HASHES)
def _hash_of(key: bytes) -> int:
    # It is computed in Python, byte by byte, and most subjects come again.
    return int(murmur2(key)) & 0x7FFFFFFF


class KafkaProducer:
    """An aiokafka producer, which is of no use after its first failure.

    That leaves the numbers of its records in doubt, or records that it would go on sending.
    """

    @classmethod
    async def connect(cls, cluster: KafkaCluster, settings: Settings) -> KafkaProducer:
        """Connect a producer.

        Raises:
            KafkaError, OSError: no bootstrap server can be used.
        """
        producer = cls(cluster, settings)
        await producer._start()
        return producer

    def __init__(self, cluster: KafkaCluster, settings: Settings) -> None:
        self.is_open = True
        self._seconds = settings.delivery_timeout_seconds * _SHARE_OF_TIME
        self._guard = ConnectionGuard(settings)
        self._producer = AIOKafkaProducer(
            bootstrap_servers=[_authority(*each) for each in cluster.servers],
            client_id=cluster.clientid,
            max_batch_size=2 * BATCH_BYTES,
            request_timeout_ms=max(1, int(self._seconds * 1000)),
            **_reliability(cluster.acks),
            **_security(cluster),
        )
        self._guard.watch(self._producer.client)

    async def _start(self) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await self._producer.start()
        except BaseException as error:
            await self.close()
            raise self.cause_of(error) from None

    async def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic.

        Raises:
            KafkaError: there is no such topic, or it cannot be asked for.
        """
        try:
            return sorted(await self._producer.partitions_for(topic))
        except KafkaError:
            # It may know only brokers that are no more.
            self.is_open = self._guard.failure is None
            raise

    async def append(self, topic: str, partition: int, records: Sequence[KafkaRecord]) -> int:
        """Append records to a partition as one batch, and return the offset of the first.

        Without acknowledgements, the offset is -1.

        Raises:
            KafkaError: they are not appended, or nobody knows.
        """
        batch = self._producer.create_batch()
        for each in records:
            batch.append(timestamp=None, key=each.key, value=each.value, headers=each.headers)
        batch.close()
        try:
            future = await self._producer.send_batch(batch, topic, partition=partition)
            metadata = await future
        except BaseException:
            self.is_open = False
            raise
        return -1 if metadata is None else int(metadata.offset)

    def cause_of(self, error: BaseException) -> BaseException:
        """Why a broker could not be connected to, if that is what an error may come from."""
        return self._guard.failure or error if isinstance(error, _VAGUE) else error

    async def close(self) -> None:
        """Close the connections; records that were not acknowledged are given up."""
        self.is_open = False
        producer, client = self._producer, self._producer.client
        # aiokafka's own method waits until all records are acknowledged.
        producer._closed = True
        refreshing, client._sync_task = client._sync_task, None
        if refreshing is not None:
            refreshing.cancel()
            await asyncio.gather(refreshing, return_exceptions=True)
        # Requests that wait for an answer end with their connections.
        with contextlib.suppress(KafkaError, OSError):
            await asyncio.gather(producer._sender.close(), client.close())
        # A request that ended just now may have opened one more.
        await client.close()


class _Token(AbstractTokenProvider):
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reliability(acks: str) -> dict[str, Any]:
    if acks == "all":
        return {"acks": "all", "enable_idempotence": True}
    return {"acks": int(acks), "enable_idempotence": False}


def _security(cluster: KafkaCluster) -> dict[str, Any]:
    layer = "SSL" if cluster.tls else "PLAINTEXT"
    protocol = layer if cluster.credential is None else f"SASL_{layer}"
    security: dict[str, Any] = {"security_protocol": protocol}
    if cluster.tls:
        security["ssl_context"] = tls_context(cluster.cacertificate)
    if isinstance(cluster.credential, PlainCredential):
        security["sasl_mechanism"] = cluster.saslmechanism or "PLAIN"
        security["sasl_plain_username"] = cluster.credential.identifier
        security["sasl_plain_password"] = cluster.credential.secret
    elif cluster.credential is not None:
        security["sasl_mechanism"] = "OAUTHBEARER"
        security["sasl_oauth_token_provider"] = _Token(cluster.credential.token)
    return security
