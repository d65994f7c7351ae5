"""`concord discover` proposes definitions for what a real Kafka and a real registry have."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiokafka import AIOKafkaProducer
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.common.serde import SubjectNameStrategyType

from tests.brokers.kafka import KafkaBroker
from tests.confluent.topics import Topic

pytestmark = pytest.mark.timeout(300)

PLACED = "shop.order.placed"
SHIPPED = "shop.order.shipped"
RECORD = {"type": "record", "name": "shop.Stock", "fields": [{"name": "left", "type": "int"}]}


def concord(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "catalog.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture
def topics(kafka: KafkaBroker, request: pytest.FixtureRequest) -> dict[str, Topic]:
    names = ("events", "records", "empty")
    return {name: Topic.create(kafka.address, f"shop.{name}") for name in names}


async def send_events(broker: str, topic: str) -> None:
    binary = {
        "ce_specversion": "1.0", "ce_id": "1", "ce_source": "/shop/1", "ce_type": PLACED,
        "content-type": "application/json", "ce_dataschema": "https://shop.example/order.json",
    }  # fmt: skip
    headers = [(name, value.encode()) for name, value in binary.items()]
    structured = {"specversion": "1.0", "id": "2", "type": SHIPPED, "data": {}}
    async with AIOKafkaProducer(bootstrap_servers=broker) as producer:
        for _ in range(3):
            await producer.send_and_wait(topic, b"{}", headers=headers)
        for source in ("/shop/1", "/shop/2"):
            value = json.dumps({**structured, "source": source}).encode()
            kind = [("content-type", b"application/cloudevents+json; charset=utf-8")]
            await producer.send_and_wait(topic, value, headers=kind)
        # Neither is an event, though each begins like one.
        await producer.send_and_wait(topic, b"{not json", headers=kind)
        await producer.send_and_wait(topic, b"x", headers=[("ce_type", b"lonely")])


def test_topics_become_endpoints_and_messages_and_a_second_run_says_what_is_new(
    kafka: KafkaBroker,
    registry: SchemaRegistryClient,
    registry_url: str,
    topics: dict[str, Topic],
    tmp_path: Path,
) -> None:
    events, records, empty = (topics[name].name for name in ("events", "records", "empty"))
    asyncio.run(send_events(kafka.address, events))
    strategy = {"subject.name.strategy.type": SubjectNameStrategyType.RECORD}
    serializer = AvroSerializer(registry, json.dumps(RECORD), conf=strategy)
    topics["records"].send([{"left": 1}, {"left": 2}], serializer)

    file = tmp_path / "topics.yaml"
    asked = ["discover", f"kafka://{kafka.address}", "--registry", registry_url]
    asked += [word for topic in topics.values() for word in ("--topic", topic.name)]
    done = concord(*asked, "-o", str(file))
    assert done.returncode == 0, done.stderr
    proposed: dict[str, Any] = yaml.safe_load(file.read_text())
    messages = {id: group["messages"] for id, group in proposed["messagegroups"].items()}
    assert {id: {*found} for id, found in messages.items()} == {
        events: {PLACED, SHIPPED},
        records: {"shop.Stock"},
        empty: set(),
    }
    placed = messages[events][PLACED]
    assert placed["envelopemetadata"] == {"type": {"value": PLACED}, "source": {"value": "/shop/1"}}
    assert placed["dataschemauri"] == "https://shop.example/order.json"
    assert "source" not in messages[events][SHIPPED]["envelopemetadata"]
    stock = messages[records]["shop.Stock"]
    assert stock["dataschemauri"] == f"{registry_url}/subjects/shop.Stock/versions/1/schema"
    assert "3 CloudEvents of this type" in done.stderr
    assert "2 values with the schema id" in done.stderr
    assert "1 partition, no records" in done.stderr

    node = registry_url.removesuffix("/confluent")
    assert (imported := concord("import", str(file), "--url", node)).returncode == 0, imported
    gone = {**proposed["endpoints"][events], "protocoloptions": {"topic": "shop.gone"}}
    file.write_text(yaml.safe_dump({"specversion": "1.0-rc4", "endpoints": {"gone": gone}}))
    assert (imported := concord("import", str(file), "--url", node)).returncode == 0, imported
    again = concord(*asked, "--against", node, "--records", "0")
    assert "shop.gone" not in again.stderr, "nobody asked for the topic"
    assert f"names the topic {events}" not in again.stderr, "it has records, though none was read"
    again = concord(*asked, "--against", node, "--topic", "shop.gone")
    assert yaml.safe_load(again.stdout)["endpoints"] == {}
    assert "There is no new topic." in again.stderr
    assert f"/endpoints/{empty} names the topic {empty}, which has no records." in again.stderr
    assert "names the topic shop.gone, which was not found." in again.stderr


def test_schema_ids_in_headers_are_found_and_payloads_give_schemas_where_that_is_asked_for(
    kafka: KafkaBroker, registry: SchemaRegistryClient, registry_url: str
) -> None:
    names = ("headers", "events", "plain", "text")
    headers, events, plain, text = (Topic.create(kafka.address, f"shop.{n}") for n in names)
    conf = {"schema.id.serializer": header_schema_id_serializer}
    headers.send([{"left": 1}], AvroSerializer(registry, json.dumps(RECORD), conf=conf))
    asyncio.run(send_events(kafka.address, events.name))
    plain.send([b'{"id": 1, "note": "secret"}', b'{"id": 2}'])
    text.send([b"not JSON"])
    asked = ["discover", f"kafka://{kafka.address}", "--registry", registry_url]
    for topic in (headers, events, plain, text):
        asked += ["--topic", topic.name]
    done = concord(*asked)
    assert done.returncode == 0, done.stderr
    proposed: dict[str, Any] = yaml.safe_load(done.stdout)
    assert "schemagroups" not in proposed
    messages = proposed["messagegroups"][headers.name]["messages"]
    url = f"{registry_url}/subjects/{headers.subject}/versions/1/schema"
    assert [message["dataschemauri"] for message in messages.values()] == [url]
    assert proposed["messagegroups"][plain.name]["messages"] == {}

    done = concord(*asked, "--infer")
    assert done.returncode == 0, done.stderr
    proposed = yaml.safe_load(done.stdout)
    assert {*proposed["schemagroups"]} == {events.name, plain.name}
    message = proposed["messagegroups"][plain.name]["messages"][plain.name]
    assert message["dataschemauri"] == f"/schemagroups/{plain.name}/schemas/{plain.name}"
    schema = proposed["schemagroups"][plain.name]["schemas"][plain.name]["versions"]["1"]["schema"]
    assert (schema["required"], {*schema["properties"]}) == (["id"], {"id", "note"})
    assert "secret" not in done.stdout
    assert "inferred from 2 of 2 payloads, which have id 2, note 1" in done.stderr
    # What names a schema keeps it.
    shop = proposed["messagegroups"][events.name]["messages"]
    assert shop[PLACED]["dataschemauri"] == "https://shop.example/order.json"
    assert shop[SHIPPED]["dataschemauri"] == f"/schemagroups/{events.name}/schemas/{SHIPPED}"
    node = registry_url.removesuffix("/confluent")
    imported = subprocess.run(
        [sys.executable, "-m", "catalog.cli", "import", "-", "--url", node],
        input=done.stdout,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert imported.returncode == 0, imported.stderr


def test_a_cluster_that_is_not_there_is_named() -> None:
    done = concord("discover", "kafka://127.0.0.1:9")
    assert done.returncode == 2
    assert "127.0.0.1:9 cannot be read" in " ".join(done.stderr.split())
    done = concord("discover", "http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (2, "")
    assert "kafka://HOST:PORT" in done.stderr
