"""The consent of a sink to the delivery of events (http-webhook.md 4)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkConsent:
    """A consent given by a sink.

    Args:
        at: the time of the consent.
        origin: the host name that the consent was given to, which each request has to state.
        rate: the maximum number of requests in a minute; `None` is no limit.
    """

    at: datetime
    origin: str
    rate: int | None
