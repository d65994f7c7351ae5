"""The records of a topic of copies: their keys, and the checkpoints of the source.

A copy is a line of the feed, under the key of its origin. A checkpoint states the progress of the
source and the publication of the copies: a complete copy, and every change after it.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import orjson

from catalog.model.entity import Origin
from catalog.model.linkterms import is_authority
from catalog.model.masking import printable
from catalog.model.timestamps import format_time, parse_time
from catalog.store.logpositions import LogCursor
from replication.deciding.batch import origin_of
from replication.deciding.copychecks import Incoming, MalformedCopy
from replication.feed.feedlines import FeedEnd, read_line

CHECKPOINT_KEY = b"mark"
"""The key of checkpoints. The keys of copies have a newline."""
CHECKPOINT_PARTITION = 0
LARGEST_RECORD = 8 * 1024 * 1024
"""The most bytes of a copy in a topic."""
MOST_PARTITIONS = 100
_LONGEST_MARK = 16 * 1024
_LONGEST_LOSS = 300
_LONGEST_KEY = 4096
_MOST_OFFSET = 2**63 - 1
_OFFSETS = re.compile(r"[0-9]{1,19}(,[0-9]{1,19})*")
_PLACES = 4096


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
    if value is None or len(value) > _LONGEST_MARK:
        return None
    try:
        data = orjson.loads(value)
        return _mark_from(data)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def write_offsets(offsets: tuple[int, ...]) -> str:
    return ",".join(map(str, offsets))


def read_offsets(text: str) -> tuple[int, ...]:
    """Read the text of `write_offsets`.

    Raises:
        ValueError: the text is not a list of offsets.
    """
    if not _OFFSETS.fullmatch(text):
        raise ValueError("these are no offsets")
    return _checked(int(each) for each in text.split(","))


def _mark_from(data: dict[str, Any]) -> Checkpoint:
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
    authority, xid = ("", "") if origin is None else (origin.authority[:500], origin.xid[:500])
    return MalformedCopy(authority=authority, origin=xid, xid=xid, epoch=0, reason=reason)
