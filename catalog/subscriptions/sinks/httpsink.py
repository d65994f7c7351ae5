"""Delivers events to HTTP sinks (http-webhook.md 2)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import assert_never

from catalog.config import Settings
from catalog.model.backoff import parse_retry_after
from catalog.model.masking import described
from catalog.model.sinkcredential import PlainCredential, SinkCredential
from catalog.model.tracecontext import trace_headers
from catalog.operations.subscriptions import BatchLimits
from catalog.subscriptions.sinks.httpanswer import HttpAnswer
from catalog.subscriptions.sinks.httpclient import HttpClient
from catalog.subscriptions.sinks.httpfailure import PostFailure
from catalog.subscriptions.sinks.httpmessage import (
    EncodedMessage,
    batched,
    compressed,
    encode_binary,
    encode_structured,
)
from catalog.subscriptions.sinks.httpsettings import HttpSettings
from catalog.subscriptions.sinks.httptarget import HttpTarget, header_lines, target_of
from catalog.subscriptions.sinks.outgoing import OutgoingEvent, count_within
from catalog.subscriptions.sinks.signature import Signer, batch_id
from catalog.subscriptions.sinks.sink import Delivered, SinkAnswer, SinkGone, SinkRefused
from catalog.subscriptions.stored.subscriptions import Subscription

_UNAUTHORIZED = 401
_GONE = 410
# Faults of the event, which every attempt meets again. The remaining client errors (401, 403, 404,
# 405) are faults of the subscription, and pass when the owner corrects the subscription.
_FINAL = frozenset({400, 413, 414, 415, 422, 431})


def open_connections(settings: Settings, now: Callable[[], datetime]) -> HttpConnections:
    """The connections to HTTP sinks of one process."""
    return HttpConnections(settings, now)


class HttpConnections:
    """The client shared by the HTTP sinks."""

    def __init__(self, settings: Settings, now: Callable[[], datetime]) -> None:
        self._now = now
        self._seconds = settings.delivery_timeout_seconds
        self._client = HttpClient(settings)

    def open(self, subscription: Subscription) -> HttpSink:
        return HttpSink(self._client, self._now, self._seconds, subscription)

    async def close(self) -> None:
        await self._client.close()


class HttpSink:
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

    async def close(self) -> None:
        """Keep the connections, which the HTTP sinks share."""

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
