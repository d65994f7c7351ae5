"""Asks the sink of a web hook for its consent before the first delivery (http-webhook.md 4)."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp

from catalog.config.settings import Settings, is_loopback
from catalog.model.connectionfailure import why_unreachable
from catalog.model.masking import described
from catalog.subscriptions.stored.subscriptions import SubscriptionDefinition

WEB_HOOKS = frozenset({"HTTP", "HTTPS"})
"""The protocols whose sinks have to consent."""

_RATE = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_ANY = "*"


# The requests in a minute that a sink is asked to allow: a hundred in a second.
WANTED_RATE = 6000


class UnreadableRate(ValueError):
    """A rate that is neither a positive integer nor a star."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentGiven:
    """The sink takes events. `rate` is the most requests in a minute; `None` is no limit."""

    rate: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentMissing:
    """The answer of the sink gives no consent; the sink may still consent by the callback.

    Args:
        reason: a sentence for the subscriber, without secrets and without addresses.
        cause: details for the log only.
    """

    reason: str
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentRequest:
    """A request to a sink for its consent.

    Args:
        sink: the URL of the sink.
        origin: the host name of the node.
        callback: a URL of this node at which the sink may consent later.
        rate: the number of requests in a minute to ask for.
    """

    sink: str
    origin: str
    callback: str
    rate: int


def needs_consent(definition: SubscriptionDefinition, settings: Settings) -> bool:
    """Whether events may be sent to a sink only after the sink has consented."""
    host = urlsplit(definition.sink).hostname
    is_hook = settings.validate_sinks and definition.protocol in WEB_HOOKS
    return is_hook and host is not None and not is_loopback(host)


def parse_allowed_rate(value: str | None, requested: int) -> int | None:
    """The rate that a sink allows: `None` for no limit, `requested` if the sink names no rate.

    Raises:
        UnreadableRate
    """
    if value is None:
        return requested
    text = value.strip()
    if text == _ANY:
        return None
    if not _RATE.fullmatch(text):
        raise UnreadableRate
    return int(text)


async def ask_for_consent(
    session: aiohttp.ClientSession, request: ConsentRequest
) -> ConsentGiven | ConsentMissing:
    """Send one validation request. Only the headers of the answer are read.

    The request carries neither the credential nor the headers of the subscription: a sink that has
    not consented receives no secrets.
    """
    headers = {
        "WebHook-Request-Origin": request.origin,
        "WebHook-Request-Callback": request.callback,
        "WebHook-Request-Rate": str(request.rate),
    }
    try:
        # A redirect would ask a host that is not the sink.
        async with session.options(
            request.sink, headers=headers, allow_redirects=False
        ) as response:
            answer = _answer(response, request)
            # The body is not read: a sink could send a body without end.
            response.close()
            return answer
    except (aiohttp.ClientError, OSError) as error:
        return ConsentMissing(reason=_why_failed(error), cause=described(error))


def _answer(
    response: aiohttp.ClientResponse, request: ConsentRequest
) -> ConsentGiven | ConsentMissing:
    """The consent in an answer, or its lack. The status says nothing (http-webhook.md 4.2)."""
    origins = {each.strip() for each in response.headers.getall("WebHook-Allowed-Origin", [])}
    if not origins:
        return ConsentMissing(
            reason=f"waits for the sink's consent: it answered OPTIONS with {response.status}, "
            "and without WebHook-Allowed-Origin"
        )
    if len(origins) > 1 or not _is_allowed(origins.pop(), request.origin):
        return ConsentMissing(
            reason=f"the sink refused: its WebHook-Allowed-Origin is neither {request.origin} nor *"
        )
    rates = {each.strip() for each in response.headers.getall("WebHook-Allowed-Rate", [])}
    try:
        if len(rates) > 1:
            raise UnreadableRate
        return ConsentGiven(rate=parse_allowed_rate(next(iter(rates), None), request.rate))
    except UnreadableRate:
        return ConsentMissing(
            reason="waits for the sink's consent: its WebHook-Allowed-Rate is neither a positive "
            "integer nor *"
        )


def _is_allowed(allowed: str, origin: str) -> bool:
    return allowed == _ANY or allowed.lower() == origin.lower()


def _why_failed(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the sink did not answer OPTIONS in time"
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.InvalidURL | ssl.SSLError):
        return f"the sink {why_unreachable(error)}"
    return "the sink did not answer OPTIONS as a whole"
