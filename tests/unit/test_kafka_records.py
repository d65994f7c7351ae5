from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from operator import attrgetter
from typing import Any

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder
from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka_event
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

from catalog.subscriptions.sinks.kafkasink import KafkaRecord, batches_of, by_partition, record_of
from catalog.subscriptions.sinks.outgoing import OutgoingEvent


def event(data: Any = None, **attributes: Any) -> OutgoingEvent:
    given = {
        "id": "1",
        "source": "http://node.example/",
        "type": "io.xregistry.group.created",
        "subject": "/messagegroups/Zürich",
        "time": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "datacontenttype": "application/json",
    }
    return OutgoingEvent(CloudEvent({**given, **attributes}, data))


def record(
    sent: OutgoingEvent, *, key_attribute: str = "subject", structured: bool = False
) -> KafkaRecord:
    return record_of(sent, 0, key_attribute=key_attribute, structured=structured)


@pytest.mark.parametrize("structured", [False, True])
def test_the_sdk_reads_what_is_sent(structured: bool) -> None:
    sent = event({"changed": ["é"]})

    made = record(sent, structured=structured)

    read = from_kafka_event(KafkaMessage(dict(made.headers), made.key, made.value or b""))
    attributes = {**read.get_attributes()}
    # The SDK makes an attribute of the key.
    assert attributes.pop("partitionkey") == "/messagegroups/Zürich"
    assert attributes == sent.event.get_attributes()
    assert read.get_data() == {"changed": ["é"]}


def test_binary_mode_has_attributes_in_headers_and_the_data_as_it_is() -> None:
    made = record(event({}))

    headers = dict(made.headers)
    assert headers["ce_time"] == b"2026-01-02T03:04:05Z"
    assert headers["content-type"] == b"application/json"
    assert "ce_datacontenttype" not in headers
    assert made.value == b"{}"


def test_structured_mode_has_no_attributes_in_headers() -> None:
    assert record(event({}), structured=True).headers == [
        ("content-type", b"application/cloudevents+json")
    ]


def test_an_event_without_data_has_no_value_in_binary_mode_only() -> None:
    assert record(event()).value is None
    assert record(event(), structured=True).value


def test_the_key_is_the_attribute_that_the_subscriber_names() -> None:
    assert record(event(), key_attribute="type").key == b"io.xregistry.group.created"
    assert record(event(), key_attribute="partitionkey").key is None


def plain(number: int, *, size: int = 1, interaction: str = "", key: bytes = b"") -> KafkaRecord:
    return KafkaRecord(
        number=number, interaction=interaction, key=key, value=b"", headers=[], size=size
    )


def test_records_of_one_key_are_in_one_partition_in_their_order() -> None:
    records = [plain(number, key=b"%d" % (number % 5)) for number in range(20)]

    found = by_partition(records, [0, 1, 2])

    assert all(part == sorted(part, key=attrgetter("number")) for part in found.values())
    keys = [{each.key for each in part} for part in found.values()]
    assert sum(map(len, keys)) == 5


_RECORDS = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 3)), max_size=40)


@given(_RECORDS, st.integers(1, 100))
def test_batches_keep_the_order_the_bound_and_interactions(
    sizes: list[tuple[int, int]], most: int
) -> None:
    records = [
        plain(number, size=size, interaction=str(interaction))
        for number, (size, interaction) in enumerate(sizes)
    ]

    batches = [*batches_of(records, most)]

    assert [each for batch in batches for each in batch] == records
    assert all(len(batch) == 1 or sum(each.size for each in batch) <= most for batch in batches)
    for earlier, later in pairwise(batches):
        if earlier[-1].interaction == later[0].interaction:
            # It is divided only because it alone is larger than a batch may be.
            name, at = later[0].interaction, later[0].number
            first, last = at, at
            while first and records[first - 1].interaction == name:
                first -= 1
            while last + 1 < len(records) and records[last + 1].interaction == name:
                last += 1
            assert sum(each.size for each in records[first : last + 1]) > most


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.binary(max_size=300)),
            st.binary(max_size=300),
            st.dictionaries(st.text("abc_", min_size=1), st.binary(max_size=200), max_size=5),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_a_size_is_never_less_than_what_a_record_takes(parts: list[Any]) -> None:
    builder = BatchBuilder(10_000_000, 0)
    empty, total = builder.size(), 0
    for key, value, names in parts:
        text = (key or b"").hex()
        made = record(
            event(
                value.hex(),
                datacontenttype="text/plain",
                subject=f"/{text}",
                **dict.fromkeys({name.replace("_", "x") for name in names}, "value"),
            )
        )
        builder.append(timestamp=None, key=made.key, value=made.value, headers=made.headers)
        total += made.size

    assert builder.size() - empty <= total
