"""Events as HTTP messages: the headers that describe them, and the body."""

from __future__ import annotations

from dataclasses import dataclass

from cloudevents.core.bindings.http import HTTPMessage, to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from catalog.sinks.httptarget import header_lines

_FORMAT = JSONFormat()


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedMessage:
    """A part of a request that is the same for all sinks.

    Args:
        head: the lines of its headers, those of the body included.
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


def _encoded(message: HTTPMessage) -> EncodedMessage:
    lengths = {"Content-Length": str(len(message.body))}
    return EncodedMessage(head=header_lines(message.headers | lengths), body=message.body)
