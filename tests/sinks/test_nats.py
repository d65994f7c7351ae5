"""NATS sinks against a real nats-server, read back by nats-py."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from catalog.model.credentials import PlainCredential, TokenCredential
from catalog.settings import Settings
from catalog.subscriptions.sinks.sink import Delivered, SinkAnswer, SinkRefused
from tests.brokers.natsreader import STREAM, NatsBroker, connected, parse_message
from tests.brokers.natsserver import NatsServerProgram, run_nats, tls_options
from tests.e2e.nodes import free_port
from tests.integration.conftest import Node
from tests.sinks import contract
from tests.sinks.opened import GUARDED, OPEN, event, open_sink, subscription_to

# Clients of an account of its own learn at once that it has no streams; those of the default one
# ask all servers of a cluster, and wait.
_NO_STREAMS = {
    "accounts": {"clients": {"users": [{"user": "anyone", "password": "any"}]}},
    "no_auth_user": "anyone",
}
UNREACHABLE = "cannot be reached, or only at an address that this node does not connect to"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServerProgram]:
    async with run_nats(tmp_path) as server:
        yield server


@pytest.fixture
async def broker(server: NatsServerProgram) -> NatsBroker:
    broker = NatsBroker(server)
    await broker.create_stream()
    return broker


async def send(
    sink: str, *numbers: int, node: Settings = OPEN, **settings: Any
) -> list[SinkAnswer]:
    credential = settings.pop("credential", None)
    subscription = subscription_to("NATS", sink, credential, **{"subject": "a", **settings})
    async with open_sink(subscription, node) as opened:
        return [*await opened.send([event(number) for number in numbers or [1]])]


def refusal(answers: list[SinkAnswer]) -> SinkRefused:
    [answer] = answers
    assert isinstance(answer, SinkRefused)
    return answer


@pytest.mark.parametrize("contentmode", ["structured", "binary"])
async def test_an_event_arrives(node: Node, broker: NatsBroker, contentmode: str) -> None:
    await contract.check_content_mode(node, broker, "stored.changes", contentmode)


async def test_no_event_is_lost_while_the_server_restarts(node: Node, broker: NatsBroker) -> None:
    await contract.check_restart(node, broker, "stored.changes")


async def test_a_stream_recognises_an_event_that_is_sent_again(broker: NatsBroker) -> None:
    first = await send(broker.server.url, 1, 2, subject="stored.a")
    again = await send(broker.server.url, 2, 3, subject="stored.a")
    assert first == [Delivered(detail="stored")] * 2
    assert again == [Delivered(detail="the stream had it already"), Delivered(detail="stored")]
    assert [each.get_data()["number"] for each in await broker.read("stored.a", 3)] == [1, 2, 3]


async def test_a_stream_keeps_the_events_of_each_subscription(
    node: Node, broker: NatsBroker
) -> None:
    topics = ("stored.a", "stored.b")
    for topic in topics:
        await contract.subscribe(node, broker, topic, "structured")
    for number in range(5):
        await node.put(f"/messagegroups/{number}")
    for topic in topics:
        assert len(await broker.read(topic, 5)) == 5


async def test_a_stream_keeps_what_a_replay_sends(node: Node, broker: NatsBroker) -> None:
    path = await contract.subscribe(node, broker, "stored.a", "binary")
    for number in range(5):
        await node.put(f"/messagegroups/{number}")
    first = await broker.read("stored.a", 5)

    answer = await node.send("PATCH", path, {"cursor": "earliest"})

    assert answer.status == 200, answer.body
    again = await broker.read("stored.a", 10)
    assert [each.get_id() for each in again] == [each.get_id() for each in first] * 2


async def test_a_stream_that_is_full_refuses_for_now(broker: NatsBroker) -> None:
    async with connected(broker.server) as client:
        stream = client.jetstream()
        await stream.add_stream(name="small", subjects=["small"], max_msgs=2, discard="new")
        answers = await send(broker.server.url, 1, 2, 3, 4, subject="small")
        assert [type(each) for each in answers] == [Delivered, Delivered, SinkRefused]
        last = refusal(answers[2:])
        assert last.reason.startswith("the stream refused the event with error 10")
        assert not last.is_final
        await stream.purge_stream("small")
    assert await send(broker.server.url, 3, 4, subject="small") == [Delivered(detail="stored")] * 2


async def test_an_event_that_a_stream_never_takes_can_never_succeed(broker: NatsBroker) -> None:
    async with connected(broker.server) as client:
        await client.jetstream().add_stream(name="tiny", subjects=["tiny"], max_msg_size=100)
    assert refusal(await send(broker.server.url, subject="tiny")).is_final


@pytest.mark.parametrize("subject", ["stored.a", "passing"])
async def test_an_event_that_is_too_large_can_never_succeed(
    broker: NatsBroker, subject: str
) -> None:
    async with connected(broker.server) as client:
        reading = await client.subscribe(subject)
        await client.flush()
        large = event(2, data={"text": "x" * 19_900})
        async with open_sink(subscription_to("NATS", broker.server.url, subject=subject)) as sink:
            answers = await sink.send([event(1), large, event(3)])
            assert [type(each) for each in answers] == [Delivered, SinkRefused]
            assert refusal([*answers[1:]]).is_final
            assert [type(each) for each in await sink.send([event(3)])] == [Delivered]
        came = [parse_message(await reading.next_msg()) for _ in range(2)]
    assert [each.get_data()["number"] for each in came] == [1, 3]


async def test_without_a_stream_all_events_reach_those_who_listen(
    server: NatsServerProgram,
) -> None:
    async with connected(server) as client:
        reading = await client.subscribe("a.b")
        await client.flush()
        for first in (0, 100):
            answers = await send(server.url, *range(first, first + 100), subject="a.b")
            assert answers == [Delivered(detail="sent")] * 100
        messages = [await reading.next_msg() for _ in range(200)]
    assert [parse_message(each).get_data()["number"] for each in messages] == [*range(200)]


async def test_attributes_are_encoded_as_headers_can_hold_them(server: NatsServerProgram) -> None:
    async with connected(server) as client:
        reading = await client.subscribe("a")
        await client.flush()
        text = 'Euro \N{EURO SIGN} \N{GRINNING FACE} 100% "a"'
        async with open_sink(subscription_to("NATS", server.url, subject="a")) as sink:
            await sink.send([event(1, text=text)])
        message = await reading.next_msg()
    assert message.headers is not None
    assert message.headers["ce-text"] == "Euro%20%E2%82%AC%20%F0%9F%98%80%20100%25%20%22a%22"
    assert parse_message(message).get_attributes()["text"] == text


async def test_a_stream_that_is_deleted_is_noticed(broker: NatsBroker) -> None:
    async with open_sink(subscription_to("NATS", broker.server.url, subject="stored.a")) as sink:
        assert await sink.send([event(1)]) == [Delivered(detail="stored")]
        async with connected(broker.server) as client:
            await client.jetstream().delete_stream(STREAM)
        [answer] = await sink.send([event(2)])
        assert isinstance(answer, SinkRefused)
        assert await sink.send([event(2)]) == [Delivered(detail="sent")]


async def test_a_user_or_a_token_is_needed_where_the_server_asks(tmp_path: Path) -> None:
    user = {"user": "concord", "password": "a secret"}
    plain = PlainCredential(identifier="concord", secret="a secret")
    async with run_nats(tmp_path, authorization={"users": [user]}) as server:
        assert await send(server.url, credential=plain) == [Delivered(detail="sent")]
        for wrong in (PlainCredential(identifier="concord", secret="b"), None):
            answer = refusal(await send(server.url, credential=wrong))
            assert answer.reason == "the sink refused the connection: Authorization Violation"
            assert answer.is_unauthorized
    async with run_nats(tmp_path, authorization={"token": "a token"}) as server:
        token = TokenCredential(token="a token")
        assert await send(server.url, credential=token) == [Delivered(detail="sent")]


@pytest.mark.parametrize("subject", ["stored.a", "passing"])
async def test_an_event_that_is_not_permitted_is_not_delivered(
    tmp_path: Path, subject: str
) -> None:
    anyone = {"user": "anyone", "password": "c"}
    user = {
        "user": "concord",
        "password": "a secret",
        "permissions": {"publish": ["allowed", "$JS.API.>"], "subscribe": ["_INBOX.>"]},
    }
    async with run_nats(tmp_path, authorization={"users": [user, anyone]}) as server:
        async with connected(server, user="anyone", password="c") as client:
            await client.jetstream().add_stream(name=STREAM, subjects=["stored.>"])
        credential = PlainCredential(identifier="concord", secret="a secret")
        answer = refusal(await send(server.url, 1, subject=subject, credential=credential))
        assert answer.reason == "the sink does not permit to publish to the subject"
        [allowed] = await send(server.url, 1, subject="allowed", credential=credential)
        assert isinstance(allowed, Delivered)


async def test_tls_trusts_the_authority_that_the_subscription_names(tmp_path: Path) -> None:
    options, authority = tls_options(tmp_path)
    async with run_nats(tmp_path, **options) as server:
        url = f"tls://localhost:{server.port}"
        answers = await send(url, *range(50), cacertificate=authority)
        assert answers == [Delivered(detail="sent")] * 50
        for untrusted in (url, server.url):
            answer = refusal(await send(untrusted))
            assert answer.reason.startswith("the sink and this node agree on no TLS connection")


async def test_a_send_that_is_cancelled_ends_at_once_and_harms_no_other(
    broker: NatsBroker,
) -> None:
    """The library itself swallows cancellations."""
    subscription = subscription_to("NATS", broker.server.url, subject="stored.a")
    async with open_sink(subscription) as sink:
        await sink.send([event(0)])
        for turns in range(30):
            sending = asyncio.create_task(sink.send([event(each) for each in range(1, 50)]))
            for _ in range(turns):
                await asyncio.sleep(0)
            sending.cancel()
            await asyncio.wait([sending], timeout=5)
            assert sending.cancelled()
        answers = await sink.send([event(each) for each in range(1, 50)])
        assert [type(each) for each in answers] == [Delivered] * 49
    events = await broker.read("stored.a", 50)
    assert [each.get_data()["number"] for each in events] == [*range(50)]


async def test_nothing_secret_is_sent_to_a_server_without_tls() -> None:
    """The server offers no TLS, as one does that somebody has put in between."""
    got = bytearray()
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id": "a", "version": "2.9.10", "max_payload": 100}\r\n')
        with contextlib.suppress(ConnectionError):
            while read := await reader.read(1000):
                got.extend(read)
        writer.close()
        ended.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        url = f"tls://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        credential = PlainCredential(identifier="concord", secret="a secret")
        answer = refusal(await send(url, credential=credential))
        async with asyncio.timeout(10):
            await ended.wait()
    assert answer.reason.startswith("the sink and this node agree on no TLS connection")
    assert got == b""


async def test_a_name_is_checked_by_the_address_that_is_connected_to(
    server: NatsServerProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, asked = socket.getaddrinfo, []

    def resolve(host: Any, *given: Any, **named: Any) -> Any:
        asked.append(host)
        return real(server.host if host == "a.example" else host, *given, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    url = f"nats://a.example:{server.port}"
    answer = refusal(await send(url, node=GUARDED))
    assert UNREACHABLE in answer.reason
    assert "not a public address" in answer.cause
    asked.clear()
    assert await send(url, node=OPEN) == [Delivered(detail="sent")]
    # A second look could find another address, which nobody would have checked.
    assert asked == ["a.example"]


async def test_no_address_is_connected_to_that_a_server_announces(tmp_path: Path) -> None:
    visitors = 0

    def visit(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal visitors
        visitors += 1
        writer.close()

    async with await asyncio.start_server(visit, "127.0.0.1", 0) as elsewhere:
        announced = f"127.0.0.1:{elsewhere.sockets[0].getsockname()[1]}"
        async with run_cluster(tmp_path, announced) as server:
            await until_announced(server, announced)
            async with open_sink(subscription_to("NATS", server.url, subject="a")) as sink:
                assert await sink.send([event(1)]) == [Delivered(detail="sent")]
                await server.kill()
                for _ in range(3):
                    assert isinstance((await sink.send([event(2)]))[0], SinkRefused)
                await server.start()
                assert await sink.send([event(2)]) == [Delivered(detail="sent")]
    assert visitors == 0


@contextlib.asynccontextmanager
async def run_cluster(directory: Path, announced: str) -> AsyncIterator[NatsServerProgram]:
    """The first of two servers, which announces addresses other than its own."""
    ports = free_port(), free_port()
    routes = [f"nats://127.0.0.1:{port}" for port in ports]
    async with contextlib.AsyncExitStack() as stack:
        servers = []
        for number, port in enumerate(ports):
            (directory / str(number)).mkdir()
            cluster = {"name": "c", "listen": f"127.0.0.1:{port}", "routes": routes}
            options = {"client_advertise": announced, "cluster": cluster, **_NO_STREAMS}
            running = run_nats(directory / str(number), **options)
            servers.append(await stack.enter_async_context(running))
        yield servers[0]


async def until_announced(server: NatsServerProgram, announced: str) -> None:
    """Wait until a server tells new clients of an address."""
    async with asyncio.timeout(30):
        while True:
            reader, writer = await asyncio.open_connection(server.host, server.port)
            info = json.loads((await reader.readline()).removeprefix(b"INFO "))
            writer.close()
            if announced in info.get("connect_urls", ()):
                return
            await asyncio.sleep(0.05)  # between two looks at what it tells


@pytest.mark.parametrize(
    "says",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"INFO []\r\n",
        b"INFO {}\r\nPONG\r\n",
        b"INFO {}\r\n-ERR 'Unknown'\r\n",
        b'INFO {"max_payload": "a"}\r\nPONG\r\n',
        b"INFO {}\r\nPONG\r\nMSG a 1 999999999\r\n" + b"x" * 200_000,
        b"INFO {}\r\nPONG\r\nMSG a\r\n",
        b"x" * 200_000,
    ],
)
async def test_a_server_that_speaks_no_nats_is_left(says: bytes) -> None:
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(says)
        with contextlib.suppress(ConnectionError):
            while await reader.read(1000):
                pass
        writer.close()
        ended.set()

    impatient = Settings(allow_private_addresses=True, delivery_timeout_seconds=1)
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        url = f"nats://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        refusal(await send(url, contentmode="structured", node=impatient))
        async with asyncio.timeout(10):
            await ended.wait()
