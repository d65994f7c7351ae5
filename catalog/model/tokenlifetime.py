"""The time at which an access token is refreshed."""

from __future__ import annotations

from datetime import datetime, timedelta

# The time between the refresh and the end of a token; at most half of the token's life.
REFRESH_SECONDS = 60.0


def refresh_time(
    expiresat: datetime, now: datetime, *, lead_seconds: float, least_seconds: float = 0.0
) -> datetime:
    """The time to refresh a token: before the end, and not before half of the remaining time.

    Args:
        lead_seconds: the time between the refresh and the end of the token.
        least_seconds: the least time from now, so that tokens without a duration cost little.
    """
    rest = max((expiresat - now).total_seconds(), 0.0)
    seconds = max(rest - lead_seconds, rest / 2, least_seconds)
    # Counted from now, not from the end: a token may end on the last day of the calendar.
    return now + timedelta(seconds=seconds)
