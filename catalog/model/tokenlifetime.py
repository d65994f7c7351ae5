"""The time at which an access token is refreshed."""

from __future__ import annotations

from datetime import datetime, timedelta

# The time before the end of a token at which it is refreshed; at most half its life.
REFRESH_SECONDS = 60.0


def refresh_time(
    expiresat: datetime, now: datetime, *, lead_seconds: float, least_seconds: float = 0.0
) -> datetime:
    """The time to refresh a token: before it ends, and never before half of what is left of it.

    Args:
        lead_seconds: the time before its end.
        least_seconds: the least time from now, so that tokens of no duration cost little.
    """
    rest = max((expiresat - now).total_seconds(), 0.0)
    seconds = max(rest - lead_seconds, rest / 2, least_seconds)
    # Not counted from the end: a token may end with the last day that there is.
    return now + timedelta(seconds=seconds)
