"""Events as HTTP messages: the headers that describe the events, and the body."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Sequence
from dataclasses import dataclass

from cloudevents.core.bindings.http import HTTPMessage, to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from catalog.subscriptions.sinks.httptarget import header_lines
from catalog.subscriptions.sinks.outgoing import OutgoingEvent

_FORMAT = JSONFormat()
_BATCH_TYPE = "application/cloudevents-batch+json"
# A smaller body fits into one packet either way.
_LEAST_COMPRESSED = 1024
# Compression takes a millisecond or more, too long to hold up the event loop.
_LEAST_IN_THREAD = 32 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedMessage:
    """The part of a request that does not depend on the sink.

    Args:
        head: the lines of the headers.
        body: the body.
    """

    head: bytes
    body: bytes


def binary(event: CloudEvent) -> HTTPMessage:
    """An event as headers and body (http-protocol-binding.md 3.1)."""
    return to_binary(event, _FORMAT)


def structured(event: CloudEvent) -> HTTPMessage:
    """An event as one JSON object (http-protocol-binding.md 3.2)."""
    return to_structured(event, _FORMAT)


def encode_binary(event: CloudEvent) -> EncodedMessage:
    """The bytes of `binary`."""
    return _encoded(binary(event))


def encode_structured(event: CloudEvent) -> EncodedMessage:
    """The bytes of `structured`."""
    return _encoded(structured(event))


def batched(events: Sequence[OutgoingEvent]) -> EncodedMessage:
    """Events as one JSON array (http-protocol-binding.md 3.3)."""
    body = b"[" + b",".join([each.structured for each in events]) + b"]"
    return _encoded(HTTPMessage(headers={"content-type": _BATCH_TYPE}, body=body))


async def compressed(message: EncodedMessage) -> EncodedMessage:
    """The message with a gzip body; small messages stay uncompressed."""
    body = message.body
    if len(body) < _LEAST_COMPRESSED:
        return message
    if len(body) < _LEAST_IN_THREAD:
        packed = gzip.compress(body, mtime=0)
    else:
        packed = await asyncio.to_thread(gzip.compress, body, mtime=0)
    headers = {"content-type": _BATCH_TYPE, "content-encoding": "gzip"}
    return _encoded(HTTPMessage(headers=headers, body=packed))


def _encoded(message: HTTPMessage) -> EncodedMessage:
    lengths = {"content-length": str(len(message.body))}
    return EncodedMessage(head=header_lines(message.headers | lengths), body=message.body)
