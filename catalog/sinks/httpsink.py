"""Delivers one event to an HTTP sink and reads its answer (http-webhook.md 2)."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

import aiohttp
from cloudevents.core.bindings.http import HTTPMessage, to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from catalog.client.connection import read_limited
from catalog.http.outbound import UNREACHABLE
from catalog.model.backoff import parse_retry_after
from catalog.model.masking import described
from catalog.store.subscriptions import ContentMode, Credential, SubscriptionDefinition

_FORMAT = JSONFormat()
_READ_LIMIT = 64 * 1024
_GONE = 410


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The sink accepted the event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRefused:
    """The sink did not accept the event; it may do so after `retry_after` seconds.

    Only the log tells the `cause`, since it would tell which hosts and ports a network has.
    """

    reason: str
    cause: str = ""
    retry_after: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkGone:
    """The sink wants no further events."""

    reason: str


SinkAnswer = Delivered | SinkRefused | SinkGone


async def post(
    session: aiohttp.ClientSession,
    definition: SubscriptionDefinition,
    credential: Credential | None,
    message: HTTPMessage,
    *,
    now: Callable[[], datetime],
) -> SinkAnswer:
    """Send one event, as `encode` writes it, to a subscription's sink.

    A failure to reach the sink is returned as `SinkRefused`. Redirects are not followed.
    """
    headers = {**definition.headers, **message.headers}
    if credential is not None:
        headers["Authorization"] = credential.authorization
    expiresat = credential.expiresat if credential else None
    if expiresat is not None and expiresat <= now():
        return SinkRefused(reason="the access token of the sink credential has expired")
    try:
        async with session.request(
            definition.method,
            definition.sink,
            data=message.body,
            headers=headers,
            allow_redirects=False,
        ) as response:
            await read_limited(response, _READ_LIMIT)
            return _answer(response.status, response.headers, now())
    except (aiohttp.ClientError, OSError) as error:
        return SinkRefused(reason=_describe(error), cause=described(error))


def encode(event: CloudEvent, contentmode: ContentMode) -> HTTPMessage:
    """An event as headers and body (http-protocol-binding.md 3.1 and 3.2)."""
    return (to_binary if contentmode == "binary" else to_structured)(event, _FORMAT)


def _answer(status: int, headers: Mapping[str, str], now: datetime) -> SinkAnswer:
    if 200 <= status < 300:
        return Delivered()
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
