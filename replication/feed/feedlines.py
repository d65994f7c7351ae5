"""The format of the feed: a line of JSON for each copy, and a last line with the cursor."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import Any

import orjson

from catalog.model.authoritykey import SIGNATURE_BYTES, is_key_id
from catalog.model.caller import PublishedAuthor
from catalog.model.entity import Entity, Tombstone
from catalog.model.timestamps import format_time, parse_time
from catalog.model.tracecontext import TRACEPARENT, TRACESTATE, TraceContext
from replication.deciding.copychecks import Copy, Incoming, MalformedCopy

_MOST_DEPTH = 100
# Parsed values take many times the memory of the text, so a line is bounded before parsing. Commas
# in texts count as well.
_MOST_VALUES = 1_000_000
_IDENTITY = ("xid", "kind", "authority", "origin")
_END, _LONG_END = {"cursor"}, {"cursor", "behind"}
_MOST_BEHIND = 2**62


@dataclass(frozen=True, slots=True)
class FeedEnd:
    """The last line of a complete answer: the cursor from which to continue.

    `behind` is the approximate number of changes after the cursor, if the source was asked.
    """

    cursor: str
    behind: int | None = None


def write_copy(copy: Copy) -> bytes:
    """Write an entity or a tombstone as a line. The document of an entity has to be loaded.

    Raises:
        ValueError: the stored attributes of the entity could not be read.
        TypeError: the attributes cannot be written as JSON.
    """
    if isinstance(copy, Entity) and copy.damage:
        raise ValueError(copy.damage)
    # The local name of an entity is not sent: followers know the entity by the origin.
    line = {name: getattr(copy, name) for name in (*_IDENTITY, "epoch")} | {"xid": copy.origin}
    if isinstance(copy, Tombstone):
        line |= {"deleted": True, "deletedat": format_time(copy.deletedat)}
    else:
        line["createdat"] = format_time(copy.createdat)
        line["modifiedat"] = format_time(copy.modifiedat)
        line["attributes"] = copy.published
    line["digest"] = copy.digest.hex()
    if copy.signature is not None:
        line["signature"] = base64.b64encode(copy.signature).decode()
        line["signedby"] = copy.signedby
    if copy.trace is not None:
        line |= copy.trace.headers()
    if copy.author is not None:
        line["author"] = copy.author.members()
    if isinstance(copy, Entity) and copy.document is not None:
        line["document"] = base64.b64encode(copy.document).decode()
    return orjson.dumps(line) + b"\n"


def write_end(cursor: str, behind: int | None = None) -> bytes:
    """The last line; `behind` is left out for readers that did not ask."""
    told = {} if behind is None else {"behind": behind}
    return orjson.dumps({"cursor": cursor, **told}) + b"\n"


def read_line(line: bytes) -> Incoming | FeedEnd:
    """Read a line of a remote catalog; an unreadable line becomes a `MalformedCopy`."""
    if len(line) > _MOST_VALUES and sum(map(line.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        return _malformed({}, "it has too many values")
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError:
        return _malformed({}, "it is not JSON")
    if not isinstance(data, dict):
        return _malformed({}, "it is not a JSON object")
    if _END <= data.keys() <= _LONG_END and isinstance(data["cursor"], str):
        return FeedEnd(data["cursor"], _count(data.get("behind")))
    try:
        if data.get("deleted") is True:
            return _read_tombstone(data)
        # The recursive check is costly, so it runs only if the text may have a NUL or deep nesting.
        if b"\\u0000" in line or line.count(b"[") + line.count(b"{") > _MOST_DEPTH:
            check_storable(data.get("attributes"))
        return _read_entity(data)
    except (KeyError, TypeError, ValueError) as error:
        return _malformed(data, f"it is malformed: {error!r}"[:300])


def _read_entity(data: dict[str, Any]) -> Entity:
    attributes = data["attributes"]
    if not isinstance(attributes, dict):
        raise TypeError("attributes")
    document = None
    if (encoded := data.get("document")) is not None:
        document = base64.b64decode(_text(encoded), validate=True)
    return Entity(
        **_identity(data),
        **_signature(data),
        trace=_trace(data),
        author=PublishedAuthor.read(data.get("author")),
        attributes=attributes,
        createdat=parse_time(_text(data["createdat"])),
        modifiedat=parse_time(_text(data["modifiedat"])),
        digest=_digest(data),
        document=document,
        document_sha256=None if document is None else hashlib.sha256(document).digest(),
    )


def _read_tombstone(data: dict[str, Any]) -> Tombstone:
    deletedat = parse_time(_text(data["deletedat"]))
    tombstone = Tombstone(
        **_identity(data),
        **_signature(data),
        trace=_trace(data),
        author=PublishedAuthor.read(data.get("author")),
        deletedat=deletedat,
    )
    if tombstone.digest != _digest(data):
        raise ValueError("its digest does not match its content")
    return tombstone


def _identity(data: dict[str, Any]) -> dict[str, Any]:
    if type(data["epoch"]) is not int:
        raise TypeError("epoch")
    return {"epoch": data["epoch"], **{name: _text(data[name]) for name in _IDENTITY}}


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < _MOST_BEHIND else None


def _signature(data: dict[str, Any]) -> dict[str, Any]:
    """The signature of a copy; a malformed signature counts as absent.

    Whether a copy without a signature is acceptable, is decided later by the trusted keys.
    """
    text, signedby = data.get("signature"), data.get("signedby")
    if not isinstance(text, str) or not is_key_id(signedby):
        return {}
    try:
        signature = base64.b64decode(text, validate=True)
    except ValueError:
        return {}
    is_whole = len(signature) == SIGNATURE_BYTES
    return {"signature": signature, "signedby": signedby} if is_whole else {}


def _trace(data: dict[str, Any]) -> TraceContext | None:
    parent = data.get(TRACEPARENT)
    return None if parent is None else TraceContext.parse(parent, data.get(TRACESTATE))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text was expected")
    return value


def _digest(data: dict[str, Any]) -> bytes:
    try:
        return binascii.unhexlify(_text(data["digest"]))
    except binascii.Error as error:
        raise ValueError("digest") from error


def check_storable(value: Any, level: int = 0) -> None:
    """Raise if PostgreSQL cannot store a value (NUL), or the nesting is too deep for parsers."""
    kind = type(value)
    if kind is str:
        if "\0" in value:
            raise ValueError("it has a NUL character")
    elif kind is dict or kind is list:
        if level > _MOST_DEPTH:
            raise ValueError("it is nested too deep")
        for item in (*value, *value.values()) if kind is dict else value:
            check_storable(item, level + 1)


def _malformed(data: dict[str, Any], reason: str) -> MalformedCopy:
    authority, origin, xid = (data.get(name) for name in ("authority", "origin", "xid"))
    return MalformedCopy.of(authority, origin, reason, xid=xid or "", epoch=data.get("epoch"))
