"""Events to an AMQP 1.0 server, read back by proton's own receiver."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip(
    "proton",
    reason="python-qpid-proton is not installed: install what compiles it, with: "
    "apt-get install gcc python3-dev; then run: make install",
)

from cloudevents.core.bindings.amqp import AMQPMessage, from_amqp_event
from cloudevents.core.v1.event import CloudEvent
from proton import Delivery, Message, Receiver, Terminus, Timeout
from proton.reactor import LinkOption
from proton.utils import BlockingConnection

from catalog.http.allowedaddresses import NOT_PUBLIC
from catalog.model.connectionfailure import UNREACHABLE
from catalog.model.credentials import PlainCredential
from catalog.settings import Settings
from catalog.subscriptions.sinks.sink import Delivered, SinkRefused, Sinks
from tests.brokers.amqppeer import receive_as_peer
from tests.brokers.rabbitmq import RabbitMq, run_rabbitmq
from tests.integration.conftest import Node
from tests.sinks import contract
from tests.sinks.contract import GROUPS
from tests.sinks.opened import GUARDED, OPEN, event, open_sink, subscription_to

_READ_SECONDS = 30


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMq]:
    with run_rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as server:
        yield server


class _DurableSource(LinkOption):
    """Asks for the durable queue that the node asked for."""

    def apply(self, link: Receiver) -> None:
        link.source.durability = Terminus.CONFIGURATION


@dataclass
class AmqpBroker:
    """The server, and proton's own client."""

    server: RabbitMq
    messages: dict[str, list[Message]] = field(default_factory=lambda: defaultdict(list))

    def subscription(self, topic: str, contentmode: str, **changed: Any) -> dict[str, Any]:
        return {
            "sink": f"amqp://{self.server.host}:{self.server.port}",
            "protocol": "AMQP",
            "filters": [{"prefix": {"subject": "/messagegroups"}}],
            "protocolsettings": {"address": f"/queue/{topic}", "contentmode": contentmode},
            "sinkcredential": {
                "credentialtype": "PLAIN",
                "identifier": self.server.user,
                "secret": self.server.password,
            },
            **changed,
        }

    async def read(self, topic: str, count: int) -> Sequence[CloudEvent]:
        await asyncio.to_thread(self._receive, topic, count)
        return [_parse(message) for message in self.messages[topic]]

    async def kill(self) -> None:
        await self.server.kill()

    async def start(self) -> None:
        await self.server.start()

    def _receive(self, topic: str, count: int) -> None:
        read = self.messages[topic]
        user, password = quote(self.server.user), quote(self.server.password)
        connection = BlockingConnection(
            f"amqp://{user}:{password}@{self.server.host}:{self.server.port}",
            timeout=_READ_SECONDS,
            allowed_mechs="PLAIN",
        )
        try:
            receiver = connection.create_receiver(
                f"/queue/{topic}", credit=100, options=_DurableSource()
            )
            while len(read) < count:
                read.append(receiver.receive(_READ_SECONDS))
                receiver.accept()
            while True:
                read.append(receiver.receive(0.5))
                receiver.accept()
        except Timeout:
            assert len(read) >= count
        finally:
            connection.close()


def _parse(message: Message) -> CloudEvent:
    return from_amqp_event(
        AMQPMessage(
            properties={"content-type": str(message.content_type)},
            application_properties=message.properties or {},
            application_data=bytes(message.body),
        )
    )


@pytest.fixture
def broker(rabbitmq: RabbitMq) -> AmqpBroker:
    return AmqpBroker(rabbitmq)


@pytest.fixture
def topic() -> str:
    return f"concord-{secrets.token_hex(4)}"


@pytest.mark.parametrize("contentmode", ["binary", "structured"])
async def test_an_event_arrives_whole_in_each_content_mode(
    node: Node, broker: AmqpBroker, topic: str, contentmode: str
) -> None:
    await contract.check_content_mode(node, broker, topic, contentmode)

    [message] = broker.messages[topic]
    assert message.durable
    if contentmode == "structured":
        assert message.content_type == "application/cloudevents+json"
        assert not message.properties
    else:
        assert message.content_type == "application/json"
        assert {name.partition("_")[0] for name in message.properties} == {"cloudEvents"}
        assert message.properties["cloudEvents_subject"] == GROUPS[0]
        # With its microseconds, which a timestamp of AMQP would lose.
        assert message.properties["cloudEvents_time"].endswith("Z")


async def test_nothing_is_lost_and_order_holds_while_the_server_is_killed(
    node: Node, broker: AmqpBroker, topic: str
) -> None:
    if broker.server.server is None:
        pytest.skip("the server is not one that this test may kill")
    await contract.check_restart(node, broker, topic)


async def test_a_wrong_password_is_told_without_the_password(
    node: Node, broker: AmqpBroker, topic: str
) -> None:
    wrong = {"credentialtype": "PLAIN", "identifier": "concord", "secret": "not-the-password"}
    body = broker.subscription(topic, "binary", sinkcredential=wrong)
    path = await _created(node, body)
    await node.put(GROUPS[0], {})

    assert await _failure(node, path) == "the sink did not accept the credential"


async def test_a_server_that_wants_a_credential_is_told_from_others(
    node: Node, broker: AmqpBroker, topic: str
) -> None:
    body = broker.subscription(topic, "binary")
    del body["sinkcredential"]
    path = await _created(node, body)
    await node.put(GROUPS[0], {})

    assert "lets in nobody without a credential" in await _failure(node, path)


async def test_a_missing_node_is_told_until_it_is_there(
    node: Node, broker: AmqpBroker, topic: str
) -> None:
    settings = {"address": f"/exchange/{topic}/key"}
    path = await _created(node, broker.subscription(topic, "binary", protocolsettings=settings))
    await node.put(GROUPS[0], {})

    assert await _failure(node, path) == "the sink has no node at the address (amqp:not-found)"


async def test_a_missing_address_is_told(node: Node, broker: AmqpBroker, topic: str) -> None:
    settings = {"address": "no/such/form"}
    path = await _created(node, broker.subscription(topic, "binary", protocolsettings=settings))
    await node.put(GROUPS[0], {})

    assert await _failure(node, path) == (
        "the sink did not open a link to the address (amqp:invalid-field)"
    )


async def test_a_certificate_of_the_settings_is_trusted(
    node: Node, broker: AmqpBroker, topic: str
) -> None:
    if broker.server.tls_port is None:
        pytest.skip("the server that the environment names has no TLS port here")
    settings = {"address": f"/queue/{topic}", "cacertificate": broker.server.authority}
    sink = f"amqps://{broker.server.host}:{broker.server.tls_port}"
    body = broker.subscription(topic, "binary", sink=sink, protocolsettings=settings)
    await _created(node, body)
    await node.put(GROUPS[0], {})

    [came] = await broker.read(topic, 1)
    assert came.get_subject() == GROUPS[0]


async def test_a_certificate_of_nobody_known_is_not_trusted(
    node: Node, broker: AmqpBroker, topic: str
) -> None:
    if broker.server.tls_port is None:
        pytest.skip("the server that the environment names has no TLS port here")
    sink = f"amqps://{broker.server.host}:{broker.server.tls_port}"
    path = await _created(node, broker.subscription(topic, "binary", sink=sink))
    await node.put(GROUPS[0], {})

    assert (await _failure(node, path)).startswith(
        "the sink and this node agree on no TLS connection"
    )


@pytest.mark.parametrize("mode", ["settled", "unsettled"])
async def test_the_path_names_the_node_and_a_link_may_have_a_name(
    node: Node, broker: AmqpBroker, topic: str, mode: str
) -> None:
    settings = {
        "linkname": "concord-link",
        "sendersettlementmode": mode,
        "linkproperties": {"purpose": "test", "number": 1, "is-test": True},
    }
    sink = f"amqp://{broker.server.host}:{broker.server.port}/%2Fqueue%2F{topic}"
    body = broker.subscription(topic, "binary", sink=sink, protocolsettings=settings)
    # Two of one name, on connections of their own.
    await _created(node, body)
    await _created(node, body)
    await node.put(GROUPS[0], {})

    events = await broker.read(topic, 2)
    assert len(events) == 2
    assert len({each.get_id() for each in events}) == 1


@pytest.mark.parametrize(
    ("outcome", "condition", "reason", "is_final"),
    [
        (Delivery.REJECTED, None, "the sink rejected the event", True),
        (
            Delivery.REJECTED,
            "amqp:not-allowed",
            "the sink rejected the event (amqp:not-allowed)",
            True,
        ),
        (
            Delivery.REJECTED,
            "amqp:resource-limit-exceeded",
            "the sink rejected the event (amqp:resource-limit-exceeded)",
            False,
        ),
        (Delivery.RELEASED, None, "the sink gave the event back without taking it", False),
        (Delivery.MODIFIED, None, "the sink gave the event back without taking it", False),
    ],
)
async def test_what_a_receiver_does_not_accept_holds_up_its_subject_alone(
    outcome: int, condition: str | None, reason: str, is_final: bool
) -> None:
    subjects = ("/a", "/b", "/a", "/a", "/c", "/b")
    events = [event(number, subject=subject) for number, subject in enumerate(subjects)]
    with receive_as_peer({"event-2": (outcome, condition)}) as peer:
        subscription = subscription_to("AMQP", f"amqp://127.0.0.1:{peer.port}/here")
        async with open_sink(subscription) as sink:
            answers = await sink.send(events)

            assert answers[:2] == [Delivered(detail="accepted")] * 2
            assert answers[2:] == [
                SinkRefused(reason=reason, cause=answers[2].cause, is_final=is_final)
            ]
            # On a link of its own.
            assert await sink.send(events[3:4]) == [Delivered(detail="accepted")]
    of_subject = [each for each in peer.received if each in ("event-0", "event-2", "event-3")]
    assert of_subject == ["event-0", "event-2", "event-3"]


async def test_a_server_that_says_nothing_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        subscription = subscription_to("AMQP", f"amqp://127.0.0.1:{silent.getsockname()[1]}/q")
        settings = Settings(allow_private_addresses=True, delivery_timeout_seconds=0.3)
        async with open_sink(subscription, settings) as sink:
            assert await sink.send([event(1)]) == [
                SinkRefused(
                    reason="the sink cannot be reached: no answer in time", cause="TimeoutError:"
                )
            ]


async def test_a_private_address_is_refused_when_it_is_connected_to() -> None:
    async with open_sink(subscription_to("AMQP", "amqp://localhost:1/q"), GUARDED) as sink:
        [answer] = await sink.send([event(1)])

    assert isinstance(answer, SinkRefused)
    assert answer.reason == f"the sink {UNREACHABLE}"
    assert NOT_PUBLIC in answer.cause


async def test_links_beyond_what_a_connection_has_take_the_place_of_idle_ones(
    broker: AmqpBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catalog.subscriptions.sinks.amqpconnection._MOST_LINKS", 2)
    subscription = subscription_to(
        "AMQP",
        f"amqp://{broker.server.host}:{broker.server.port}",
        PlainCredential(identifier=broker.server.user, secret=broker.server.password),
        address=f"/queue/{topic}",
    )
    async with Sinks(OPEN) as opened:
        sinks = [opened.open(subscription) for _ in range(3)]
        for sink in [*sinks, *sinks]:
            assert await sink.send([event(1)]) == [Delivered(detail="accepted")]
        for sink in sinks:
            await sink.close()

    assert len(await broker.read(topic, 6)) == 6


def _refused(body: dict[str, Any]) -> dict[str, Any]:
    return {"protocol": "AMQP", "sink": "amqp://127.0.0.1/queue", **body}


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"sink": "amqp://127.0.0.1"}, "protocolsettings.address"),
        ({"protocolsettings": {"address": "q"}}, "protocolsettings.address"),
        ({"sink": "http://127.0.0.1/queue"}, "sink"),
        ({"sink": "amqp://127.0.0.1/queue?a=b"}, "sink"),
        ({"sink": "amqp://127.0.0.1/a%00b"}, "sink"),
        ({"protocolsettings": {"contentmode": "batched"}}, "protocolsettings.contentmode"),
        (
            {"protocolsettings": {"sendersettlementmode": "mixed"}},
            "protocolsettings.sendersettlementmode",
        ),
        ({"protocolsettings": {"linkname": ""}}, "protocolsettings.linkname"),
        ({"protocolsettings": {"linkproperties": {"ü": 1}}}, "protocolsettings.linkproperties"),
        ({"protocolsettings": {"cacertificate": "no PEM"}}, "protocolsettings.cacertificate"),
        ({"protocolsettings": {"durable": True}}, "protocolsettings.durable"),
        (
            {
                "sinkcredential": {
                    "credentialtype": "ACCESSTOKEN",
                    "accesstoken": "x",
                    "accesstokenexpiresutc": "2999-01-01T00:00:00Z",
                    "accesstokentype": "Bearer",
                }
            },
            "sinkcredential.credentialtype",
        ),
    ],
)
async def test_what_cannot_be_is_refused_when_it_is_created(
    node: Node, body: dict[str, Any], name: str
) -> None:
    answer = await node.send("POST", "/subscriptions", _refused(body))

    assert answer.status == 400, answer.body
    assert name in answer.json["title"]


async def _created(node: Node, body: dict[str, Any]) -> str:
    answer = await node.send("POST", "/subscriptions", body)
    assert answer.status == 201, answer.body
    return f"/subscriptions/{answer.json['id']}"


async def _failure(node: Node, path: str) -> str:
    await contract.until_failing(node, path)
    error: str = (await node.get(path))["status"]["error"]
    return error
