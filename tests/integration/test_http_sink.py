"""What HTTP sinks get and what their answers do, whatever they send, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import gzip
import itertools
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from catalog.model.connectionfailure import NO_TLS, UNREACHABLE
from catalog.model.credentials import SinkCredential, TokenCredential
from catalog.operations.subscriptions import BatchLimits, SubscriptionConfig
from catalog.settings import Settings
from catalog.store.changes import Position
from catalog.subscriptions.sinks.httpconnection import HttpConnection, IdleConnections
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.sink import (
    Delivered,
    Sink,
    SinkAnswer,
    SinkGone,
    SinkRefused,
    Sinks,
)
from catalog.subscriptions.stored.subscriptions import Subscription, SubscriptionDefinition

NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
PATIENT, IMPATIENT = 10.0, 0.3
Handler = Callable[["RawSink", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class RawSink:
    """A server that answers as its handler says, byte by byte."""

    handler: Handler
    tls: ssl.SSLContext | None = None
    requests: list[tuple[bytes, bytes]] = field(default_factory=list)
    connections: int = 0
    ended: asyncio.Queue[None] = field(default_factory=asyncio.Queue)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def request(self, reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
        """Read one request: its head and its body."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = headers_of(head).get("content-length", "0")
        found = head, await reader.readexactly(int(length))
        self.requests.append(found)
        return found

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        # Clients end connections as they like; a handler notices that when it reads or writes.
        with contextlib.closing(writer):
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self.handler(self, reader, writer)
            self.ended.put_nowait(None)


def headers_of(head: bytes) -> dict[str, str]:
    lines = head.decode("ascii").split("\r\n")[1:-2]
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


@contextlib.asynccontextmanager
async def serving(handler: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawSink]:
    sink = RawSink(handler=handler, tls=tls)
    async with await asyncio.start_server(sink.serve, "127.0.0.1", 0, ssl=tls) as server:
        sink.port = server.sockets[0].getsockname()[1]
        yield sink


@contextlib.asynccontextmanager
async def opened(
    url: str,
    *,
    seconds: float = PATIENT,
    credential: SinkCredential | None = None,
    private: bool = True,
    limits: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Sink]:
    node = Settings(
        allow_private_addresses=private, delivery_timeout_seconds=seconds, **(limits or {})
    )
    async with Sinks(node) as sinks:
        yield sinks.open(subscription_to(url, credential, **settings))


def subscription_to(
    url: str, credential: SinkCredential | None = None, **settings: Any
) -> Subscription:
    return Subscription(
        id="s",
        revision=1,
        definition=SubscriptionDefinition(sink=url, settings=settings),
        credential=credential,
        cursor=Position(0, 0),
        state="active",
        failures=0,
        delivered=0,
        deliveredat=None,
        error=None,
        lostat=None,
        lag=0,
    )


def event(id: str = "1", data: Any = None, **attributes: str) -> OutgoingEvent:
    given = {"id": id, "source": "/s", "type": "t", "datacontenttype": "application/json"}
    return OutgoingEvent(CloudEvent(given | attributes, {} if data is None else data))


async def send(sink: Sink, *events: OutgoingEvent) -> SinkAnswer:
    """The answer to the last of some events, sent one by one."""
    answers: Sequence[SinkAnswer] = []
    async with asyncio.timeout(20):
        for each in events or (event(),):
            answers = await sink.send([each])
    return answers[-1]


def answering(*answers: bytes) -> Handler:
    """A handler that gives these answers on each connection, and then the last for ever."""

    async def handle(
        sink: RawSink, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        for answer in itertools.chain(answers, itertools.repeat(answers[-1])):
            await sink.request(reader)
            writer.write(answer)

    return handle


def flooding(begin: bytes, rest: bytes, *, seconds: float = 0.0) -> Handler:
    """A handler that never stops sending, at once or with a pause after each piece."""

    async def handle(
        sink: RawSink, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await sink.request(reader)
        writer.write(begin)
        while not reader.at_eof():
            writer.write(rest)
            await writer.drain()
            await asyncio.sleep(seconds)

    return handle


def status_line(status: int, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *headers, "Content-Length: 0", "", ""]
    return "\r\n".join(lines).encode()


async def test_a_request_is_what_the_binding_and_the_settings_say() -> None:
    async with (
        serving(answering(NO_CONTENT)) as server,
        opened(
            f"{server.url}a b/ü?c=d&e",
            credential=TokenCredential(token="t0ken"),
            method="PUT",
            headers={"X-Team": "blue"},
        ) as sink,
    ):
        assert await send(sink, event(subject="Zürich 1")) == Delivered(detail="204")
    [(head, body)] = server.requests
    assert head.startswith(b"PUT /a%20b/%C3%BC?c=d&e HTTP/1.1\r\n")
    headers = headers_of(head)
    assert headers["host"] == f"127.0.0.1:{server.port}"
    assert headers["authorization"] == "Bearer t0ken"
    assert (headers["x-team"], headers["user-agent"]) == ("blue", "concord")
    read = from_http(HTTPMessage(headers=headers, body=body), JSONFormat(), CloudEvent)
    assert (read.get_subject(), read.get_id(), read.get_data()) == ("Zürich 1", "1", {})


class CountingEvent(CloudEvent):
    """An event that counts how often its data is asked for."""

    asked = 0

    def get_data(self) -> Any:
        self.asked += 1
        return super().get_data()


@pytest.mark.parametrize("contentmode", ["binary", "structured"])
async def test_an_event_is_encoded_once_for_all_sinks(contentmode: str) -> None:
    counting = CountingEvent({"id": "1", "source": "/s", "type": "t"}, {})
    async with serving(answering(NO_CONTENT)) as server, Sinks(private()) as sinks:
        outgoing = OutgoingEvent(counting)
        for number in range(3):
            settings = {"headers": {"X-Sink": str(number)}, "contentmode": contentmode}
            await send(sinks.open(subscription_to(server.url, **settings)), outgoing)
    assert [headers_of(head)["x-sink"] for head, _ in server.requests] == ["0", "1", "2"]
    assert len({body for _, body in server.requests}) == 1
    assert counting.asked == 1


def private() -> Settings:
    return Settings(allow_private_addresses=True)


@pytest.mark.parametrize("contentmode", ["binary", "structured"])
async def test_events_go_one_after_the_other_over_one_connection(contentmode: str) -> None:
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
    async with (
        serving(answering(NO_CONTENT, answer, b"HTTP/1.1 100 Continue\r\n\r\n" + answer)) as server,
        opened(server.url, contentmode=contentmode) as sink,
    ):
        for number in range(5):
            assert isinstance(await send(sink, event(str(number))), Delivered)
    assert (server.connections, len(server.requests)) == (1, 5)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        # An answer that nobody asked for must not be taken for the next one.
        NO_CONTENT + b"HTTP/1.1 500 Poison\r\nContent-Length: 0\r\n\r\n",
        NO_CONTENT + b"garbage",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more",
    ],
)
async def test_a_connection_is_used_again_only_after_a_clean_answer(answer: bytes) -> None:
    async with serving(answering(answer)) as server, opened(server.url) as sink:
        for _ in range(3):
            assert isinstance(await send(sink), Delivered)
    assert server.connections == 3


async def test_an_answer_may_end_with_its_connection() -> None:
    async def handle(
        sink: RawSink, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await sink.request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nfine")

    async with serving(handle) as server, opened(server.url) as sink:
        assert await send(sink, event(), event()) == Delivered(detail="200")
    assert server.connections == 2


async def test_a_connection_that_ended_while_idle_is_no_failure_of_the_sink() -> None:
    """The sink reads the second request and closes, as one does whose time is over."""
    ids: list[str] = []

    async def handle(
        sink: RawSink, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        for answer in (NO_CONTENT, b""):
            head, _ = await sink.request(reader)
            ids.append(headers_of(head)["ce-id"])
            writer.write(answer)

    async with serving(handle) as server, opened(server.url) as sink:
        for id in ("a", "b", "c"):
            assert isinstance(await send(sink, event(id)), Delivered)
    # Each but the first is lost on the old connection and sent again on a new one.
    assert (ids, server.connections) == (["a", "b", "b", "c", "c"], 3)


@pytest.mark.parametrize("begin", [b"", b"H", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfive"])
async def test_a_sink_that_ends_its_answers_early_is_asked_no_more_than_once(
    begin: bytes,
) -> None:
    """It was on a new connection, or a part of an answer has come."""

    async def handle(
        sink: RawSink, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await sink.request(reader)
        if sink.connections == 1 and begin:
            writer.write(NO_CONTENT)
            await sink.request(reader)
        writer.write(begin)

    async with serving(handle) as server, opened(server.url) as sink:
        answer = await send(sink, *[event()] * (2 if begin else 1))
    assert isinstance(answer, SinkRefused)
    assert answer.reason == "the sink did not answer as a whole"
    assert (server.connections, len(server.requests)) == (1, 2 if begin else 1)


@pytest.mark.parametrize(
    ("begin", "rest"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-Endless: " + b"a" * 100 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\nX-Endless: ", b"a" * 100),
        (b"HTTP/1.1 200 ", b"a" * 100),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", b"x"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", b"x"),
        (b"\x16\x03\x01\x02\x00", b"\x00"),
        (b"", b"\x00"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"zz\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nX: a\nb\x00\r\n\r\n", b"x"),
    ],
)
async def test_what_is_no_answer_is_refused_at_once_however_much_comes(
    begin: bytes, rest: bytes
) -> None:
    async with serving(flooding(begin, rest)) as server, opened(server.url) as sink:
        answer = await send(sink)
        async with asyncio.timeout(10):
            await server.ended.get()
    assert isinstance(answer, SinkRefused)
    assert answer.reason == "the answer of the sink is not HTTP"
    assert not answer.is_final


@pytest.mark.parametrize(
    ("begin", "rest"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"a" * 1000),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n", b"a" * 1000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"1;x=" + b"y" * 99 + b"\r\na\r\n",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"Trailer: a\r\n"),
    ],
)
async def test_a_long_body_is_not_read_to_its_end_and_its_status_counts(
    begin: bytes, rest: bytes
) -> None:
    async with serving(flooding(begin, rest)) as server, opened(server.url) as sink:
        assert await send(sink) == Delivered(detail="200")
        async with asyncio.timeout(10):
            await server.ended.get()


@pytest.mark.parametrize(
    ("begin", "rest"),
    [
        (b"", b""),
        (b"HTTP/1.1 200 OK\r\n", b"X: a\r\n"),
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"a"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
    ],
)
async def test_no_answer_takes_longer_than_its_time_however_it_drips(
    begin: bytes, rest: bytes
) -> None:
    clock = asyncio.get_running_loop().time
    async with (
        serving(flooding(begin, rest, seconds=0.02)) as server,
        opened(server.url, seconds=IMPATIENT) as sink,
    ):
        begun = clock()
        answer = await send(sink)
        taken = clock() - begun
        async with asyncio.timeout(10):
            await server.ended.get()
    assert isinstance(answer, SinkRefused)
    assert answer.reason == "the sink did not answer in time"
    assert taken < IMPATIENT + 2


@pytest.mark.parametrize(
    ("status", "is_final"),
    [
        *((status, True) for status in (400, 413, 414, 415, 422, 431)),
        *((status, False) for status in (301, 302, 307, 308, 304)),
        *((status, False) for status in (401, 403, 404, 405, 408, 409, 418, 429)),
        *((status, False) for status in (500, 501, 502, 503, 504, 999)),
    ],
)
async def test_an_answer_says_whether_the_event_can_ever_succeed(
    status: int, is_final: bool
) -> None:
    answer = status_line(status, "Location: /other", "Retry-After: 7")
    async with serving(answering(answer)) as server, opened(server.url) as sink:
        refused = await send(sink)
    assert isinstance(refused, SinkRefused)
    assert refused.reason.startswith(f"the sink answered {status}")
    assert ("redirects are not followed" in refused.reason) == (300 <= status < 400)
    assert (refused.is_final, refused.retry_after) == (is_final, 7)
    assert len(server.requests) == 1


async def test_an_answer_says_that_a_sink_wants_nothing_more() -> None:
    async with serving(answering(status_line(410))) as server, opened(server.url) as sink:
        assert await send(sink) == SinkGone(reason="the sink answered 410")


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_an_answer_says_that_an_event_was_taken(status: int) -> None:
    async with serving(answering(status_line(status))) as server, opened(server.url) as sink:
        assert await send(sink, event(), event()) == Delivered(detail=str(status))
    assert server.connections == 1


def batch_sink(sinks: Sinks, url: str, limits: BatchLimits, **settings: Any) -> Sink:
    subscription = subscription_to(url, contentmode="batched", **settings)
    definition = replace(subscription.definition, config=SubscriptionConfig(batch=limits))
    return sinks.open(replace(subscription, definition=definition))


@pytest.mark.parametrize("compression", ["none", "gzip"])
async def test_a_batch_is_one_array_of_as_many_bytes_as_asked(compression: str) -> None:
    events = [event(str(number), data="x" * 500) for number in range(10)]
    size = len(events[0].structured)
    limits = BatchLimits(count=10, bytes=2 + 4 * size + 3)
    async with serving(answering(NO_CONTENT)) as server, Sinks(private()) as sinks:
        sink = batch_sink(sinks, server.url, limits, compression=compression)
        assert sink.most_events == 10
        counts = []
        async with asyncio.timeout(20):
            for number in (0, 4, 8):
                answers = await sink.send(events[number:])
                assert {*answers} == {Delivered(detail="204")}
                counts.append(len(answers))
    assert counts == [4, 4, 2]
    bodies = []
    for head, body in server.requests:
        headers = headers_of(head)
        assert headers["content-type"] == "application/cloudevents-batch+json"
        assert ("content-encoding" in headers) == (compression == "gzip")
        bodies.append(gzip.decompress(body) if compression == "gzip" else body)
    ids = [[each["id"] for each in orjson.loads(body)] for body in bodies]
    assert ids == [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9"]]


@pytest.mark.parametrize(("status", "is_final"), [(503, False), (400, True)])
async def test_a_batch_is_refused_as_a_whole(status: int, is_final: bool) -> None:
    events = [event(str(number)) for number in range(6)]
    limits = BatchLimits(count=10, bytes=2 + 2 * len(events[0].structured) + 1)
    async with (
        serving(answering(NO_CONTENT, status_line(status))) as server,
        Sinks(private()) as sinks,
    ):
        sink = batch_sink(sinks, server.url, limits)
        async with asyncio.timeout(20):
            assert await sink.send(events) == [Delivered(detail="204")] * 2
            answers = await sink.send(events[2:])
    assert answers == [SinkRefused(reason=f"the sink answered {status}", is_final=is_final)]
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("path", "settings", "attributes"),
    [
        ("", {"headers": {"X-A": "b\r\nX-Injected: c"}}, {}),
        ("", {"headers": {"X-A\r\nX-Injected": "c"}}, {}),
        ("a HTTP/1.1\r\nX-Injected: c\r\n", {}, {}),
        ("?a\r\nX-Injected: c", {}, {}),
        ("", {}, {"subject": "a\r\nX-Injected: c", "x": "b\nX-Injected: c"}),
        ("", {}, {"datacontenttype": "application/json\r\nX-Injected: c"}),
    ],
)
async def test_nothing_injects_a_header(
    path: str, settings: dict[str, Any], attributes: dict[str, str]
) -> None:
    """Not even what is stored without a check."""
    async with serving(answering(NO_CONTENT)) as server, Sinks(private()) as sinks:
        with contextlib.suppress(ValueError):
            await send(
                sinks.open(subscription_to(server.url + path, None, **settings)),
                event(**attributes),
            )
    for head, body in server.requests:
        assert "x-injected" not in headers_of(head)
        assert b"Injected" not in body
        assert len(server.requests) == 1


async def test_a_credential_of_more_than_one_line_is_not_sent() -> None:
    credential = TokenCredential(token="t0ken\r\nX-Injected: c")
    async with (
        serving(answering(NO_CONTENT)) as server,
        opened(server.url, credential=credential) as sink,
    ):
        answer = await send(sink)
    assert isinstance(answer, SinkRefused)
    assert "t0ken" not in answer.reason + answer.cause
    assert server.connections == 0


async def test_a_refusal_that_comes_before_the_whole_request_was_sent_counts() -> None:
    released = asyncio.Event()

    async def handle(
        sink: RawSink, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(status_line(413))
        await released.wait()

    async with serving(handle) as server, opened(server.url) as sink:
        large = event(data="x" * (16 * 1024 * 1024))
        for _ in range(2):
            answer = await send(sink, large)
            assert isinstance(answer, SinkRefused)
            assert answer.is_final
        released.set()
    assert server.connections == 2


async def test_a_send_that_is_cancelled_ends_its_connection() -> None:
    asked = asyncio.Event()

    async def handle(
        sink: RawSink, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await sink.request(reader)
        if sink.connections > 1:
            writer.write(NO_CONTENT)
        asked.set()
        await reader.read()

    async with serving(handle) as server, opened(server.url) as sink:
        sending = asyncio.create_task(send(sink))
        async with asyncio.timeout(10):
            await asked.wait()
            sending.cancel()
            await asyncio.wait([sending])
            await server.ended.get()
        # What would have answered the first event answers no other.
        assert isinstance(await send(sink), Delivered)
    assert server.connections == 2


async def test_idle_connections_are_bounded_and_the_oldest_makes_room() -> None:
    async with serving(answering(NO_CONTENT)) as server:
        idle, loop = IdleConnections(2), asyncio.get_running_loop()
        for key in "abc":
            _, connection = await loop.create_connection(
                lambda: HttpConnection(idle.forget), "127.0.0.1", server.port
            )
            idle.keep(key, connection)
        async with asyncio.timeout(10):
            await server.ended.get()
        assert idle.take("a") is None
        assert idle.take("b") is not None
        assert idle.take("c") is not None


async def test_a_connection_is_idle_only_for_so_long() -> None:
    async with serving(answering(NO_CONTENT)) as server:
        idle = IdleConnections(10, idle_seconds=0.05)
        loop = asyncio.get_running_loop()
        for _ in range(2):
            _, connection = await loop.create_connection(
                lambda: HttpConnection(idle.forget), "127.0.0.1", server.port
            )
            idle.keep("key", connection)
        assert len(idle) == 2
        async with asyncio.timeout(10):
            for _ in range(2):
                await server.ended.get()
        assert (len(idle), idle.take("key")) == (0, None)
        idle.close()


async def test_a_sink_that_restarts_is_found_again() -> None:
    async with serving(answering(NO_CONTENT)) as server, Sinks(private()) as sinks:
        sink = sinks.open(subscription_to(server.url))
        await asyncio.gather(*(sink.send([event()]) for _ in range(5)))
        port = server.port
    # Its connections are closed with it, and others wait at the same port.
    async with Sinks(private()) as sinks:
        sink = sinks.open(subscription_to(f"http://127.0.0.1:{port}/"))
        answer = await send(sink)
        assert isinstance(answer, SinkRefused)
        assert answer.reason == "the sink cannot be reached: connection refused"
        again = RawSink(handler=answering(NO_CONTENT))
        async with await asyncio.start_server(again.serve, "127.0.0.1", port):
            assert isinstance(await send(sink), Delivered)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0", "127.1"])
async def test_an_address_that_is_not_allowed_gets_nothing(host: str) -> None:
    async with (
        serving(answering(NO_CONTENT)) as server,
        opened(f"http://{host}:{server.port}/", private=False) as sink,
    ):
        answer = await send(sink)
    assert isinstance(answer, SinkRefused)
    assert answer.reason == f"the sink {UNREACHABLE}"
    assert server.connections == 0


@pytest.mark.parametrize("private", [True, False])
async def test_an_unknown_name_is_told_where_all_addresses_may_be_connected_to(
    private: bool,
) -> None:
    """Elsewhere, the difference would tell which names a network has."""
    async with opened("http://sink.invalid/", private=private) as sink:
        answer = await send(sink)
    assert isinstance(answer, SinkRefused)
    why = "cannot be reached: unknown host" if private else UNREACHABLE
    assert answer.reason == f"the sink {why}"


async def test_a_name_counts_as_the_address_that_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with DNS rebinding: the name looks public and resolves to loopback."""
    async with serving(answering(NO_CONTENT)) as server:
        names = Names({"public.example": server.port})
        monkeypatch.setattr(socket, "getaddrinfo", names.look_up)
        url = f"http://public.example:{server.port}/"
        async with opened(url, private=False) as sink:
            answer = await send(sink)
            assert isinstance(answer, SinkRefused)
            assert server.connections == 0
        async with opened(url) as sink:
            assert isinstance(await send(sink), Delivered)


class Names:
    """A resolver in which some names lead to this machine, and all others to servers that hang."""

    def __init__(self, ports: dict[str, int]) -> None:
        self.ports = ports
        self.released = threading.Event()
        self.hung = 0

    def look_up(self, host: str, *_: Any, flags: int = 0, **__: Any) -> list[Any]:
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror
        if host not in self.ports:
            self.hung += 1
            assert self.released.wait(60)
            raise socket.gaierror
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", self.ports[host]))]


async def test_names_whose_servers_hang_hold_up_no_name_that_was_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(answering(status_line(200, "Connection: close"))) as server:
        names = Names({"found.example": server.port})
        monkeypatch.setattr(socket, "getaddrinfo", names.look_up)
        async with Sinks(private()) as sinks:
            found = sinks.open(subscription_to("http://found.example/"))
            assert isinstance(await send(found), Delivered)
            hung = [
                asyncio.create_task(send(sinks.open(subscription_to(f"http://{number}.example/"))))
                for number in range(200)
            ]
            async with asyncio.timeout(10):
                while names.hung < 16:
                    await asyncio.sleep(0.001)
            assert isinstance(await send(found, event(), event()), Delivered)
            assert names.hung == 16
            for task in hung:
                task.cancel()
            await asyncio.wait(hung)
            names.released.set()
    assert server.connections == 3


async def test_a_lookup_takes_no_longer_than_the_answer_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = Names({})
    monkeypatch.setattr(socket, "getaddrinfo", names.look_up)
    async with opened("http://hangs.example/", seconds=IMPATIENT) as sink:
        answers = await asyncio.gather(*(send(sink) for _ in range(40)))
    names.released.set()
    for answer in answers:
        assert isinstance(answer, SinkRefused)
        assert answer.reason == "the sink cannot be reached: no answer in time"
    assert names.hung == 1


class Authority:
    """A certificate authority of this test."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of a test")])
        own = self._builder("authority of a test", self._key)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.file = directory / "authority.pem"
        self._write(self.file, own.sign(self._key, hashes.SHA256()))

    def server(self, name: str) -> ssl.SSLContext:
        """The TLS of a server of this name."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(name, key).add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False
        )
        certificate, file = self._directory / f"{name}.pem", self._directory / f"{name}.key"
        self._write(certificate, builder.sign(self._key, hashes.SHA256()))
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, file)
        return context

    def _builder(self, name: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    @staticmethod
    def _write(file: Path, certificate: x509.Certificate) -> None:
        file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def test_events_go_over_tls_to_who_has_the_name(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    tls = authority.server("localhost")
    async with (
        serving(answering(NO_CONTENT), tls=tls) as server,
        opened(f"https://localhost:{server.port}/") as sink,
    ):
        for _ in range(3):
            assert isinstance(await send(sink), Delivered)
    assert server.connections == 1


@pytest.mark.parametrize("fault", ["an unknown authority", "another name", "no TLS"])
async def test_without_the_right_certificate_a_sink_gets_nothing(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    if fault != "an unknown authority":
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    name = "other.example" if fault == "another name" else "localhost"
    tls = None if fault == "no TLS" else authority.server(name)
    # A server of asyncio logs why a handshake failed.
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    async with (
        serving(flooding(b"", NO_CONTENT), tls=tls) as server,
        opened(f"https://localhost:{server.port}/", seconds=2) as sink,
    ):
        answer = await send(sink)
    assert isinstance(answer, SinkRefused)
    told = {
        "an unknown authority": f"{NO_TLS}: unable to get local issuer certificate",
        "another name": f"{NO_TLS}: Hostname mismatch",
        "no TLS": "",
    }
    assert answer.reason.startswith(f"the sink {told[fault]}")
    assert server.requests == []
