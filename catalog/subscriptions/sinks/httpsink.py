"""Delivers events to HTTP sinks (http-webhook.md 2), over connections that are kept open."""

from __future__ import annotations

import asyncio
import base64
import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import assert_never

from cloudevents.core.bindings.http import HTTPMessage, to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from catalog.model.backoff import parse_retry_after
from catalog.model.credentials import PlainCredential, SinkCredential
from catalog.model.masking import described
from catalog.model.tracecontext import trace_headers
from catalog.operations.subscriptions import BatchLimits
from catalog.settings import Settings
from catalog.subscriptions.sinks.httpconnection import (
    HttpAnswer,
    HttpClient,
    HttpTarget,
    PostFailure,
    header_lines,
    target_of,
)
from catalog.subscriptions.sinks.outgoing import OutgoingEvent, count_within
from catalog.subscriptions.sinks.protocols import HttpSettings
from catalog.subscriptions.sinks.sink import (
    Delivered,
    Sink,
    SinkAnswer,
    SinkConnections,
    SinkGone,
    SinkRefused,
)
from catalog.subscriptions.sinks.webhooksignature import Signer, batch_id
from catalog.subscriptions.stored.subscriptions import Subscription

_FORMAT = JSONFormat()
_BATCH_TYPE = "application/cloudevents-batch+json"
# A smaller body fits into one packet either way.
_LEAST_COMPRESSED = 1024
# Compression takes a millisecond or more, too long to hold up the event loop.
_LEAST_IN_THREAD = 32 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedMessage:
    """The header lines and the body, which do not depend on the sink."""

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


_UNAUTHORIZED = 401
_GONE = 410
# Faults of the event, which every attempt meets again. The remaining client errors (401, 403, 404,
# 405) are faults of the subscription, and pass when the owner corrects the subscription.
_FINAL = frozenset({400, 413, 414, 415, 422, 431})


def open_connections(settings: Settings, now: Callable[[], datetime]) -> SinkConnections:
    """The client of one process for HTTP sinks."""
    client = HttpClient(settings)
    opening = partial(HttpSink, client, now, settings.delivery_timeout_seconds)
    return SinkConnections(open=opening, close=client.close)


class HttpSink(Sink):
    """The HTTP sink of one subscription. Redirects are not followed."""

    def __init__(
        self,
        client: HttpClient,
        now: Callable[[], datetime],
        seconds: float,
        subscription: Subscription,
    ) -> None:
        self._client = client
        self._now = now
        self._seconds = seconds
        definition = subscription.definition
        settings = HttpSettings.model_validate(definition.settings)
        self._mode = settings.contentmode
        self._signer = Signer(subscription.signingkeys)
        self._compresses = settings.compression == "gzip"
        limits = definition.config.batch or BatchLimits()
        self._most_bytes = limits.bytes
        self.most_events = limits.count if self._mode == "batched" else 1
        # Opening does not fail: `send` reports the fault.
        self._destination: tuple[HttpTarget, bytes] | ValueError
        try:
            self._destination = _destination(subscription, settings)
        except ValueError as error:
            self._destination = error

    async def send(self, events: Sequence[OutgoingEvent]) -> Sequence[SinkAnswer]:
        """Send as many of the first events as one request takes."""
        message, sent = self._message(events)
        answer = await self._post(message, batch_id([each.texts["id"] for each in sent]))
        return [answer] * len(sent) if isinstance(answer, Delivered) else [answer]

    def _message(
        self, events: Sequence[OutgoingEvent]
    ) -> tuple[EncodedMessage, Sequence[OutgoingEvent]]:
        """The next message, and its events."""
        first = events[:1]
        match self._mode:
            case "binary":
                return first[0].encoded(encode_binary), first
            case "structured":
                return first[0].encoded(encode_structured), first
            case "batched":
                first = events[: count_within(events, self._most_bytes)]
                return batched(first), first
            case _:
                assert_never(self._mode)

    async def _post(self, message: EncodedMessage, id: str) -> SinkAnswer:
        if isinstance(self._destination, ValueError):
            return SinkRefused(reason=str(self._destination))
        target, head = self._destination
        # Signed before compression: receivers verify the body that their framework has decoded.
        signature = header_lines(self._signer.headers(id, self._now(), message.body))
        if self._compresses:
            message = await compressed(message)
        trace = header_lines(trace_headers())
        request = b"".join((head, signature, trace, message.head, b"\r\n", message.body))
        try:
            answer = await self._client.send(target, request, self._seconds)
        except PostFailure as failure:
            return SinkRefused(reason=failure.reason, cause=described(failure))
        return _classified(answer, self._now)


def authorization(credential: SinkCredential) -> str:
    """The value of the Authorization header (RFC 9110 11.6.2)."""
    if isinstance(credential, PlainCredential):
        pair = f"{credential.identifier}:{credential.secret}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"
    scheme = "Bearer" if credential.scheme.lower() == "bearer" else credential.scheme
    return f"{scheme} {credential.token}"


def _destination(subscription: Subscription, settings: HttpSettings) -> tuple[HttpTarget, bytes]:
    """The target of the requests, and the start of each head."""
    target = target_of(subscription.definition.sink)
    headers = dict(settings.headers)
    if not any(name.lower() == "user-agent" for name in headers):
        headers["User-Agent"] = "concord"
    if subscription.credential is not None:
        headers["Authorization"] = authorization(subscription.credential)
    if subscription.consent is not None:
        # http-webhook.md 4.1.2: the origin that the sink has consented to.
        headers["WebHook-Request-Origin"] = subscription.consent.origin
    return target, target.head(settings.method, headers)


def _classified(answer: HttpAnswer, now: Callable[[], datetime]) -> SinkAnswer:
    status = answer.status
    if 200 <= status < 300:
        return Delivered(detail=str(status))
    reason = f"the sink answered {status}"
    if status == _GONE:
        return SinkGone(reason=reason)
    if 300 <= status < 400:
        reason += "; redirects are not followed, so the subscription has to name the new URL"
    retry_after = parse_retry_after(answer.header("Retry-After"), now())
    return SinkRefused(
        reason=reason,
        retry_after=retry_after,
        is_final=status in _FINAL,
        is_unauthorized=status == _UNAUTHORIZED,
    )
