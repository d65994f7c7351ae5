"""Records and cursors of topics of copies, which anybody may have written."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from catalog.model.credentials import PlainCredential
from catalog.model.entity import Origin, Tombstone
from catalog.settings import Settings
from catalog.store.changes import LogCursor, Position
from replication.deciding.copychecks import MalformedCopy
from replication.feed.feedlines import write_copy, write_end
from replication.transfer.topicrecords import (
    CHECKPOINT_KEY,
    LARGEST_RECORD,
    Checkpoint,
    TopicOffsets,
    TopicUnusable,
    Written,
    address_of,
    key_of,
    place_of,
    read_checkpoint,
    read_record,
    write_checkpoint,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
INSTANCE = uuid.UUID(int=1)
POSITION = LogCursor.at(INSTANCE, Position(7, 8))
MARK = Checkpoint(
    publication=uuid.UUID(int=2),
    authority="urn:a",
    instance=INSTANCE,
    link="out",
    software="concord/1",
    digestversion=1,
    begins=(0, 5),
    ends=(9, 9),
    position=POSITION,
    is_current=True,
    at=NOW,
)
END = Tombstone(
    xid="/messagegroups/g",
    kind="group",
    authority="urn:a",
    origin="/messagegroups/g",
    epoch=3,
    deletedat=NOW,
)
KEY = key_of(Origin("urn:a", "/messagegroups/g"))
LINE = write_copy(END)


def test_a_copy_and_a_mark_are_read_as_they_were_written() -> None:
    assert read_record(KEY, LINE) == END
    assert read_record(CHECKPOINT_KEY, write_checkpoint(MARK)) == MARK
    copying = replace(MARK, position=None, is_current=False)
    assert read_checkpoint(write_checkpoint(copying)) == copying


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, LINE, "key"),
        (b"junk", LINE, "key"),
        (b"\xff\n/x", LINE, "key"),
        (b"a" * 5000 + b"\n/x", LINE, "key"),
        (KEY, None, "no value"),
        (KEY, b"{", "not JSON"),
        (KEY, write_end("cursor"), "not a copy"),
        (KEY, b" " * (LARGEST_RECORD + 1), "larger"),
        (key_of(Origin("urn:b", "/messagegroups/g")), LINE, "key is not that"),
        (key_of(Origin("urn:a", "/messagegroups/h")), LINE, "key is not that"),
        (CHECKPOINT_KEY, None, "no checkpoint"),
        (CHECKPOINT_KEY, b"[]", "no checkpoint"),
    ],
)
def test_anything_else_is_malformed(key: bytes | None, value: bytes | None, reason: str) -> None:
    read = read_record(key, value)
    assert isinstance(read, MalformedCopy)
    assert reason in read.reason


@pytest.mark.parametrize(
    "changed",
    [
        {"begins": []},
        {"begins": [0]},
        {"begins": [0, -1]},
        {"begins": [0, True]},
        {"ends": [0, 2**63]},
        {"begins": [0] * 101, "ends": [0] * 101},
        {"authority": "no"},
        {"publication": "no"},
        {"position": "no"},
        {"digestversion": "1"},
        {"link": 1},
        {"at": None},
    ],
)
def test_a_senseless_mark_is_none(changed: dict[str, object]) -> None:
    assert read_checkpoint(orjson.dumps(orjson.loads(write_checkpoint(MARK)) | changed)) is None


@given(st.binary(max_size=64) | st.none(), st.binary(max_size=200) | st.none())
def test_no_bytes_raise_anything(key: bytes | None, value: bytes | None) -> None:
    read_record(key, value)
    read_record(CHECKPOINT_KEY, value)
    read_record(KEY, value)


def test_what_is_in_a_group_has_one_place() -> None:
    inside = place_of("urn:a", "/messagegroups/g/messages/m/versions/1")
    assert inside == place_of("urn:a", "/messagegroups/g")
    assert inside != place_of("urn:b", "/messagegroups/g")
    assert inside != place_of("urn:a", "/messagegroups/h")


def test_cursors_are_read_as_they_were_written() -> None:
    place = TopicOffsets(publication=MARK.publication, offsets=(1, 22), position=POSITION)
    assert TopicOffsets.parse(str(place)) == place
    assert TopicOffsets.parse(str(replace(place, position=None))).position is None
    written = Written(publication=MARK.publication, begins=(0, 0), ends=(3, 4), position=POSITION)
    assert Written.parse(str(written)) == written


@pytest.mark.parametrize("text", ["", "-", str(POSITION), "-@x/1", f"-@{INSTANCE.hex}/", "-@/1/2"])
def test_other_cursors_are_refused(text: str) -> None:
    for kind in (TopicOffsets, Written):
        with pytest.raises(ValueError, match=r"."):
            kind.parse(text)


def test_a_url_names_the_brokers_and_the_topic() -> None:
    secret = "kafkas://bob:s%40crt@c1:9093,c2:9094?saslmechanism=SCRAM-SHA-512"
    settings = Settings(kafka_url=SecretStr(secret))
    address = address_of("kafkas://b1:9093,b2,[::1]:9/copies", settings)
    assert address.cluster.servers == (("b1", 9093), ("b2", 9092), ("::1", 9))
    assert (address.cluster.tls, address.name) == (True, "copies")
    assert address.cluster.credential is None
    assert not address_of("kafka://b/t", settings).cluster.tls
    own = address_of("kafka:///t", settings).cluster
    assert own.servers == (("c1", 9093), ("c2", 9094))
    assert (own.tls, own.saslmechanism) == (True, "SCRAM-SHA-512")
    assert own.credential == PlainCredential(identifier="bob", secret="s@crt")
    assert "s%40crt" not in str(settings.masked())
    with pytest.raises(TopicUnusable, match="CONCORD_KAFKA_URL is not set"):
        address_of("kafka:///t", Settings())


@pytest.mark.parametrize(
    "url", ["http://b", "kafka://", "kafka://b/t", "kafka://b?x=1", "kafka://b?saslmechanism=x"]
)
def test_a_senseless_cluster_is_no_setting(url: str) -> None:
    with pytest.raises(ValidationError):
        Settings(kafka_url=SecretStr(url))
