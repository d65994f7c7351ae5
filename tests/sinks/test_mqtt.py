"""MQTT sinks against a real mosquitto, read back by aiomqtt."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from catalog.model.credentials import PlainCredential
from catalog.settings import Settings
from catalog.subscriptions.sinks.sink import Delivered, SinkAnswer, SinkRefused
from tests.brokers.mosquitto import PASSWORD, USER, Mosquitto, run_mosquitto
from tests.brokers.mqttreader import MqttBroker, parse_message, read_topics
from tests.integration.conftest import Node
from tests.sinks import contract
from tests.sinks.opened import GUARDED, OPEN, event, open_sink, subscription_to

UNREACHABLE = "cannot be reached, or only at an address that this node does not connect to"


@pytest.fixture
async def mosquitto(tmp_path: Path) -> AsyncIterator[Mosquitto]:
    async with run_mosquitto(tmp_path) as server:
        yield server


@pytest.fixture(params=[5, 3], ids=["MQTT5", "MQTT3"])
async def broker(mosquitto: Mosquitto, request: pytest.FixtureRequest) -> AsyncIterator[MqttBroker]:
    async with read_topics(mosquitto, request.param) as broker:
        yield broker


@pytest.fixture
async def mqtt5(mosquitto: Mosquitto) -> AsyncIterator[MqttBroker]:
    async with read_topics(mosquitto, 5) as broker:
        yield broker


async def send(
    protocol: str, sink: str, *numbers: int, node: Settings = OPEN, **settings: Any
) -> list[SinkAnswer]:
    credential = settings.pop("credential", None)
    subscription = subscription_to(protocol, sink, credential, **settings)
    async with open_sink(subscription, node) as opened:
        return [*await opened.send([event(number) for number in numbers or [1]])]


def refusal(answers: list[SinkAnswer]) -> SinkRefused:
    [answer] = answers
    assert isinstance(answer, SinkRefused)
    return answer


async def test_an_event_arrives_structured(node: Node, broker: MqttBroker) -> None:
    await contract.check_content_mode(node, broker, "catalog/changes", "structured")


async def test_an_event_arrives_binary(node: Node, mqtt5: MqttBroker) -> None:
    await contract.check_content_mode(node, mqtt5, "catalog/changes", "binary")


async def test_no_event_is_lost_while_the_server_restarts(node: Node, broker: MqttBroker) -> None:
    await contract.check_restart(node, broker, "catalog/changes")


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_message_has_the_quality_of_service_that_was_asked_for(
    broker: MqttBroker, qos: int
) -> None:
    """The reader gets a message with the lower of what it was sent with and what it asks for."""
    numbers = range(1, 151)
    protocol = f"MQTT{broker.version}"
    subscription = subscription_to(protocol, broker.server.url, topicname="a", qos=qos)
    async with open_sink(subscription) as sink:
        for first in range(1, 151, sink.most_events):
            events = [event(each) for each in numbers[first - 1 : first - 1 + sink.most_events]]
            answers = await sink.send(events)
            assert all(isinstance(each, Delivered) for each in answers)
            assert len(answers) == len(events)
    messages = await broker.read_messages("a", 150)
    assert {message.qos for message in messages} == {qos}
    assert [parse_message(each).get_data()["number"] for each in messages] == [*numbers]


async def test_a_send_that_is_cancelled_ends_at_once_and_harms_no_other(
    broker: MqttBroker,
) -> None:
    protocol = f"MQTT{broker.version}"
    subscription = subscription_to(protocol, broker.server.url, topicname="a", qos=2)
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
        await sink.send([event(50)])
    # What was left behind by a cancellation may have come as well, in its order.
    came: list[int] = []
    while 50 not in came:
        messages = await broker.read_messages("a", len(came) + 1)
        came = [parse_message(each).get_data()["number"] for each in messages]
    assert [*dict.fromkeys(came)] == [*range(51)]


async def test_expiry_and_user_properties_are_sent(mqtt5: MqttBroker) -> None:
    await send(
        "MQTT5",
        mqtt5.server.url,
        topicname="a",
        contentmode="structured",
        expiry=100,
        userproperties={"site": "Zürich"},
    )
    [message] = await mqtt5.read_messages("a", 1)
    assert message.properties is not None
    assert message.properties.UserProperty == [("site", "Zürich")]
    assert 0 < message.properties.MessageExpiryInterval <= 100
    assert message.properties.ContentType == "application/cloudevents+json; charset=utf-8"


async def test_an_attribute_of_the_event_counts_more_than_a_user_property(
    mqtt5: MqttBroker,
) -> None:
    settings = {"topicname": "a", "userproperties": {"epoch": "mine", "site": "b"}}
    subscription = subscription_to("MQTT5", mqtt5.server.url, **settings)
    async with open_sink(subscription) as sink:
        await sink.send([event(1, epoch="7")])
    [message] = await mqtt5.read_messages("a", 1)
    assert message.properties is not None
    found = message.properties.UserProperty
    assert [pair for pair in found if pair[0] in ("epoch", "site")] == [
        ("epoch", "7"),
        ("site", "b"),
    ]


@pytest.mark.parametrize("protocol", ["MQTT5", "MQTT3"])
async def test_a_retained_message_is_there_for_readers_that_come_later(
    mosquitto: Mosquitto, protocol: str
) -> None:
    await send(protocol, mosquitto.url, 1, 2, topicname="kept", retain=True)
    await send(protocol, mosquitto.url, 3, topicname="passing")
    async with read_topics(mosquitto, 5) as late:
        await send("MQTT5", mosquitto.url, 4, topicname="last")
        await late.read_messages("last", 1)
    first = late.messages[0]
    assert (str(first.topic), first.retain) == ("kept", True)
    assert "passing" not in [str(each.topic) for each in late.messages]


@pytest.mark.parametrize("protocol", ["MQTT5", "MQTT3"])
async def test_a_user_with_a_password_may_publish(mosquitto: Mosquitto, protocol: str) -> None:
    credential = PlainCredential(identifier=USER, secret=PASSWORD)
    url, topic = mosquitto.guarded_url, "allowed/a"
    [answer] = await send(protocol, url, topicname=topic, credential=credential)
    assert isinstance(answer, Delivered)

    wrong = PlainCredential(identifier=USER, secret="another")
    for refused in (wrong, None):
        answer = refusal(await send(protocol, url, topicname=topic, credential=refused))
        assert answer.reason == "the sink refused the connection: Not authorized"
        assert not answer.is_final


@pytest.mark.parametrize("qos", [1, 2])
async def test_an_event_that_the_server_does_not_authorize_is_not_delivered(
    mosquitto: Mosquitto, qos: int
) -> None:
    credential = PlainCredential(identifier=USER, secret=PASSWORD)
    settings = {"topicname": "forbidden", "qos": qos, "credential": credential}
    answer = refusal(await send("MQTT5", mosquitto.guarded_url, 1, 2, 3, **settings))
    assert answer.reason == "the sink answered: Not authorized"
    assert not answer.is_final


@pytest.mark.parametrize("protocol", ["MQTT5", "MQTT3"])
async def test_tls_trusts_the_authority_that_the_subscription_names(
    mosquitto: Mosquitto, protocol: str
) -> None:
    url, settings = mosquitto.tls_url, {"topicname": "a"}
    trusted = {**settings, "cacertificate": mosquitto.authority}
    answers = await send(protocol, url, *range(1, 101), **trusted)
    assert [type(each) for each in answers] == [Delivered] * 100

    answer = refusal(await send(protocol, url, **settings))
    assert answer.reason.startswith("the sink and this node agree on no TLS connection")


async def test_an_event_that_is_too_large_can_never_succeed(mqtt5: MqttBroker) -> None:
    subscription = subscription_to("MQTT5", mqtt5.server.url, topicname="a")
    large = event(2, data={"text": "x" * mqtt5.server.packet_bytes})
    async with open_sink(subscription) as sink:
        answers = await sink.send([event(1), large, event(3)])
        assert [type(each) for each in answers] == [Delivered, SinkRefused]
        assert isinstance(answers[1], SinkRefused)
        assert answers[1].is_final
        await sink.send([event(3)])
    events = await mqtt5.read("a", 2)
    # What came after it in the order of the subject was not sent before it was decided about.
    assert [each.get_data()["number"] for each in events] == [1, 3]


async def test_an_attribute_that_no_property_can_hold_can_never_succeed(
    mosquitto: Mosquitto,
) -> None:
    subscription = subscription_to("MQTT5", mosquitto.url, topicname="a")
    async with open_sink(subscription) as sink:
        [answer] = await sink.send([event(1, long="x" * 70_000)])
    assert isinstance(answer, SinkRefused)
    assert answer.is_final


async def test_a_name_is_checked_by_the_address_that_is_connected_to(
    mqtt5: MqttBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = mqtt5.server
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (server.host, server.port))]
    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *a, **b: found if host == "a.example" else real(host, *a, **b),
    )
    url = f"mqtt://a.example:{server.port}"
    answer = refusal(await send("MQTT5", url, 1, topicname="a", node=GUARDED))
    assert UNREACHABLE in answer.reason
    assert "not a public address" in answer.cause

    [allowed] = await send("MQTT5", url, 2, topicname="a", node=OPEN)
    assert isinstance(allowed, Delivered)
    [came] = await mqtt5.read("a", 1)
    assert came.get_data() == {"number": 2}


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (b"", "the sink cannot be reached: no answer in time"),
        # An acceptance of the connection, and never an answer again.
        (b"\x20\x03\x00\x00\x00", "the sink did not answer in time"),
        # An acceptance of the connection, and then a packet of 256 MB.
        (b"\x20\x03\x00\x00\x00\x40\xff\xff\xff\x7f" + b"x" * 1000, "ended the connection"),
        # A message that nobody asked for, and a ping, which only clients send.
        (b"\x20\x03\x00\x00\x00\x30\x03\x00\x01a", "ended the connection"),
        (b"\x20\x03\x00\x00\x00\xc0\x00", "ended the connection"),
        # Answers to nothing, and answers that are cut short.
        (b"\x20\x03\x00\x00\x00\x50\x02\x00\x09", "ended the connection"),
        (b"\x20\x03\x00\x00\x00\x40\x01\x00", "ended the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the sink cannot be reached"),
    ],
)
async def test_a_server_that_speaks_no_mqtt_is_left(says: bytes, reason: str) -> None:
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(says)
        with contextlib.suppress(ConnectionError):
            while await reader.read(1000):
                pass
        writer.close()
        ended.set()

    impatient = Settings(allow_private_addresses=True, delivery_timeout_seconds=2)
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"mqtt://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        answer = refusal(await send("MQTT5", url, topicname="a", node=impatient))
        async with asyncio.timeout(10):
            await ended.wait()
    assert reason in answer.reason


TOPIC = {"topicname": "a"}


async def test_a_sink_that_is_no_mqtt_server_is_refused(node: Node) -> None:
    body = {"protocol": "MQTT5", "protocolsettings": TOPIC}
    for sink in (
        *("http://127.0.0.1", "mqtt://", "mqtt://169.254.169.254", "mqtt://user:pass@127.0.0.1"),
        *("mqtt://127.0.0.1/a", "mqtt://127.0.0.1?a=b", "mqtt://127.0.0.1#a", "mqtt://[::1"),
    ):
        answer = await node.send("POST", "/subscriptions", {**body, "sink": sink})
        assert answer.status == 400, answer.body
        assert answer.json["args"]["name"] == "sink"
    assert (await node.get("/subscriptions")) == []


async def test_a_certificate_needs_tls_and_is_shown(node: Node, mosquitto: Mosquitto) -> None:
    settings = {**TOPIC, "cacertificate": mosquitto.authority, "userproperties": {"a": "hidden"}}
    body = {"protocol": "MQTT5", "sink": "mqtt://127.0.0.1", "protocolsettings": settings}
    refused = await node.send("POST", "/subscriptions", body)
    assert refused.status == 400
    assert "mqtts" in refused.body.decode()

    created = await node.send("POST", "/subscriptions", {**body, "sink": "mqtts://127.0.0.1"})
    assert created.status == 201, created.body
    assert created.json["protocolsettings"] == {
        **settings,
        "userproperties": {"a": "***"},
        "qos": 1,
        "retain": False,
        "contentmode": "binary",
    }
