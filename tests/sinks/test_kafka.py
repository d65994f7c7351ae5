"""Kafka sinks against a real broker, read back with aiokafka's consumer and the SDK."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.v1.event import CloudEvent

from catalog.model.credentials import PlainCredential, SinkCredential, TokenCredential
from catalog.settings import Settings
from catalog.store.changes import Position
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.protocols import KafkaSettings
from catalog.subscriptions.sinks.sink import Delivered, Sink, SinkAnswer, SinkRefused, Sinks
from catalog.subscriptions.stored.subscriptions import Subscription, SubscriptionDefinition
from tests.brokers.kafka import (
    ELSEWHERE,
    PASSWORD,
    USER,
    VARIABLE,
    KafkaBroker,
)
from tests.integration.conftest import Node
from tests.sinks.contract import (
    GROUPS,
    check_content_mode,
    check_restart,
    subscribe,
)

BOB = PlainCredential(identifier=USER, secret=PASSWORD)
_numbers = itertools.count()


@pytest.fixture
def own_kafka(kafka: KafkaBroker) -> KafkaBroker:
    """A broker that the test can kill, and that has listeners of every kind."""
    if kafka.server is None:
        pytest.skip(f"the broker of {VARIABLE} cannot be killed, and has one listener only")
    return kafka


@pytest.fixture
def topic() -> str:
    return f"topic-{secrets.token_hex(4)}"


@pytest.fixture
async def connections() -> AsyncIterator[Sinks]:
    async with Sinks(Settings(allow_private_addresses=True)) as opened:
        yield opened


def sink_of(
    connections: Sinks,
    sink: str,
    credential: SinkCredential | None = None,
    **settings: Any,
) -> Sink:
    definition = SubscriptionDefinition(
        sink=sink, protocol="KAFKA", settings=KafkaSettings(**settings).model_dump()
    )
    return connections.open(
        Subscription(
            id="s",
            revision=1,
            definition=definition,
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
    )


def event(subject: str = "/a", *, size: int = 0, interaction: str = "i") -> OutgoingEvent:
    attributes = {
        "id": str(next(_numbers)),
        "source": "http://node.example/",
        "type": "io.xregistry.group.updated",
        "subject": subject,
        "time": datetime.now(UTC),
        "datacontenttype": "application/json",
        "xregcorrelationid": interaction,
    }
    return OutgoingEvent(CloudEvent(attributes, {"x": secrets.token_hex(size // 2)}))


def refusal(answer: SinkAnswer) -> SinkRefused:
    assert isinstance(answer, SinkRefused), answer
    return answer


def all_delivered(answers: Any, count: int) -> bool:
    return len(answers) == count and all(isinstance(each, Delivered) for each in answers)


@pytest.mark.parametrize("contentmode", ["binary", "structured"])
async def test_an_event_arrives_whole(
    node: Node, kafka: KafkaBroker, topic: str, contentmode: str
) -> None:
    await check_content_mode(node, kafka, topic, contentmode)


async def test_nothing_is_lost_while_the_broker_is_killed(
    node: Node, own_kafka: KafkaBroker, topic: str
) -> None:
    await check_restart(node, own_kafka, topic)


async def test_events_of_an_interaction_stay_together_and_in_order(
    node: Node, kafka: KafkaBroker, topic: str
) -> None:
    await subscribe(node, kafka, topic, "binary")
    for round_number in range(4):
        groups = {f"g{number}": {"name": str(round_number)} for number in range(60)}
        answer = await node.send("POST", "/", {"messagegroups": groups})
        assert answer.status == 200, answer.body
    records = await kafka.records(topic, 240)

    by_partition, by_subject = defaultdict(list), defaultdict(list)
    for record in records:
        headers = dict(record.headers)
        assert record.key == headers["ce_subject"]
        by_partition[record.partition].append(headers["ce_xregcorrelationid"])
        by_subject[record.key].append(headers["ce_sequence"])
    assert len(by_partition) == 4
    for interactions in by_partition.values():
        assert len([*itertools.groupby(interactions)]) == 4
    logged = [each for each in await node.changes() if each.change.xid.startswith("/messagegroups")]
    assert by_subject == {
        f"/messagegroups/g{number}".encode(): [
            str(each.position).encode()
            for each in logged
            if each.change.xid == f"/messagegroups/g{number}"
        ]
        for number in range(60)
    }


@pytest.mark.parametrize("acks", ["0", "1", "all"])
async def test_each_level_of_acknowledgement_delivers(
    kafka: KafkaBroker, topic: str, connections: Sinks, acks: str
) -> None:
    url = f"kafka://{kafka.address}/{topic}"
    # A topic that does not exist yet takes nothing that nobody waits for.
    assert all_delivered(await sink_of(connections, url).send([event()]), 1)

    answers = await sink_of(connections, url, acks=acks).send([event() for _ in range(10)])

    assert all_delivered(answers, 10)
    assert len(await kafka.records(topic, 11)) == 11


@pytest.mark.parametrize("mechanism", [None, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_password_is_proven_by_each_mechanism(
    own_kafka: KafkaBroker, topic: str, connections: Sinks, mechanism: str | None
) -> None:
    url = f"kafka://{own_kafka.sasl}/{topic}"
    sink = sink_of(connections, url, BOB, saslmechanism=mechanism)

    assert all_delivered(await sink.send([event()]), 1)


async def shown_with_error(node: Node, path: str) -> Any:
    async with asyncio.timeout(60):
        while not (shown := await node.get(path))["status"].get("error"):
            await asyncio.sleep(0.05)  # between two looks at the progress
    return shown


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_wrong_password_is_told_without_it(
    node: Node, own_kafka: KafkaBroker, topic: str, mechanism: str, capfd: Any
) -> None:
    body = own_kafka.subscription(topic, "binary")
    body["sink"] = f"kafka://{own_kafka.sasl}/{topic}"
    body["protocolsettings"]["saslmechanism"] = mechanism
    body["sinkcredential"] = {
        "credentialtype": "PLAIN",
        "identifier": USER,
        "secret": "wr0ng-pass",
    }
    created = await node.send("POST", "/subscriptions", body)
    assert created.status == 201, created.body
    path = f"/subscriptions/{created.json['id']}"
    await node.put(GROUPS[0])

    shown = await shown_with_error(node, path)

    assert shown["status"]["error"] == "the broker refused the sink credential"
    assert "wr0ng-pass" not in json.dumps(shown)
    assert "wr0ng-pass" not in "".join(capfd.readouterr())


async def test_tls_with_an_authority_of_its_own(
    own_kafka: KafkaBroker, topic: str, connections: Sinks
) -> None:
    url = f"kafkas://{own_kafka.tls}/{topic}"

    known = await sink_of(connections, url, cacertificate=own_kafka.authority).send([event()])
    [unknown] = await sink_of(connections, url).send([event()])

    assert all_delivered(known, 1)
    assert refusal(unknown).reason.startswith("the sink and this node agree on no TLS connection")


def unsecured_token(*, seconds: float) -> str:
    """A token without a signature, as the broker of these tests takes them (RFC 7519 6)."""
    now = datetime.now(UTC).timestamp()
    parts = ({"alg": "none"}, {"sub": "bob", "iat": now - 60, "exp": now + seconds})
    encoded = (base64.urlsafe_b64encode(json.dumps(each).encode()).decode() for each in parts)
    return ".".join(each.rstrip("=") for each in encoded) + "."


async def test_a_token_is_sent_over_tls(
    own_kafka: KafkaBroker, topic: str, connections: Sinks
) -> None:
    url = f"kafkas://{own_kafka.tokens}/{topic}"

    async def send(token: str) -> SinkAnswer:
        credential = TokenCredential(token=token)
        sink = sink_of(connections, url, credential, cacertificate=own_kafka.authority)
        return (await sink.send([event()]))[0]

    assert isinstance(await send(unsecured_token(seconds=600)), Delivered)
    found = refusal(await send(unsecured_token(seconds=-30)))
    assert found.reason == "the broker refused the sink credential"
    assert found.is_unauthorized


async def test_a_record_that_is_too_large_is_refused_for_good_and_no_other(
    kafka: KafkaBroker, topic: str, connections: Sinks
) -> None:
    sink = sink_of(connections, f"kafka://{kafka.address}/{topic}")
    events = [event(), event(size=3_000_000), event()]

    first = await sink.send(events)
    rest = await sink.send(events[2:])

    assert isinstance(first[0], Delivered)
    assert refusal(first[1]).is_final
    assert len(first) == 2
    assert all_delivered(rest, 1)


async def test_records_that_are_too_large_together_are_sent_in_smaller_batches(
    kafka: KafkaBroker, topic: str, connections: Sinks
) -> None:
    await kafka.create_topic(topic, max_message_bytes="4000")
    sink = sink_of(connections, f"kafka://{kafka.address}/{topic}")

    answers = await sink.send([event(f"/{number % 5}", size=1000) for number in range(40)])

    assert all_delivered(answers, 40)
    assert len({each.value for each in await kafka.records(topic, 40)}) == 40


async def test_a_broker_at_an_address_that_is_not_allowed_is_not_connected_to(
    own_kafka: KafkaBroker, topic: str, connections: Sinks
) -> None:
    url = f"kafka://{own_kafka.elsewhere}/{topic}"
    assert all_delivered(await sink_of(connections, url).send([event()]), 1)
    settings = Settings(
        allow_private_addresses=False,
        allowed_addresses=("127.0.0.1/32",),
        delivery_timeout_seconds=2,
    )
    async with Sinks(settings) as guarded:
        [answer] = await sink_of(guarded, url).send([event()])

    # The servers of the URL are allowed; those that they name are not.
    assert f"AddressRefused: [Errno 13] {ELSEWHERE}" in refusal(answer).cause
    assert ELSEWHERE not in refusal(answer).reason
    assert "cannot be reached" in refusal(answer).reason
    assert len(await own_kafka.records(topic, 1)) == 1


async def test_what_a_sink_gave_up_is_not_sent_later_by_itself(
    own_kafka: KafkaBroker, topic: str
) -> None:
    settings = Settings(allow_private_addresses=True, delivery_timeout_seconds=2)
    async with Sinks(settings) as opened:
        sink = sink_of(opened, f"kafka://{own_kafka.address}/{topic}")
        assert all_delivered(await sink.send([event("/first")]), 1)
        await own_kafka.kill()

        given_up = await sink.send([event("/given-up")])
        unreachable = await sink.send([event("/given-up")])
        sending = asyncio.create_task(sink.send([event("/cancelled")]))
        await asyncio.sleep(0)
        sending.cancel()
        await asyncio.wait([sending])
        await own_kafka.start()
        again = await sink.send([event("/last")])

    assert "acknowledge in time" in refusal(given_up[0]).reason or (
        "cannot be reached" in refusal(given_up[0]).reason
    )
    assert "cannot be reached" in refusal(unreachable[0]).reason
    assert all_delivered(again, 1)
    assert {each.key for each in await own_kafka.records(topic, 2)} == {b"/first", b"/last"}
