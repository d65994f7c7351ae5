"""Guards the connections of aiokafka to a cluster, including advertised brokers; a producer."""

from __future__ import annotations

import asyncio
import functools
import logging
import ssl
import struct
import types
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, cast
from weakref import ReferenceType

from aiokafka import AIOKafkaProducer, errors
from aiokafka.abc import AbstractTokenProvider
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection, OAuthAuthenticator, ScramAuthenticator
from aiokafka.partitioner import murmur2
from aiokafka.protocol.metadata import MetadataRequest

from catalog.http.outbound import connect_socket
from catalog.model.credentials import PlainCredential
from catalog.operations.cacertificate import tls_context
from catalog.settings import Settings
from catalog.subscriptions.sinks.kafkarecords import KafkaRecord
from catalog.subscriptions.sinks.kafkasettings import KafkaCluster

_MOST_CONNECTIONS = 64
_LARGEST_RESPONSE = 2 * 1024 * 1024
_MOST_SCRAM_ITERATIONS = 500_000
_CLOSE_SECONDS = 3.0
_LENGTH = struct.Struct(">i")
# The methods of aiokafka that open connections, and the global function that both call.
_OPENERS = ("bootstrap", "_get_conn")
_OPENED_BY = "create_conn"
# The largest batch of several records in bytes. Kafka's own default limit is a megabyte.
BATCH_BYTES = 512 * 1024
# A producer gives up a little earlier than deliveries, which then report the producer's error.
_SHARE_OF_TIME = 0.8
# Errors that aiokafka also raises after a failure to connect.
_VAGUE = (
    errors.KafkaConnectionError,
    errors.KafkaTimeoutError,
    errors.NodeNotReadyError,
    errors.RequestTimedOutError,
    TimeoutError,
    errors.UnknownTopicOrPartitionError,
)
_HASHES = 4096

# At the level debug, aiokafka would log passwords; deliveries report its errors.
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


class ConnectionGuard:
    """Opens every connection of one client; `failure` is the cause if the last opening failed.

    Args:
        settings: the settings with the rules for allowed addresses.
        largest: the largest size of a response in bytes.
    """

    def __init__(self, settings: Settings, largest: int = _LARGEST_RESPONSE) -> None:
        self.failure: BaseException | None = None
        self._settings = settings
        self._largest = largest
        self._is_closed = False
        self._opened: set[AIOKafkaConnection] = set()

    def watch(self, client: AIOKafkaClient) -> None:
        """Have a client open its connections through the guard.

        aiokafka has no setting for the purpose: the methods that open connections get a different
        `create_conn`.
        """
        for name in _OPENERS:
            method = getattr(client, name)
            setattr(client, name, with_global(method, _OPENED_BY, self._open))

    async def _open(self, host: str, port: int, **options: Any) -> AIOKafkaConnection:
        connection = _CheckedConnection(host, port, **options)
        connection.check(self._settings, self._largest)
        try:
            self._opened = {each for each in self._opened if each.connected()}
            if len(self._opened) >= _MOST_CONNECTIONS:
                raise errors.KafkaConnectionError("the cluster has too many brokers")
            await connection.connect()
        except (OSError, errors.KafkaError) as error:
            self.failure = error
            raise
        # A server that speaks no Kafka, or malformed Kafka on purpose, can cause every error.
        except Exception as error:
            self.failure = errors.KafkaConnectionError(f"{type(error).__name__}: {error}")
            raise self.failure from error
        self.failure = None
        # The guard was closed while the connection opened: `close` has not seen the connection.
        if self._is_closed:
            connection.close()
            raise errors.KafkaConnectionError("the client is closed")
        self._opened.add(connection)
        return connection

    async def close(self, stopping: Coroutine[Any, Any, object]) -> None:
        """Stop the client within a few seconds, then break off each of its connections.

        aiokafka waits for unresponsive brokers, takes a cancellation for its own, and loses track
        of connections that were being opened at the time of a close or cancellation.

        Args:
            stopping: the coroutine that stops the client.
        """
        self._is_closed = True
        stops = asyncio.create_task(stopping)
        stops.add_done_callback(_ignore)
        try:
            await asyncio.wait([stops], timeout=_CLOSE_SECONDS)
        finally:
            stops.cancel()
            for connection in [*self._opened]:
                _break_off(connection)


def _break_off(connection: AIOKafkaConnection) -> None:
    """Close a connection without sending its unsent bytes."""
    writer = connection._writer
    connection.close()
    if writer is not None:
        writer.transport.abort()


def _ignore(stopped: asyncio.Task[object]) -> None:
    """Retrieve the error of a stopped client, which asyncio would log as lost otherwise."""
    if not stopped.cancelled():
        stopped.exception()


def create_no_topics(client: AIOKafkaClient) -> None:
    """Keep brokers from creating the topics in the metadata requests of a client."""
    without = partial(MetadataRequest, allow_auto_topic_creation=False)
    method = with_global(client._metadata_update, MetadataRequest.__name__, without)
    setattr(client, "_metadata_update", method)  # noqa: B010


def connection_options(cluster: KafkaCluster) -> dict[str, Any]:
    """The arguments of every client of aiokafka that connects to a cluster."""
    layer = "SSL" if cluster.tls else "PLAINTEXT"
    options: dict[str, Any] = {
        "bootstrap_servers": [
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            for host, port in cluster.servers
        ],
        "client_id": cluster.clientid,
        "security_protocol": layer if cluster.credential is None else f"SASL_{layer}",
    }
    if cluster.tls:
        options["ssl_context"] = tls_context(cluster.cacertificate)
    if isinstance(cluster.credential, PlainCredential):
        options["sasl_mechanism"] = cluster.saslmechanism or "PLAIN"
        options["sasl_plain_username"] = cluster.credential.identifier
        options["sasl_plain_password"] = cluster.credential.secret
    elif cluster.credential is not None:
        options["sasl_mechanism"] = "OAUTHBEARER"
        options["sasl_oauth_token_provider"] = _Token(cluster.credential.token)
    return options


class _Token(AbstractTokenProvider):
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def with_global(method: Any, name: str, value: object) -> Callable[..., Any]:
    """A bound method with a different value for a global name of its function.

    Raises:
        TypeError: the function does not use the name, so that the value would have no effect.
    """
    function = method.__func__
    if name not in function.__code__.co_names:
        raise TypeError(f"{function.__qualname__} of aiokafka does not use {name}")
    changed = types.FunctionType(
        function.__code__,
        {**function.__globals__, name: value},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    changed.__kwdefaults__ = function.__kwdefaults__
    return types.MethodType(changed, method.__self__)


class _CheckedConnection(AIOKafkaConnection):
    """A connection to a checked address, with bounds on the effects of a server.

    aiokafka reads responses of unlimited size, and accepts an unlimited number of SCRAM iterations,
    which occupy a thread that further tasks need.
    """

    largest = _LARGEST_RESPONSE

    def check(self, settings: Settings, largest: int) -> None:
        """Check the addresses of the connection and the size of responses."""
        self.largest = largest
        self._loop = cast(asyncio.AbstractEventLoop, _CheckedLoop(self._loop, settings))

    def authenticator_scram(self) -> ScramAuthenticator:
        return _BoundedScram(
            loop=self._loop,
            sasl_plain_username=self._sasl_plain_username,
            sasl_plain_password=self._sasl_plain_password,
            sasl_mechanism=self._sasl_mechanism,
        )

    def authenticator_oauth(self) -> OAuthAuthenticator:
        return _AnsweredToken(sasl_oauth_token_provider=self._sasl_oauth_token_provider)

    @staticmethod
    async def _read(self_ref: ReferenceType[_CheckedConnection]) -> None:
        """Pass responses on, as aiokafka's method does."""
        connection = self_ref()
        if connection is None:
            return
        reader = connection._reader
        assert reader is not None, "it is connected"
        largest = connection.largest
        # A reference held while waiting would keep an abandoned connection alive.
        del connection
        while True:
            (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
            if not 0 <= size <= largest:
                raise ConnectionError(f"a response has {size} bytes")
            response = await reader.readexactly(size)
            connection = self_ref()
            if connection is None:
                return
            connection._handle_frame(response)
            del connection


class _CheckedLoop:
    """An event loop that connects to checked addresses only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: Settings) -> None:
        self._loop = loop
        self._connect = partial(connect_socket, settings=settings)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def create_connection(
        self,
        factory: Callable[[], asyncio.Protocol],
        host: str,
        port: int,
        *,
        ssl: ssl.SSLContext | None,
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        connected = await self._connect(host, port)
        try:
            return await self._loop.create_connection(
                factory, sock=connected, ssl=ssl, server_hostname=host if ssl else None
            )
        except BaseException:
            connected.close()
            raise


class _BoundedScram(ScramAuthenticator):
    def create_salted_password(self, salt: bytes, iterations: int) -> None:
        if not 1 <= iterations <= _MOST_SCRAM_ITERATIONS:
            raise ValueError(f"the server asks for {iterations} iterations")
        super().create_salted_password(salt, iterations)


class _AnsweredToken(OAuthAuthenticator):
    """A server refuses a token by an answer that is not empty (RFC 7628 3.2.3)."""

    async def step(self, answer: bytes | None) -> tuple[bytes, bool] | None:
        if answer:
            raise errors.SaslAuthenticationFailed("the server refused the token")
        found: tuple[bytes, bool] | None = await super().step(answer)
        return found


def partition_of(key: bytes, partitions: Sequence[int]) -> int:
    """The partition of a key, as Kafka's own clients choose it."""
    return partitions[_hash_of(key) % len(partitions)]


@functools.lru_cache(maxsize=_HASHES)
def _hash_of(key: bytes) -> int:
    # It is computed in Python, byte by byte, and most subjects come again.
    return int(murmur2(key)) & 0x7FFFFFFF


class KafkaProducer:
    """An aiokafka producer, unusable after the first failure.

    A failure leaves the sequence numbers of records in doubt, or records that the producer would
    keep sending.
    """

    @classmethod
    async def connect(cls, cluster: KafkaCluster, settings: Settings) -> KafkaProducer:
        """Connect a producer.

        Raises:
            KafkaError, OSError: no bootstrap server can be used.
        """
        producer = cls(cluster, settings)
        try:
            async with asyncio.timeout(producer._seconds):
                await producer._producer.start()
        except BaseException as error:
            await producer.close()
            raise producer.cause_of(error) from None
        return producer

    def __init__(self, cluster: KafkaCluster, settings: Settings) -> None:
        self.is_open = True
        self._seconds = settings.delivery_timeout_seconds * _SHARE_OF_TIME
        self._guard = ConnectionGuard(settings)
        self._producer = AIOKafkaProducer(
            max_batch_size=2 * BATCH_BYTES,
            request_timeout_ms=max(1, int(self._seconds * 1000)),
            acks=cluster.acks if cluster.acks == "all" else int(cluster.acks),
            enable_idempotence=cluster.acks == "all",
            **connection_options(cluster),
        )
        self._guard.watch(self._producer.client)

    async def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic.

        Raises:
            KafkaError: the topic does not exist, or its metadata cannot be read.
        """
        try:
            return sorted(await self._producer.partitions_for(topic))
        except errors.KafkaError:
            # The producer may only know brokers that no longer exist.
            self.is_open = self._guard.failure is None
            raise

    async def append(self, topic: str, partition: int, records: Sequence[KafkaRecord]) -> int:
        """Append records to a partition as one batch, and return the offset of the first record.

        Without acknowledgements, the offset is -1.

        Raises:
            KafkaError: the records are not appended, or the outcome is unknown.
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

    def create_no_topics(self) -> None:
        """Keep brokers from creating missing topics, regardless of the cluster's default."""
        create_no_topics(self._producer.client)

    def cause_of(self, error: BaseException) -> BaseException:
        """The failure to connect to a broker, if an error may come from such a failure."""
        return self._guard.failure or error if isinstance(error, _VAGUE) else error

    async def close(self) -> None:
        """Close the connections soon; unacknowledged records are given up."""
        self.is_open = False
        await self._guard.close(self._stop())

    async def _stop(self) -> None:
        producer, client = self._producer, self._producer.client
        # aiokafka's own method waits until every record is acknowledged.
        producer._closed = True
        refreshing, client._sync_task = client._sync_task, None
        if refreshing is not None:
            refreshing.cancel()
            await asyncio.gather(refreshing, return_exceptions=True)
        # Requests would wait for metadata, which is no longer refreshed.
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        done.set_result(False)
        awaited, client._md_update_fut = client._md_update_fut, done
        if awaited is not None and not awaited.done():
            awaited.set_result(False)
        # Requests that wait for an answer end with the connections.
        await asyncio.gather(producer._sender.close(), client.close())
