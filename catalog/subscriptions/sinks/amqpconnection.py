"""A connection to an AMQP 1.0 server: proton's protocol engine on a transport of asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self, cast

import proton

from catalog.http.outboundconnections import connect_socket
from catalog.model.masking import described
from catalog.operations.peercredentials import tls_context
from catalog.settings import Settings
from catalog.subscriptions.sinks.protocols import AmqpSettings
from catalog.subscriptions.sinks.sharedconnections import BrokerServer
from catalog.subscriptions.sinks.sink import Delivered, SinkAnswer, SinkFailed, SinkRefused

_SHUTDOWN_SECONDS = 2.0
# A server counts as dead after a silence of this length; proton announces half of the time.
_SILENT_SECONDS = 30.0
_FRAME_BYTES = 65_536
_MOST_LINKS = 255
_CONDITION = re.compile(r"[A-Za-z0-9:._-]{1,64}")
# The conditions under which a rejected event may succeed later; every further condition is final.
_PASSING = {
    "amqp:internal-error",
    "amqp:resource-limit-exceeded",
    "amqp:resource-locked",
    "amqp:not-found",
    "amqp:unauthorized-access",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AmqpServer(BrokerServer):
    """A server, by SASL PLAIN with the user and password, else by ANONYMOUS.

    `owner` is the subscription that does not share the connection. Link names are unique within a
    connection, so a link whose name a subscription chooses needs a separate connection.
    """

    owner: str | None


class AmqpConnection(asyncio.Protocol):
    """A connection and its links. The engine does no input or output itself.

    The engine's events call the methods `on_…`, which only record the event and wake waiting tasks.
    """

    def __init__(self, server: AmqpServer) -> None:
        self._loop = asyncio.get_running_loop()
        self._collector = proton.Collector()
        self._connection = proton.Connection()
        self._connection.collect(self._collector)
        self._connection.container = f"concord-{uuid.uuid4()}"
        self._connection.hostname = server.host
        self._engine = proton.Transport()
        sasl = self._engine.sasl()
        if (login := server.login) is None:
            sasl.allowed_mechs("ANONYMOUS")
        else:
            self._connection.user, self._connection.password = login.identifier, login.secret
            sasl.allowed_mechs("PLAIN")
            # The engine does not see the TLS layer, which asyncio provides.
            sasl.allow_insecure_mechs = True
        self._engine.idle_timeout = _SILENT_SECONDS
        self._engine.max_frame_size = _FRAME_BYTES
        self._engine.channel_max = _MOST_LINKS
        self._engine.bind(self._connection)
        self._connection.open()
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self._is_flushing = False
        self._timer: asyncio.TimerHandle | None = None
        self._is_open = asyncio.Event()
        self._ended = asyncio.Event()
        self.failure: SinkRefused | None = None
        # The links by their sessions, least recently used first.
        self._links: dict[proton.Session, AmqpLink] = {}

    @classmethod
    async def connect(cls, server: AmqpServer, settings: Settings) -> Self:
        """Connect to a server, and wait until the server has opened its side.

        Raises:
            OSError: the server cannot be reached, or refuses this node (`SinkFailed`).
        """
        connection = cls(server)
        opened = await connect_socket(server.host, server.port, settings)
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: connection,
                sock=opened,
                ssl=tls_context(server.cacertificate) if server.is_tls else None,
                server_hostname=server.host if server.is_tls else None,
                ssl_shutdown_timeout=_SHUTDOWN_SECONDS if server.is_tls else None,
            )
        except BaseException:
            opened.close()
            raise
        try:
            await connection._is_open.wait()
            if connection.failure is not None:
                raise SinkFailed(connection.failure)
        except BaseException:
            connection.abort()
            raise
        return connection

    def attach(self, name: str, address: str, settings: AmqpSettings) -> AmqpLink:
        """Begin a link in its own session, since servers end the session of a link that fails.

        Raises:
            SinkFailed: as many links as possible are in use.
        """
        if len(self._links) >= min(_MOST_LINKS, self._engine.remote_channel_max):
            idle = next((link for link in self._links.values() if link.is_idle), None)
            if idle is None:
                raise SinkFailed(SinkRefused(reason="too many links to the sink are in use"))
            idle.close()
        session = self._connection.session()
        session.open()
        sender = session.sender(name)
        sender.target.address = address
        # RabbitMQ 3 creates missing queues, and durable queues only at the request of the client.
        sender.target.durability = proton.Terminus.CONFIGURATION
        is_settled = settings.sendersettlementmode == "settled"
        sender.snd_settle_mode = sender.SND_SETTLED if is_settled else sender.SND_UNSETTLED
        sender.properties = {
            proton.symbol(key): each for key, each in settings.linkproperties.items()
        }
        sender.open()
        link = self._links[session] = AmqpLink(self, session, sender)
        self.flush()
        return link

    def used(self, link: AmqpLink) -> None:
        """Note that a link is in use."""
        self._links[link.session] = self._links.pop(link.session)

    def detached(self, link: AmqpLink) -> None:
        """Forget a link that is closed."""
        self._links.pop(link.session, None)
        self.flush()

    @property
    def is_open(self) -> bool:
        """Whether links can be attached."""
        return self.failure is None

    async def close(self) -> None:
        """Close the connection, in bounded time."""
        self._end(SinkRefused(reason="the connection is closed"))
        self._connection.close()
        self.flush()
        if self._transport is not None:
            self._transport.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SHUTDOWN_SECONDS):
                    await self._ended.wait()
            self.abort()

    def abort(self) -> None:
        """End the connection at once."""
        self._end(SinkRefused(reason="the connection is closed"))
        if self._transport is not None:
            self._transport.abort()

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.flush()

    def data_received(self, data: bytes) -> None:
        try:
            while data and (capacity := self._engine.capacity()) > 0:
                self._engine.push(data[:capacity])
                data = data[capacity:]
                self._dispatch()
        except proton.ProtonException as error:
            self._end(
                SinkRefused(reason="the sink does not speak AMQP 1.0", cause=described(error))
            )
        self.flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        # A negative capacity stands for an engine that has failed, or has seen the end already.
        if self._engine.capacity() >= 0:
            self._engine.close_tail()
        self.flush()
        self._end(
            SinkRefused(
                reason="the sink closed the connection", cause=described(error) if error else ""
            )
        )
        self._ended.set()

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self.flush()

    # Events of the engine.

    def on_connection_remote_open(self, _: proton.Event) -> None:
        self._is_open.set()

    def on_connection_remote_close(self, event: proton.Event) -> None:
        self._end(_refusal(event.connection.remote_condition, "the sink closed the connection"))

    def on_transport_error(self, event: proton.Event) -> None:
        refusal = _refusal(event.transport.condition, "the connection to the sink broke off")
        if not self._is_open.is_set():
            refusal = replace(refusal, reason=self._why_not_open(event.transport.condition))
        self._end(refusal)

    def on_session_remote_close(self, event: proton.Event) -> None:
        if link := self._links.get(event.session):
            link.end(_refusal(event.session.remote_condition, link.fault))

    def on_link_remote_close(self, event: proton.Event) -> None:
        if link := self._links.get(event.session):
            link.end(_refusal(event.link.remote_condition, link.fault))

    on_link_remote_detach = on_link_remote_close

    def on_link_remote_open(self, event: proton.Event) -> None:
        if link := self._links.get(event.session):
            link.wake()

    def on_link_flow(self, event: proton.Event) -> None:
        if link := self._links.get(event.session):
            # Credit left over from a drain request has to go back to the server.
            event.link.drained()
            link.wake()

    def on_delivery(self, event: proton.Event) -> None:
        if link := self._links.get(event.session):
            link.settle(event.delivery)

    def flush_soon(self) -> None:
        """Flush once for all callers in the same turn of the loop."""
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Handle the events of the engine, and send its output."""
        self._is_flushing = False
        self._dispatch()
        deadline = self._engine.tick(self._loop.time())
        if self._transport is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self.flush) if deadline else None
        while not self._is_paused and (pending := self._engine.pending()) > 0:
            self._transport.write(self._engine.peek(pending))
            self._engine.pop(pending)
        self._dispatch()
        if self._engine.pending() < 0:
            self._transport.close()

    def _dispatch(self) -> None:
        while (event := self._collector.peek()) is not None:
            event.dispatch(self)
            self._collector.pop()

    def _why_not_open(self, condition: proton.Condition | None) -> str:
        if self._connection.user is None:
            return "the sink does not speak AMQP 1.0, or lets in nobody without a credential"
        if condition is not None and condition.name == "amqp:unauthorized-access":
            return "the sink did not accept the credential"
        return "the sink does not speak AMQP 1.0"

    def _end(self, failure: SinkRefused) -> None:
        """Note why the connection is unusable; the first reason is the cause."""
        if self.failure is None:
            self.failure = failure
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._is_open.set()
        for link in [*self._links.values()]:
            link.end(self.failure)


class AmqpLink:
    """A link for the events of a sink."""

    def __init__(
        self, connection: AmqpConnection, session: proton.Session, sender: proton.Sender
    ) -> None:
        self.session = session
        self._connection = connection
        self._sender = sender
        self._failure: SinkRefused | None = None
        self._is_closed = False
        self._changed = asyncio.Event()
        self._sending = 0
        self._number = 0
        self._unsettled: dict[str, asyncio.Future[SinkAnswer]] = {}

    @property
    def is_usable(self) -> bool:
        """Whether the link can send events; if not, the sink needs a new link."""
        return self._failure is None

    @property
    def is_idle(self) -> bool:
        """Whether no message is being sent."""
        return not self._sending

    @property
    def fault(self) -> str:
        """The meaning of an end of the link in its present state."""
        is_attached = self._sender.state & self._sender.REMOTE_ACTIVE
        return (
            "the sink ended the link"
            if is_attached
            else "the sink did not open a link to the address"
        )

    async def send(self, message: bytes) -> SinkAnswer:
        """Transfer a message, and wait until the server has settled it."""
        self._sending += 1
        self._connection.used(self)
        try:
            await self._until(lambda: bool(self._sender.state & self._sender.REMOTE_ACTIVE))
            await self._until(lambda: self._sender.credit > 0)
            if self._failure is not None:
                return self._failure
            largest = self._sender.remote_max_message_size
            if 0 < largest < len(message):
                reason = f"the event is larger than the {largest} bytes that the sink takes"
                return SinkRefused(reason=reason, is_final=True)
            return await self._transfer(message)
        finally:
            self._sending -= 1

    def close(self) -> None:
        """Close the link and its session."""
        self.end(SinkRefused(reason="the link is closed"))
        if self._is_closed:
            return
        self._is_closed = True
        self._sender.close()
        self.session.close()
        self._sender.free()
        self.session.free()
        self._connection.detached(self)

    def end(self, failure: SinkRefused) -> None:
        """Note why the link is unusable; the first reason is the cause."""
        if self._failure is None:
            self._failure = failure
        for answer in self._unsettled.values():
            if not answer.done():
                answer.set_result(self._failure)
        self._unsettled.clear()
        self.wake()

    def wake(self) -> None:
        """Let waiting senders look again."""
        self._changed.set()

    def settle(self, delivery: proton.Delivery) -> None:
        """Note the outcome of a message."""
        outcome = _outcome(delivery)
        if outcome is None:
            return
        answer = self._unsettled.pop(delivery.tag, None)
        if answer is not None and not answer.done():
            answer.set_result(outcome)
        delivery.settle()

    async def _transfer(self, message: bytes) -> SinkAnswer:
        self._number += 1
        delivery = self._sender.delivery(str(self._number))
        self._sender.stream(message)
        self._sender.advance()
        if self._sender.snd_settle_mode == self._sender.SND_SETTLED:
            delivery.settle()
            self._connection.flush()
            return Delivered(detail="sent without acknowledgement")
        answer: asyncio.Future[SinkAnswer] = asyncio.get_running_loop().create_future()
        self._unsettled[delivery.tag] = answer
        self._connection.flush_soon()
        return await answer

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while self._failure is None and not is_so():
            self._changed.clear()
            await self._changed.wait()


def _outcome(delivery: proton.Delivery) -> SinkAnswer | None:
    """The server's decision on a message; `None` while undecided."""
    match delivery.remote_state:
        case proton.Delivery.ACCEPTED:
            return Delivered(detail="accepted")
        case proton.Delivery.REJECTED:
            condition = delivery.remote.condition
            is_final = condition is None or condition.name not in _PASSING
            return replace(_refusal(condition, "the sink rejected the event"), is_final=is_final)
        case proton.Delivery.RELEASED | proton.Delivery.MODIFIED:
            return SinkRefused(reason="the sink gave the event back without taking it")
        case _ if delivery.settled:
            return SinkRefused(reason="the sink settled the event without saying how")
        case _:
            return None


def _refusal(condition: proton.Condition | None, reason: str) -> SinkRefused:
    """The refusal for the condition that a server gives; the server's text is for the log only."""
    if condition is None:
        return SinkRefused(reason=reason)
    name = condition.name if _CONDITION.fullmatch(condition.name or "") else "unknown condition"
    cause = f"{name}: {condition.description or ''}"[:1024]
    match name:
        case "amqp:not-found":
            reason = "the sink has no node at the address"
        case "amqp:unauthorized-access":
            reason = "the sink does not allow this with this credential"
    return SinkRefused(reason=f"{reason} ({name})", cause=cause)
