"""A topic of copies: the address, the errors and the records of a topic, without a Kafka client.

A copy is a line of the feed, under the key of its origin. A checkpoint states the progress of the
source and the publication of the copies: a complete copy, and every change after it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

import orjson

from catalog import install_command
from catalog.client import ClientError
from catalog.http.allowedaddresses import split_hosts, why_refused
from catalog.model.credentials import PlainCredential
from catalog.model.entity import Origin
from catalog.model.linkterms import TOPIC_SCHEMES, is_authority
from catalog.model.masking import printable
from catalog.model.timestamps import format_time, parse_time
from catalog.settings import Settings
from catalog.store.changes import LogCursor
from catalog.subscriptions.sinks.protocols import KafkaCluster, servers_of
from replication.deciding.batch import origin_of
from replication.deciding.copychecks import Incoming, MalformedCopy
from replication.feed.feedlines import FeedEnd, read_line
from replication.transfer.linkrun import BeginAgain

if TYPE_CHECKING:
    from replication.transfer.topic import Topic, TopicBounds

_MOST_BROKERS = 16
_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


class TopicUnusable(ClientError):
    """A topic cannot be used now."""

    is_retryable = True


class TopicLost(BeginAgain):
    """A topic lacks earlier records: the topic was deleted, truncated or written anew."""

    def __init__(self, message: str, *, loss: str = "") -> None:
        super().__init__(f"{message}: {loss}" if loss else message, loss=loss)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAddress:
    """A topic of a cluster."""

    cluster: KafkaCluster
    name: str

    @property
    def brokers(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.cluster.servers)


def address_of(url: str, settings: Settings) -> TopicAddress:
    """The address in a URL, `kafka://HOST:PORT,HOST:PORT/TOPIC`, or `kafkas` for TLS.

    `kafka:///TOPIC` is a topic of the cluster in the node's settings. The credential of the
    settings is sent only to that cluster.

    Raises:
        TopicUnusable: the settings name no cluster, or a file of certificates that cannot be read.
    """
    parts = urlsplit(split_hosts(url)[0])
    if parts.netloc:
        cluster = KafkaCluster(servers=servers_of(url), tls=parts.scheme == "kafkas")
    else:
        cluster = _cluster_in(settings)
    return TopicAddress(cluster=cluster, name=parts.path.removeprefix("/"))


@asynccontextmanager
async def open_topic(url: str, settings: Settings) -> AsyncIterator[Topic]:
    """Connect to the cluster of the topic with a URL.

    Raises:
        TopicUnusable
    """
    # Kafka is an extra.
    from replication.transfer.topic import Topic

    topic = Topic(address_of(url, settings), settings)
    try:
        await topic.start()
        yield topic
    finally:
        await topic.close()


def _cluster_in(settings: Settings) -> KafkaCluster:
    if settings.kafka_url is None:
        raise TopicUnusable("The topic names no brokers, and CONCORD_KAFKA_URL is not set.")
    parts = urlsplit(settings.kafka_url.get_secret_value())
    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    given = dict(parse_qsl(parts.query))
    credential = PlainCredential(identifier=unquote(user), secret=unquote(password))
    return KafkaCluster(
        servers=servers_of(f"{parts.scheme}://{hosts}"),
        tls=parts.scheme == "kafkas",
        cacertificate=_certificates_in(given.get("cafile")),
        saslmechanism=given.get("saslmechanism"),
        credential=credential if login else None,
    )


def _certificates_in(file: str | None) -> str | None:
    try:
        return None if file is None else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise TopicUnusable("The cafile of CONCORD_KAFKA_URL cannot be read.") from error


def why_no_topic(url: str, settings: Settings) -> str:
    """The reason why a URL is not the URL of a permitted topic, or ""."""
    parts = urlsplit(split_hosts(url)[0])
    if parts.scheme in TOPIC_SCHEMES and not parts.netloc:
        if settings.kafka_url is None:
            return "it is no kafka://HOST:PORT/TOPIC, and CONCORD_KAFKA_URL is not set"
    elif refusal := why_refused(url, settings, schemes=TOPIC_SCHEMES, most_hosts=_MOST_BROKERS):
        return refusal
    if parts.query or parts.fragment:
        return "it must have no query or fragment"
    name = parts.path.removeprefix("/")
    if not _TOPIC.fullmatch(name):
        return (
            "its path needs to be /TOPIC, of 1 to 249 of A to Z, a to z, 0 to 9, dot, hyphen and "
            "underscore"
        )
    if find_spec("aiokafka") is None:
        return f"Kafka is not installed: {install_command('kafka')}"
    return ""


CHECKPOINT_KEY = b"mark"
"""The key of checkpoints. The keys of copies have a newline."""
CHECKPOINT_PARTITION = 0
LARGEST_RECORD = 8 * 1024 * 1024
"""The most bytes of a copy in a topic."""
MOST_PARTITIONS = 100
_LONGEST_CHECKPOINT = 16 * 1024
_LONGEST_LOSS = 300
_LONGEST_KEY = 4096
_MOST_OFFSET = 2**63 - 1
_OFFSETS = re.compile(r"[0-9]{1,19}(,[0-9]{1,19})*")
_PLACES = 4096
_NONE = "-"
_FIRST_STEP, _FACTOR, _MOST_OFFSETS = 1000, 4, 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The state of a publication when a source wrote a checkpoint.

    Args:
        publication: the id of the complete copy in the topic, with every change since.
        authority, instance, software, digestversion: the identity of the source.
        link: the id of the link that publishes.
        begins: for each partition, the offset where the publication begins.
        ends: for each partition, an offset after every record up to `position`.
        position: the position in the source's log; `None` during the complete copy.
        is_current: the source had no further changes.
        at: the time by the source's clock.
        loss: the reason why the publication may lack entities of the former publication, if the
            source lost data.
    """

    publication: uuid.UUID
    authority: str
    instance: uuid.UUID
    link: str
    software: str
    digestversion: int
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    position: LogCursor | None
    is_current: bool
    at: datetime
    loss: str = ""


def key_of(origin: Origin) -> bytes:
    """The key of the records of an origin; compaction keeps the last record of each key."""
    return f"{origin.authority}\n{origin.xid}".encode()


@lru_cache(maxsize=_PLACES)
def place_of(authority: str, xid: str) -> bytes:
    """The text that decides the partition, so that the records of a group stay in order."""
    return "\n".join((authority, *xid.split("/", 3)[:3])).encode()


def write_checkpoint(checkpoint: Checkpoint) -> bytes:
    return orjson.dumps(
        {
            "publication": checkpoint.publication.hex,
            "authority": checkpoint.authority,
            "instance": checkpoint.instance.hex,
            "link": checkpoint.link,
            "software": checkpoint.software,
            "digestversion": checkpoint.digestversion,
            "begins": checkpoint.begins,
            "ends": checkpoint.ends,
            "position": None if checkpoint.position is None else str(checkpoint.position),
            "current": checkpoint.is_current,
            "at": format_time(checkpoint.at),
            **({"loss": checkpoint.loss} if checkpoint.loss else {}),
        }
    )


def read_record(key: bytes | None, value: bytes | None) -> Incoming | Checkpoint:
    """Read a record of an unknown writer; an unreadable record becomes a `MalformedCopy`."""
    if key == CHECKPOINT_KEY:
        return read_checkpoint(value) or _malformed(None, "it is no checkpoint of a source")
    origin = _origin_in(key)
    if origin is None:
        return _malformed(None, "its key is not that of an origin")
    if value is None:
        return _malformed(origin, "it has no value: deletions are records of their own")
    if len(value) > LARGEST_RECORD:
        return _malformed(origin, f"it is larger than {LARGEST_RECORD} bytes")
    copy = read_line(value)
    if isinstance(copy, FeedEnd):
        return _malformed(origin, "it is not a copy")
    if isinstance(copy, MalformedCopy):
        return _malformed(origin, copy.reason)
    if origin_of(copy) != origin:
        return _malformed(origin, "its key is not that of its content")
    return copy


def read_checkpoint(value: bytes | None) -> Checkpoint | None:
    """Read a checkpoint; `None` if the value is invalid."""
    if value is None or len(value) > _LONGEST_CHECKPOINT:
        return None
    try:
        return _checkpoint_from(orjson.loads(value))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _write_offsets(offsets: tuple[int, ...]) -> str:
    return ",".join(map(str, offsets))


def _read_offsets(text: str) -> tuple[int, ...]:
    if not _OFFSETS.fullmatch(text):
        raise ValueError("these are no offsets")
    return _checked(int(each) for each in text.split(","))


def _checkpoint_from(data: dict[str, Any]) -> Checkpoint:
    authority, link, position = data["authority"], data["link"], data["position"]
    begins, ends = _checked(data["begins"]), _checked(data["ends"])
    if not is_authority(authority) or not isinstance(link, str) or len(begins) != len(ends):
        raise ValueError("checkpoint")
    if type(data["digestversion"]) is not int:
        raise TypeError("digestversion")
    return Checkpoint(
        publication=uuid.UUID(hex=data["publication"]),
        authority=authority,
        instance=uuid.UUID(hex=data["instance"]),
        link=printable(link[:128]),
        software=printable(str(data["software"])[:64]),
        digestversion=data["digestversion"],
        begins=begins,
        ends=ends,
        position=None if position is None else LogCursor.parse(position),
        is_current=data["current"] is True,
        at=parse_time(data["at"]),
        loss=printable(str(data.get("loss", ""))[:_LONGEST_LOSS]),
    )


def _checked(offsets: Any) -> tuple[int, ...]:
    found = tuple(offsets)
    if not 0 < len(found) <= MOST_PARTITIONS:
        raise ValueError("partitions")
    if not all(type(each) is int and 0 <= each <= _MOST_OFFSET for each in found):
        raise ValueError("offsets")
    return found


def _origin_in(key: bytes | None) -> Origin | None:
    if key is None or len(key) > _LONGEST_KEY:
        return None
    try:
        authority, newline, xid = key.decode().partition("\n")
    except UnicodeDecodeError:
        return None
    return Origin(authority, xid) if newline and "\0" not in authority + xid else None


def _malformed(origin: Origin | None, reason: str) -> MalformedCopy:
    return MalformedCopy.of(*(origin or ("", "")), reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOffsets:
    """The cursor of a target: the offset of the next record of each partition.

    Like the cursor of a source, the cursor begins with a position in the source's log, so that a
    read at the target can wait for the position. `position` is `None` until the target has read the
    complete copy.
    """

    publication: uuid.UUID
    offsets: tuple[int, ...]
    position: LogCursor | None = None

    def __str__(self) -> str:
        position = _NONE if self.position is None else self.position
        return f"{position}@{self.publication.hex}/{_write_offsets(self.offsets)}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text that `str` returns.

        Raises:
            ValueError: `text` is something else.
        """
        position, publication, offsets = _parts(text, 3)
        return cls(
            publication=uuid.UUID(hex=publication),
            offsets=_read_offsets(offsets),
            position=None if position == _NONE else LogCursor.parse(position),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The end of a source's writes: everything up to a position of its log.

    Args:
        publication: the id of the complete copy with every change after it.
        begins: for each partition, the offset where the publication begins.
        ends: for each partition, the offset after the last record of the source.
        position: the position in the source's log.
    """

    publication: uuid.UUID
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    position: LogCursor

    def __str__(self) -> str:
        offsets = f"{_write_offsets(self.begins)}/{_write_offsets(self.ends)}"
        return f"{self.position}@{self.publication.hex}/{offsets}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text that `str` returns.

        Raises:
            ValueError: `text` is something else.
        """
        position, publication, begins, ends = _parts(text, 4)
        return cls(
            publication=uuid.UUID(hex=publication),
            begins=_read_offsets(begins),
            ends=_read_offsets(ends),
            position=LogCursor.parse(position),
        )


def _parts(text: str, count: int) -> list[str]:
    position, _, rest = text.partition("@")
    parts = [position, *rest.split("/")]
    if len(parts) != count:
        raise ValueError(f"{text!r} is not a cursor of a topic")
    return parts


async def newest_checkpoint(
    topic: Topic, bounds: TopicBounds, authority: str | None = None
) -> tuple[Checkpoint, int] | None:
    """Read a topic back from its end to the newest checkpoint; return it with its offset.

    Args:
        authority: skip the checkpoints of other authorities, unless the topic has no checkpoint of
            this authority.
    """
    begin, end = bounds.begins[CHECKPOINT_PARTITION], bounds.ends[CHECKPOINT_PARTITION]
    # A topic with other contents may be endless.
    begin, step = max(begin, end - _MOST_OFFSETS), _FIRST_STEP
    other: tuple[Checkpoint, int] | None = None
    while end > begin:
        start = max(begin, end - step)
        found: tuple[Checkpoint, int] | None = None
        foreign: tuple[Checkpoint, int] | None = None
        async for records in topic.read_range(
            {CHECKPOINT_PARTITION: start}, {CHECKPOINT_PARTITION: end}
        ):
            for record in records:
                checkpoint = read_checkpoint(record.value) if record.key == CHECKPOINT_KEY else None
                if checkpoint is None:
                    continue
                if authority in (None, checkpoint.authority):
                    found = checkpoint, record.offset
                else:
                    foreign = checkpoint, record.offset
        if found is not None:
            return found
        other = other or foreign
        end, step = start, step * _FACTOR
    return other
