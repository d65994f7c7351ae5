"""The consent of a sink to be sent events (http-webhook.md 4)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkConsent:
    """A consent that was given.

    Args:
        at: when.
        origin: the host name that it was given to, which each request has to state.
        rate: the most requests in a minute; `None` is no limit.
    """

    at: datetime
    origin: str
    rate: int | None
