"""Two regions: what is produced in one is consumed in the other one when the first is gone."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaRegistryError,
    header_schema_id_serializer,
    topic_record_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from schema_registry.client import SchemaRegistryClient
from schema_registry.serializers import AvroMessageSerializer

from catalog.operations.links import NewLink
from tests.brokers.kafka import KafkaBroker
from tests.confluent.programs import golang, javascript
from tests.confluent.shop import AVRO_CUSTOMER, FORMATS, ORDERS
from tests.confluent.test_javascript import SCHEMAS, order_wishes
from tests.confluent.topics import Topic, opened_registry
from tests.e2e.nodes import NodeProcess, node_at, running, until

_HEADED = {
    "auto.register.schemas": False,
    "use.latest.version": True,
    "schema.id.serializer": header_schema_id_serializer,
}


@dataclass(frozen=True, slots=True)
class _Produced:
    """Topics with orders in each format, by id and by GUID, and messages of KafkaJS's client."""

    topics: Mapping[str, Topic]
    messages: Sequence[str]


@pytest.mark.timeout(400)  # Kafka and the clients start with it if it runs alone
async def test_messages_of_a_lost_region_are_read_with_the_catalog_of_another_one(
    tmp_path: Path, kafka: KafkaBroker
) -> None:
    """In all formats, with references, and by every client. Producers go on in the second region,
    where their schemas are known and keep their ids; a new one is refused under their subjects."""
    here, there = (_node(tmp_path, name) for name in ("eu", "us"))
    async with running(here, there):
        async with there.client() as client:
            await client.add_link(NewLink(source=here.url))
        produced = await asyncio.to_thread(_produce, here, kafka.address)
        await until(lambda: _has_all(there, here), what="the replica")
        await here.end(signal.SIGKILL)
        await asyncio.to_thread(_consume, there, produced, _url(here))
        await asyncio.to_thread(_go_on, there, produced)


def _node(directory: Path, region: str) -> NodeProcess:
    (directory / region).mkdir()
    # The name of the authority decides about its ids; that by default has the port, a random one.
    return node_at(
        directory / region,
        CONCORD_CONFLUENT_GROUP=region,
        CONCORD_AUTHORITY=f"https://{region}.example",
    )


async def _has_all(replica: NodeProcess, node: NodeProcess) -> bool:
    held = []
    for each in (node, replica):
        async with each.client() as client:
            rows = await client.digest_rows()
        held.append({(row.authority, row.origin, row.epoch, row.digest) for row in rows})
    return held[0] <= held[1]


def _url(node: NodeProcess) -> str:
    return f"{node.url}/confluent"


def _produce(node: NodeProcess, broker: str) -> _Produced:
    topics = {}
    with opened_registry(_url(node)) as registry:
        for each in FORMATS:
            topics[each.name] = topic = Topic.create(broker, f"regions-{each}")
            customer = f"{topic.name}-customer"
            topic.send(ORDERS, each.serializer(registry, customer))
            topic.send(ORDERS, each.serializer(registry, customer, **_HEADED))
    client = javascript()
    done = [client.ask(host=_url(node), register=order_wishes(type)) for type in SCHEMAS]
    return _Produced(topics, [each["registered"][1]["message"] for each in done])


def _consume(node: NodeProcess, produced: _Produced, lost: str) -> None:
    with opened_registry(_url(node)) as registry:
        for each in FORMATS:
            read = produced.topics[each.name].read(4, each.deserializer(registry))
            assert read == [*ORDERS, *ORDERS]
    # As a client does that was given the URLs of both regions. It would wait before it goes on.
    with opened_registry(f"{lost},{_url(node)}", **{"max.retries": 0}) as registry:
        avro = FORMATS[0].deserializer(registry)
        assert produced.topics["avro"].read(2, avro) == list(ORDERS)
    decoded = javascript().ask(host=_url(node), decode=produced.messages)["decoded"]
    assert decoded == [ORDERS[0]] * len(SCHEMAS)
    message = base64.b64encode(produced.topics["json"].read(1)[0]).decode()
    wishes = [{"call": "decode", "message": message}]
    [answer] = golang().ask(url=_url(node), wishes=wishes)["answers"]
    assert answer["value"] == ORDERS[0]
    # It resolves no references.
    python = SchemaRegistryClient(url=_url(node))
    with opened_registry(_url(node)) as registry:
        customer = registry.get_latest_version(f"{produced.topics['avro'].name}-customer")
    held = python.get_by_id(customer.schema_id)
    assert held is not None
    serializer = AvroMessageSerializer(python)
    value = ORDERS[0]["customer"]
    encoded = serializer.encode_record_with_schema_id(customer.schema_id, value)
    assert serializer.decode_message(encoded) == value


def _go_on(node: NodeProcess, produced: _Produced) -> None:
    with opened_registry(_url(node)) as registry:
        for each in FORMATS:
            topic = produced.topics[each.name]
            topic.send(ORDERS[:1], each.serializer(registry, f"{topic.name}-customer"))
            assert topic.read(5, each.deserializer(registry))[4] == ORDERS[0]
        with pytest.raises(SchemaRegistryError, match=r"https://eu\.example") as refused:
            registry.register_schema(produced.topics["avro"].subject, Schema('"string"'))
        assert (refused.value.http_status_code, refused.value.error_code) == (422, 42205)
        held = registry.get_latest_version(f"{produced.topics['avro'].name}-customer")
        own = registry.register_schema("own-value", Schema(json.dumps(AVRO_CUSTOMER)))
        assert own == held.schema_id


async def test_regions_that_write_to_one_topic_read_what_the_other_one_has_written(
    tmp_path: Path, kafka: KafkaBroker
) -> None:
    """Each allocates ids without asking the other one; no id means two schemas."""
    nodes = [_node(tmp_path, name) for name in ("eu", "us")]
    topic = await asyncio.to_thread(Topic.create, kafka.address, "both")
    async with running(*nodes):
        for node, other in (nodes, reversed(nodes)):
            async with node.client() as client:
                await client.add_link(NewLink(source=other.url))
        values = [{"eu": index} if index % 2 == 0 else {"us": index} for index in range(10)]
        await asyncio.to_thread(_write_in_turns, nodes, topic, values)
        for node, other in (nodes, reversed(nodes)):
            await until(lambda here=node, there=other: _has_all(here, there), what="the replica")
        for node in nodes:
            with opened_registry(_url(node)) as registry:
                read = await asyncio.to_thread(topic.read, 10, AvroDeserializer(registry))
            assert read == values


def _write_in_turns(
    nodes: Sequence[NodeProcess], topic: Topic, values: Sequence[dict[str, int]]
) -> None:
    """Write each value with a schema of its own, which its region has registered."""
    with contextlib.ExitStack() as stack:
        registries = [stack.enter_context(opened_registry(_url(node))) for node in nodes]
        for index, value in enumerate(values):
            [region] = value
            field = {"name": region, "type": "int"}
            text = {"type": "record", "name": f"{region}{index}", "fields": [field]}
            serializer = AvroSerializer(
                registries[index % 2],
                json.dumps(text),
                conf={"subject.name.strategy": topic_record_subject_name_strategy},
            )
            topic.send([value], serializer)
