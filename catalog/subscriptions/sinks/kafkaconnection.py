"""Guards the connections of aiokafka to a cluster, including advertised brokers.

aiokafka opens its connections itself, to unchecked addresses, and has no setting for the purpose:
the guard replaces members that are not public, which the version in pyproject.toml has.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import struct
import types
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, cast
from weakref import ReferenceType

from aiokafka import errors
from aiokafka.abc import AbstractTokenProvider
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection, OAuthAuthenticator, ScramAuthenticator
from aiokafka.protocol.metadata import MetadataRequest

from catalog.http.outboundconnections import connect_socket
from catalog.model.credentials import PlainCredential
from catalog.operations.peercredentials import tls_context
from catalog.settings import Settings
from catalog.subscriptions.sinks.protocols import KafkaCluster
from catalog.subscriptions.sinks.sharedconnections import take_error

_MOST_CONNECTIONS = 64
_LARGEST_RESPONSE = 2 * 1024 * 1024
_MOST_SCRAM_ITERATIONS = 500_000
_CLOSE_SECONDS = 3.0
_LENGTH = struct.Struct(">i")
# The methods of aiokafka that open connections, and the global function that both call.
_OPENERS = ("bootstrap", "_get_conn")
_OPENED_BY = "create_conn"

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
        """Have a client open its connections through the guard."""
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
        stops.add_done_callback(take_error)
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
