"""Delivers events to HTTP sinks, one in a request (http-webhook.md 2)."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import aiohttp
from cloudevents.core.bindings.http import HTTPMessage, to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from catalog.client.connection import read_limited
from catalog.config import Settings
from catalog.http.outbound import UNREACHABLE, open_session
from catalog.model.backoff import parse_retry_after
from catalog.model.masking import described
from catalog.model.sinkcredential import PlainCredential, SinkCredential
from catalog.sinks.httpsettings import HttpSettings
from catalog.sinks.outgoing import OutgoingEvent
from catalog.sinks.sink import Delivered, SinkAnswer, SinkGone, SinkRefused
from catalog.store.subscriptions import Subscription

_FORMAT = JSONFormat()
_READ_LIMIT = 64 * 1024
_GONE = 410


def open_connections(settings: Settings, now: Callable[[], datetime]) -> HttpConnections:
    """The connections to HTTP sinks of one process."""
    return HttpConnections(settings, now)


class HttpConnections:
    """The session that all HTTP sinks share."""

    def __init__(self, settings: Settings, now: Callable[[], datetime]) -> None:
        self._now = now
        self._session = open_session(settings, total_seconds=settings.delivery_timeout_seconds)

    def open(self, subscription: Subscription) -> HttpSink:
        return HttpSink(self._session, self._now, subscription)

    async def close(self) -> None:
        await self._session.close()


class HttpSink:
    """The HTTP sink of one subscription. Redirects are not followed."""

    most_events = 1

    def __init__(
        self,
        session: aiohttp.ClientSession,
        now: Callable[[], datetime],
        subscription: Subscription,
    ) -> None:
        self._now = now
        definition, credential = subscription.definition, subscription.credential
        settings = HttpSettings.model_validate(definition.settings)
        self._session = session
        self._url = definition.sink
        self._method = settings.method
        self._headers = dict(settings.headers)
        if credential is not None:
            self._headers["Authorization"] = authorization(credential)
        self._encode = structured if settings.contentmode == "structured" else binary

    async def send(self, events: Sequence[OutgoingEvent]) -> Sequence[SinkAnswer]:
        message = events[0].encoded(self._encode)
        try:
            async with self._session.request(
                self._method,
                self._url,
                data=message.body,
                headers=self._headers | message.headers,
                allow_redirects=False,
            ) as response:
                await read_limited(response, _READ_LIMIT)
                return [_answer(response.status, response.headers, self._now())]
        except (aiohttp.ClientError, OSError) as error:
            return [SinkRefused(reason=_describe(error), cause=described(error))]

    async def close(self) -> None:
        """Leave the connections to the other sinks."""


def binary(event: CloudEvent) -> HTTPMessage:
    """An event as headers and body (http-protocol-binding.md 3.1)."""
    return to_binary(event, _FORMAT)


def structured(event: CloudEvent) -> HTTPMessage:
    """An event as one JSON object (http-protocol-binding.md 3.2)."""
    return to_structured(event, _FORMAT)


def authorization(credential: SinkCredential) -> str:
    """The value of the Authorization header (RFC 9110 11.6.2)."""
    if isinstance(credential, PlainCredential):
        pair = f"{credential.identifier}:{credential.secret}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"
    scheme = "Bearer" if credential.scheme.lower() == "bearer" else credential.scheme
    return f"{scheme} {credential.token}"


def _answer(status: int, headers: Mapping[str, str], now: datetime) -> SinkAnswer:
    if 200 <= status < 300:
        return Delivered(detail=str(status))
    reason = f"the sink answered {status}"
    if status == _GONE:
        return SinkGone(reason=reason)
    retry_after = parse_retry_after(headers.get("Retry-After"), now)
    return SinkRefused(reason=reason, retry_after=retry_after)


def _describe(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the sink did not answer in time"
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return "the sink and this node agree on no TLS connection"
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.InvalidURL):
        return f"the sink {UNREACHABLE}"
    return "the sink did not answer as a whole"
