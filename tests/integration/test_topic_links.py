"""Links over a topic of Kafka, between nodes that have no path to each other, by a real broker."""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions

from catalog.model.timestamps import format_time
from catalog.settings import Settings
from catalog.subscriptions.sinks.kafkasink import KafkaProducer, KafkaRecord
from replication.transfer.topic import Topic
from replication.transfer.topicrecords import (
    CHECKPOINT_KEY,
    TopicUnusable,
    newest_checkpoint,
    open_topic,
    read_checkpoint,
)
from tests.brokers.kafka import KafkaBroker
from tests.integration.conftest import Node
from tests.integration.federation import (
    authority_of,
    carries,
    databases,
    eventually,
    execute,
    link_history_is,
    link_is,
    own_rows,
    running,
    start_member,
    write_some,
)


@pytest.fixture
def topic() -> str:
    return f"copies-{secrets.token_hex(4)}"


@pytest.fixture
async def nodes(postgres_url: str, template: str) -> AsyncIterator[list[Node]]:
    """Three fresh nodes that do not know each other."""
    async with (
        databases(postgres_url, template, 3) as (one, two, three),
        start_member(one, pull_interval_seconds=0.5) as first,
        start_member(two, pull_interval_seconds=0.5) as second,
        start_member(three, pull_interval_seconds=0.5, link_delete_count=3) as third,
    ):
        yield [first, second, third]


def url_of(kafka: KafkaBroker, topic: str) -> str:
    return f"kafka://{kafka.address}/{topic}"


async def publish(source: Node, kafka: KafkaBroker, topic: str, **more: Any) -> None:
    """Let a node publish to a topic by its link `out`."""
    body = {"id": "out", "target": url_of(kafka, topic), "mode": "publish", **more}
    answer = await source.send("POST", "/replication/links", body)
    assert answer.status == 201, answer.body


async def follow(target: Node, kafka: KafkaBroker, topic: str, **more: Any) -> None:
    """Let a node follow a topic by its link `in`, though nobody may publish there yet."""
    body = {"id": "in", "source": url_of(kafka, topic), "mode": "kafka", **more}
    answer = await target.send("POST", "/replication/links?force", body)
    assert answer.status == 201, answer.body


async def append(kafka: KafkaBroker, topic: str, key: bytes, value: bytes | None) -> None:
    """Append a record as anybody may who has access to the topic."""
    async with AIOKafkaProducer(bootstrap_servers=kafka.address) as producer:
        await producer.send_and_wait(topic, value, key=key, partition=0)


async def administer(kafka: KafkaBroker, call: str, *arguments: Any) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.address)
    await admin.start()
    try:
        await getattr(admin, call)(*arguments)
    finally:
        await admin.close()


async def events_of(node: Node, id: str) -> list[str]:
    return [event["event"] for event in (await node.get(f"/replication/links/{id}"))["history"]]


async def shown(node: Node, id: str) -> dict[str, Any]:
    return dict(await node.get(f"/replication/links/{id}"))


async def conflicts_of(node: Node, id: str) -> list[dict[str, Any]]:
    return list((await node.get(f"/replication/links/{id}/conflicts"))["conflicts"])


async def everything_is_sent(source: Node) -> None:
    """Wait until a source, which has only added entities, has sent each of them."""
    count = len(await own_rows(source))

    async def is_so() -> bool:
        return bool((await shown(source, "out"))["applied"] >= count)

    await eventually(is_so, 60)


async def settled(target: Node, source: Node) -> None:
    await eventually(lambda: carries(target, source), 60)


async def copy_once(source: Node, target: Node, kafka: KafkaBroker, topic: str) -> None:
    """Let a source and a target meet in a topic, and run both until the first complete copy."""
    await publish(source, kafka, topic)
    await follow(target, kafka, topic)
    async with running(source, target):
        await settled(target, source)
        await link_history_is(target, "in", "copied")


async def test_what_is_there_and_every_change_comes_through_a_topic(
    nodes: list[Node], kafka: KafkaBroker, topic: str
) -> None:
    source, target, late = nodes
    await write_some(source, "g")
    await source.put("/messagegroups/gone", {})
    await source.send("DELETE", "/messagegroups/gone")
    await publish(source, kafka, topic)
    await follow(target, kafka, topic, authority=authority_of(source))
    async with running(*nodes):
        await settled(target, source)
        await link_is(target, "in", "current")
        await source.put("/messagegroups/g/messages/m0", {"description": "another"})
        await source.put("/messagegroups/h", {})
        await source.send("DELETE", "/messagegroups/g/messages/m1")
        await source.send("DELETE", "/schemagroups/g")
        await settled(target, source)
        # One that comes later reads the whole topic, in which the deleted ones still are.
        await follow(late, kafka, topic, authority=authority_of(source))
        await settled(late, source)
        await link_is(late, "in", "current")
    assert (await target.get("/messagegroups/g/messages/m0"))["description"] == "another"
    found = await shown(target, "in")
    assert (found["direction"], found["conflicts"], found.get("error")) == ("in", 0, None)
    assert await events_of(target, "in") == ["copied"]
    assert await events_of(source, "out") == ["published"]
    records = await kafka.records(topic, 1)
    assert all(record.value is not None for record in records)
    deleted = [r for r in records if r.key.endswith(b"\n/schemagroups/g")]
    assert orjson.loads(deleted[-1].value)["deleted"] is True


async def test_both_sides_go_on_from_where_they_were(
    nodes: list[Node], kafka: KafkaBroker, topic: str
) -> None:
    source, target, _ = nodes
    await write_some(source, "g0")
    await copy_once(source, target, kafka, topic)
    for number in range(1, 4):
        await write_some(source, f"g{number}")
        async with running(source):
            await everything_is_sent(source)
        async with running(target):
            await settled(target, source)
    created = [c.change.xid for c in await target.changes() if c.change.action == "created"]
    assert len(created) == len(set(created))
    assert (await events_of(source, "out"), await events_of(target, "in")) == (
        ["published"],
        ["copied"],
    )
    assert (await shown(target, "in"))["applied"] == len(await own_rows(source))


async def test_a_publisher_whose_broker_does_not_answer_is_not_current(
    postgres_url: str, template: str, kafka: KafkaBroker, topic: str
) -> None:
    if kafka.server is None:
        pytest.skip("the broker is not the test's own")
    async with (
        databases(postgres_url, template, 1) as (one,),
        start_member(
            one, pull_interval_seconds=60, delivery_timeout_seconds=2, backoff_cap_seconds=1
        ) as source,
    ):
        await write_some(source, "first")
        await publish(source, kafka, topic)
        async with running(source):
            await link_is(source, "out", "current")
            async with kafka.frozen():
                await source.put("/messagegroups/later")
                await link_is(source, "out", "waiting")
                link = await shown(source, "out")
                assert "did not answer" in link["error"] or "cannot be" in link["error"]
                assert link["lag"] > 0
            await link_is(source, "out", "current")
            await everything_is_sent(source)
        assert (await shown(source, "out"))["bytes"] > 1000


async def test_a_topic_that_was_deleted_is_written_anew(
    nodes: list[Node], kafka: KafkaBroker, topic: str
) -> None:
    source, target, late = nodes
    await write_some(source, "g")
    await publish(source, kafka, topic)
    await follow(target, kafka, topic)
    async with running(*nodes):
        await settled(target, source)
        await link_history_is(target, "in", "copied")
        await administer(kafka, "delete_topics", [topic])
        await link_history_is(source, "out", "published", "published")
        await source.put("/messagegroups/h", {})
        await settled(target, source)
        await follow(late, kafka, topic)
        await settled(late, source)
    assert "resynchronise" in await events_of(target, "in")
    assert (await shown(target, "in"))["conflicts"] == 0


async def _ask_for_bounds(reader: Topic, partitions: int) -> None:
    """Ask until the cluster, which deletes a topic a little later than it says, has none."""
    while True:
        await reader.bounds(partitions)


async def _read_up_to(reader: Topic, end: int) -> None:
    async for records in reader.read_range({0: 0}, {0: end}):
        assert all(each.offset < end for each in records)


async def test_a_topic_deleted_between_two_questions_is_told_at_once(
    kafka: KafkaBroker, topic: str
) -> None:
    await kafka.create_topic(topic)
    settings = Settings(request_timeout_seconds=60)
    async with open_topic(url_of(kafka, topic), settings) as reader:
        partitions = await reader.partitions()
        assert (await reader.bounds(partitions)).is_empty
        # It was created after its reader had found none.
        with pytest.raises(TopicUnusable, match="no topic of this name"):
            await reader.bounds(0)
        await administer(kafka, "delete_topics", [topic])
        for asked in (partitions, 0):
            async with asyncio.timeout(20):
                with pytest.raises(TopicUnusable, match="no topic of this name"):
                    await _ask_for_bounds(reader, asked)


async def test_the_newest_checkpoint_of_other_authorities_is_found(
    nodes: list[Node], kafka: KafkaBroker, topic: str
) -> None:
    source, target, _ = nodes
    await write_some(source, "g")
    await copy_once(source, target, kafka, topic)
    records = await kafka.records(topic, 1)
    genuine = orjson.loads(next(r.value for r in records if r.key == CHECKPOINT_KEY))
    for authority in ("urn:first", "urn:second"):
        forged = orjson.dumps(genuine | {"authority": authority})
        await append(kafka, topic, CHECKPOINT_KEY, forged)
    settings = Settings()
    async with open_topic(url_of(kafka, topic), settings) as reader:
        bounds = await reader.bounds(await reader.partitions())
        found = await newest_checkpoint(reader, bounds, authority="urn:none")
        assert found is not None
        assert found[0].authority == "urn:second"


async def test_a_topic_that_grows_to_the_offsets_of_a_lost_one_is_not_waited_for(
    kafka: KafkaBroker, topic: str
) -> None:
    """It was created anew while it was read, and its source writes a checkpoint now and then."""
    await kafka.create_topic(topic)
    settings = Settings()
    producer = AIOKafkaProducer(bootstrap_servers=kafka.address)

    async def grow() -> None:
        while True:
            await producer.send_and_wait(topic, b"checkpoint", partition=0)
            await asyncio.sleep(0.1)  # as a source does, between two checkpoints

    async with producer, open_topic(url_of(kafka, topic), settings) as reader:
        growing = asyncio.create_task(grow())
        async with asyncio.timeout(20):
            with pytest.raises(TopicUnusable, match="lost records"):
                await _read_up_to(reader, 1000)
        growing.cancel()


async def test_a_topic_that_lost_records_is_written_anew(
    nodes: list[Node], kafka: KafkaBroker, topic: str
) -> None:
    """One that ends earlier than what was written, and one without its beginning."""
    source, target, late = nodes
    await kafka.create_topic(topic, cleanup_policy="compact")
    await write_some(source, "g")
    await copy_once(source, target, kafka, topic)
    cursor = (await shown(source, "out")).get("cursor")
    *first, ends = cursor.split("/")
    further = "/".join([*first, ",".join(str(int(end) + 5) for end in ends.split(","))])
    await execute(source, "UPDATE links SET cursor = $1", further)
    async with running(source, target):
        await link_history_is(source, "out", "published", "published")
        await settled(target, source)
    detail = (await shown(source, "out"))["history"][0]["detail"]
    assert "the topic ends before what was written last" in detail
    await administer(kafka, "create_partitions", {topic: NewPartitions(6)})
    async with running(*nodes):
        await link_history_is(source, "out", "published", "published", "published")
        await follow(late, kafka, topic)
        await settled(late, source)
        await settled(target, source)


async def test_poison_is_a_conflict_and_the_rest_flows(
    nodes: list[Node], kafka: KafkaBroker, topic: str
) -> None:
    source, target, other = nodes
    await write_some(source, "g")
    await write_some(other, "o")
    await publish(source, kafka, topic)
    await follow(target, kafka, topic, authority=authority_of(source))
    async with running(source, target):
        await settled(target, source)
        own = authority_of(source)
        feed = await other.send("GET", "/replication/snapshot")
        for line in feed.body.splitlines()[:-1]:
            copy = orjson.loads(line)
            key = f"{copy['authority']}\n{copy['origin']}".encode()
            await append(kafka, topic, key, line)  # an authority that the link does not bring
        stolen = orjson.loads(feed.body.splitlines()[0]) | {"authority": own}
        key = f"{own}\n{stolen['origin']}".encode()
        await append(kafka, topic, key, orjson.dumps(stolen))  # its digest is another's
        await append(kafka, topic, f"{own}\n/messagegroups/x".encode(), orjson.dumps(stolen))
        await append(kafka, topic, f"{own}\n/messagegroups/g".encode(), None)
        await append(kafka, topic, f"{own}\n/messagegroups/y".encode(), b"\xff{")
        await append(kafka, topic, b"junk", b"{}")
        await append(kafka, topic, CHECKPOINT_KEY, b"{}")
        await source.put("/messagegroups/h", {})
        await settled(target, source)
        await link_is(target, "in", "current")
    reasons = {each["origin"]: each["detail"] for each in await conflicts_of(target, "in")}
    assert "has no value" in reasons["/messagegroups/g"]
    assert "its key is not that of its content" in reasons["/messagegroups/x"]
    assert "not JSON" in reasons["/messagegroups/y"]
    assert "digest" in reasons[stolen["origin"]]
    assert "" in reasons


async def test_only_the_pinned_authority_is_followed(
    nodes: list[Node], kafka: KafkaBroker, topic: str
) -> None:
    source, target, stranger = nodes
    await write_some(stranger, "s")
    await publish(stranger, kafka, topic)
    await follow(target, kafka, topic, authority=authority_of(source))
    async with running(stranger, target):
        await link_is(stranger, "out", "current")
        await link_is(target, "in", "refused")
    assert authority_of(stranger) in (await shown(target, "in"))["error"]
    assert await carries(target)
    body = {"target": url_of(kafka, topic), "mode": "publish"}
    rival = await source.send("POST", "/replication/links", body)
    assert (rival.status, rival.error) == (400, "target_unusable")
    assert "publishes to the topic already" in rival.body.decode()


async def test_a_forged_mark_stops_nobody_for_long(
    nodes: list[Node], kafka: KafkaBroker, topic: str
) -> None:
    source, target, _ = nodes
    await write_some(source, "g")
    await copy_once(source, target, kafka, topic)
    async with running(source, target):
        marks = [
            read_checkpoint(r.value)
            for r in await kafka.records(topic, 1)
            if r.key == CHECKPOINT_KEY
        ]
        assert marks[-1] is not None
        genuine = orjson.loads(
            next(r.value for r in await kafka.records(topic, 1) if r.key == CHECKPOINT_KEY)
        )
        for forged in (
            genuine | {"authority": "urn:other"},
            genuine | {"publication": uuid.uuid4().hex, "begins": [10**9]},
        ):
            await append(kafka, topic, CHECKPOINT_KEY, orjson.dumps(forged))
        await source.put("/messagegroups/h", {})
        await settled(target, source)
        await link_is(target, "in", "current")


async def test_a_link_is_current_whatever_the_clock_of_its_source_says(
    nodes: list[Node], kafka: KafkaBroker, topic: str
) -> None:
    source, target, _ = nodes
    await write_some(source, "g")
    await copy_once(source, target, kafka, topic)
    records = await kafka.records(topic, 1)
    newest = orjson.loads([r.value for r in records if r.key == CHECKPOINT_KEY][-1])
    async with running(target):
        await link_is(target, "in", "current")
        for skew in (timedelta(hours=-5), timedelta(hours=5)):
            began = datetime.now(UTC)
            told = newest | {"at": format_time(began + skew)}

            async def is_confirmed(began: datetime = began, told: Any = told) -> bool:
                await append(kafka, topic, CHECKPOINT_KEY, orjson.dumps(told))
                link = await shown(target, "in")
                confirmed = datetime.fromisoformat(link["currentat"])
                return link["state"] == "current" and began < confirmed <= datetime.now(UTC)

            await eventually(is_confirmed)


async def test_a_source_whose_clock_is_hours_ahead_publishes(
    nodes: list[Node], kafka: KafkaBroker, topic: str
) -> None:
    source = nodes[0]
    await publish(source, kafka, topic)
    tomorrow = int((datetime.now(UTC) + timedelta(days=1)).timestamp() * 1000)
    async with AIOKafkaProducer(bootstrap_servers=kafka.address) as producer:
        await producer.send_and_wait(topic, b"{}", b"key", timestamp_ms=tomorrow)
        elsewhere = f"{topic}-of-others"
        await kafka.create_topic(elsewhere)
        settings = Settings()
        async with open_topic(url_of(kafka, elsewhere), settings) as other:
            with pytest.raises(TopicUnusable, match="the time of this node's clock"), other.told():
                await producer.send_and_wait(elsewhere, b"{}", b"key", timestamp_ms=tomorrow)


async def test_what_a_source_deletes_goes_over_a_topic_and_what_it_lost_is_asked_about(
    nodes: list[Node], kafka: KafkaBroker, topic: str
) -> None:
    source, _, target = nodes
    for number in range(12):
        await source.put(f"/messagegroups/g{number}", {})
    await copy_once(source, target, kafka, topic)
    for number in range(5):
        await source.send("DELETE", f"/messagegroups/g{number}")
    async with running(source, target):
        await settled(target, source)
        await link_is(target, "in", "current")
    assert "asked" not in await events_of(target, "in")
    # It is restored from a backup, and publishes anew.
    await execute(source, "DELETE FROM entities WHERE kind = 'group' AND id ~ '^g[5678]'")
    assert (await source.send("POST", "/replication/links/out/reset", {})).status == 200
    await execute(target, "UPDATE links SET instance = gen_random_uuid()")
    async with running(source, target):
        await link_is(target, "in", "asking")
        question = (await shown(target, "in")).get("question")
        assert (question["deletions"], question["of"]) == (4, 7)
        body = {"allow": question["digest"]}
        answer = await target.send("PATCH", "/replication/links/in", body)
        assert answer.status == 200, answer.body
        await settled(target, source)
        await link_is(target, "in", "current")
    assert (await events_of(target, "in")).count("asked") == 1


async def test_a_source_that_went_back_in_time_publishes_anew_and_says_so(
    nodes: list[Node], kafka: KafkaBroker, topic: str
) -> None:
    source, target, _ = nodes
    await write_some(source, "g")
    await copy_once(source, target, kafka, topic)
    # As if the starts that its mark names were of another past.
    await execute(source, "UPDATE incarnations SET id = gen_random_uuid()")
    await write_some(source, "h")
    async with running(source, target):
        await link_history_is(source, "out", "published", "published")
        await link_history_is(target, "in", "copied", "lost data", "copied")
        await settled(target, source)
    told = (await shown(source, "out"))["history"]
    assert "this node lost what it had published" in told[0]["detail"]


async def test_a_child_that_comes_before_its_parent_is_applied(
    nodes: list[Node], kafka: KafkaBroker, topic: str
) -> None:
    """So it may be where a topic was compacted after the parent had changed."""
    source, target, _ = nodes
    await write_some(source, "g")
    await publish(source, kafka, topic)
    async with running(source):
        await everything_is_sent(source)
    records = await kafka.records(topic, 1)
    last = {record.key: record.value for record in records}
    turned = f"{topic}-turned"
    await kafka.create_topic(turned, cleanup_policy="compact")
    mark = orjson.loads(last.pop(CHECKPOINT_KEY))
    for key in sorted(last, reverse=True):
        await append(kafka, turned, key, last[key])
    mark |= {"begins": [0, 0, 0, 0], "ends": [0, 0, 0, 0]}
    await append(kafka, turned, CHECKPOINT_KEY, orjson.dumps(mark))
    await follow(target, kafka, turned)
    async with running(target):
        await link_history_is(target, "in", "copied")
        assert await carries(target, source)
    assert (await shown(target, "in"))["conflicts"] == 0


async def test_the_authority_has_the_last_word_when_a_link_is_reset(
    nodes: list[Node], kafka: KafkaBroker, topic: str
) -> None:
    source, target, _ = nodes
    await write_some(source, "g")
    await copy_once(source, target, kafka, topic)
    async with running(source, target):
        await execute(target, "UPDATE entities SET epoch = epoch + 7 WHERE kind = 'version'")
        await target.send("POST", "/replication/links/in/reset", {})
        await settled(target, source)
        await link_history_is(target, "in", "copied", "copied")
        await target.send("POST", "/replication/links/in/reset", {"drop": True})
        await link_history_is(target, "in", "copied", "dropped")
        await settled(target, source)


async def test_a_topic_that_does_not_keep_copies_is_refused(
    nodes: list[Node], kafka: KafkaBroker, topic: str
) -> None:
    source, target, _ = nodes
    await kafka.create_topic(topic, cleanup_policy="delete")
    await append(kafka, topic, b"a", b"b")
    body = {"target": url_of(kafka, topic), "mode": "publish"}
    refused = await source.send("POST", "/replication/links", body)
    assert (refused.status, refused.error) == (400, "target_unusable")
    assert 'cleanup.policy is "delete"' in refused.json["title"]
    compressed = f"{topic}-gzip"
    await kafka.create_topic(compressed, cleanup_policy="compact", compression_type="gzip")
    await append(kafka, compressed, b"a", b"b")
    body = {"target": url_of(kafka, compressed), "mode": "publish"}
    refused = await source.send("POST", "/replication/links", body)
    assert 'compression.type is "gzip"' in refused.json["title"]
    for source_url, reason in (
        (url_of(kafka, compressed), "compressed"),
        (url_of(kafka, f"{topic}-none"), "no topic of this name"),
        (url_of(kafka, topic), "Nobody publishes"),
        ("kafka://127.0.0.1:1/t", "cannot be used"),
    ):
        body = {"source": source_url, "mode": "kafka"}
        unusable = await target.send("POST", "/replication/links", body)
        assert (unusable.status, unusable.error) == (400, "source_unusable")
        assert reason in unusable.body.decode()


SENSELESS = [
    {"source": "kafka://b:9092/t", "mode": "pull"},
    {"source": "http://b/t", "mode": "kafka"},
    {"source": "kafka://b:9092/", "mode": "kafka"},
    {"source": "kafka://b:9092/a/b", "mode": "kafka"},
    {"source": "kafka://b:none/t", "mode": "kafka"},
    {"source": "kafka:///t", "mode": "kafka"},
    {"source": "kafka://user:secret@b:9092/t", "mode": "kafka"},
    {"source": "kafka://b:9092/t", "mode": "publish"},
    {"target": "kafka://b:9092/t", "mode": "kafka"},
]


async def test_senseless_topics_are_refused(nodes: list[Node]) -> None:
    for body in SENSELESS:
        answer = await nodes[0].send("POST", "/replication/links", body)
        assert (answer.status, answer.error) == (400, "invalid_attribute"), body


async def test_a_client_leaves_a_broker_that_does_not_answer(
    kafka: KafkaBroker, topic: str
) -> None:
    """Otherwise a node that stops, or hands its links to another process, would wait for it."""
    settings = Settings(delivery_timeout_seconds=60)
    await kafka.create_topic(topic)
    async with open_topic(url_of(kafka, topic), settings) as reader:
        await reader.partitions()
        producer = await KafkaProducer.connect(reader.address.cluster, settings)
        record = KafkaRecord(number=0, interaction="", key=b"k", value=b"v", headers=[], size=64)
        await producer.append(topic, 0, [record])
        async with kafka.frozen():
            asking = asyncio.create_task(reader.partitions())
            sending = asyncio.create_task(producer.append(topic, 0, [record]))
            while not producer._producer._sender._in_flight:
                await asyncio.sleep(0.01)  # until the record is on its way
            async with asyncio.timeout(30):
                await producer.close()
                await reader.close()
            for task in (asking, sending):
                task.cancel()
            await asyncio.wait([asking, sending])


async def test_a_dry_run_tells_what_would_be_published_and_read(
    nodes: list[Node], kafka: KafkaBroker, topic: str
) -> None:
    source, target, _ = nodes
    await source.put("/messagegroups/g", {"messages": {"a": {}, "b": {}}})
    await source.put("/messagegroups/taken")
    await target.put("/messagegroups/taken")

    async def tried(node: Node, path: str, body: Any) -> dict[str, int]:
        answer = await node.send("POST", f"{path}?dryrun", body)
        assert answer.status == 200, answer.body
        outcomes = answer.json["outcomes"]
        return {outcome: each["number"] for outcome, each in outcomes.items()}

    def partitions() -> Any:
        return open_topic(url_of(kafka, topic), source.context.settings)

    out = {"id": "out", "target": url_of(kafka, topic), "mode": "publish"}
    everything = len(await own_rows(source))
    assert await tried(source, "/replication/links", out) == {"published": everything}
    async with partitions() as there:
        assert await there.partitions() == 0, "a dry run creates no topic"
    await publish(source, kafka, topic)
    async with running(source):
        await link_is(source, "out", "current")
    assert await tried(source, "/replication/links/out/run", {}) == {}
    incoming = {"id": "in", "source": url_of(kafka, topic), "mode": "kafka"}
    expected = {"created": everything - 1, "collided": 1}
    assert await tried(target, "/replication/links", incoming) == expected
    assert (await target.send("POST", "/replication/links", incoming)).status == 201
    async with running(target):
        await link_is(target, "in", "current")
    link = await target.get("/replication/links/in")
    assert (link["applied"], link["conflicts"]) == (everything - 1, 1)
    await source.put("/messagegroups/g/messages/a", {"description": "changed"})
    assert await tried(source, "/replication/links/out/run", {}) == {"published": 2}
