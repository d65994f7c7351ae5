"""How events are put into batches of HTTP sinks."""

from __future__ import annotations

import gzip
from typing import Any

import orjson
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

from catalog.subscriptions.sinks.httpsink import EncodedMessage, batched, compressed
from catalog.subscriptions.sinks.outgoing import OutgoingEvent, count_within

TEXT = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)
EVENTS = st.lists(
    st.builds(
        lambda id, subject, data: OutgoingEvent(
            CloudEvent(
                {
                    "id": id,
                    "source": "/s",
                    "type": "t",
                    "subject": subject,
                    "datacontenttype": "application/json",
                },
                data,
            )
        ),
        TEXT,
        TEXT,
        JSON,
    ),
    max_size=12,
)


def headers_of(message: EncodedMessage) -> dict[str, str]:
    lines = message.head.decode("ascii").split("\r\n")
    assert lines.pop() == ""
    return dict(line.split(": ", 1) for line in lines)


@given(events=EVENTS.filter(bool), most_bytes=st.integers(1, 2000))
def test_a_batch_has_as_many_events_as_fit_into_the_bytes_asked(
    events: list[OutgoingEvent], most_bytes: int
) -> None:
    count = count_within(events, most_bytes)
    assert 1 <= count <= len(events)
    assert count == 1 or len(batched(events[:count]).body) <= most_bytes
    # There is no room for another.
    assert count == len(events) or len(batched(events[: count + 1]).body) > most_bytes


@given(events=EVENTS)
def test_a_batch_is_read_as_its_events(events: list[OutgoingEvent]) -> None:
    message = batched(events)
    assert headers_of(message) == {
        "content-type": "application/cloudevents-batch+json",
        "content-length": str(len(message.body)),
    }
    read = [_read(item) for item in orjson.loads(message.body)]
    assert [each.get_attributes() for each in read] == [
        each.event.get_attributes() for each in events
    ]
    assert [each.get_data() for each in read] == [each.event.get_data() for each in events]


def _read(item: Any) -> CloudEvent:
    read = JSONFormat().read(CloudEvent, orjson.dumps(item))
    assert isinstance(read, CloudEvent)
    return read


async def test_only_large_batches_are_compressed_and_come_back_whole() -> None:
    event = OutgoingEvent(CloudEvent({"id": "1", "source": "/s", "type": "t"}, {"a": "b" * 100}))
    for count, is_large in ((1, False), (10, True), (1000, True)):
        message = batched([event] * count)
        packed = await compressed(message)
        headers = headers_of(packed)
        assert int(headers["content-length"]) == len(packed.body)
        assert ("content-encoding" in headers) == is_large
        assert (packed is message) != is_large
        if is_large:
            assert len(packed.body) < len(message.body) / 4
            assert gzip.decompress(packed.body) == message.body
