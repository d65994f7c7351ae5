"""Points in time as RFC 3339 text, always shown in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d):(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)?", re.ASCII
)

# The form that nodes write, which Python parses directly.
_USUAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:[0-5]\d(?:\.\d{6})?Z", re.ASCII)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds_of(time: datetime) -> int:
    """The microseconds from 1970 to a time."""
    return (time - _EPOCH) // timedelta(microseconds=1)


def time_of(microseconds: int) -> datetime:
    """The time so many microseconds after the beginning of 1970."""
    return _EPOCH + timedelta(microseconds=microseconds)


def parse_time(text: str) -> datetime:
    """Parse an RFC 3339 timestamp, to the microsecond; a missing zone means UTC.

    A leap second becomes the next second.

    Raises:
        ValueError: `text` is no timestamp, or is beyond the years 1 to 9999.
    """
    if _USUAL.fullmatch(text):
        return datetime.fromisoformat(text)
    moment, fraction = _read(text)
    return moment + timedelta(microseconds=int(fraction[:6].ljust(6, "0")))


def normal_time(text: str) -> str:
    """Convert an RFC 3339 timestamp to UTC with a `Z`, without trailing zeros in the fraction.

    Raises:
        ValueError: `text` is no timestamp, or is beyond the years 1 to 9999.
    """
    moment, fraction = _read(text)
    digits = fraction.rstrip("0")
    return f"{moment.replace(tzinfo=None).isoformat()}{'.' if digits else ''}{digits}Z"


def format_time(moment: datetime) -> str:
    """Format a time in UTC with a `Z`, with microseconds unless zero."""
    in_utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return in_utc.isoformat().replace("+00:00", "Z")


def _read(text: str) -> tuple[datetime, str]:
    """The second in UTC, and the digits of the fraction."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise ValueError("it needs to be an RFC 3339 timestamp, as 2030-12-19T06:00:00Z")
    date, minute, second, fraction, zone = found.groups("")
    is_leap = second == "60"
    offset = "+00:00" if zone in ("", "Z", "z") else zone
    local = datetime.fromisoformat(f"{date}T{minute}:{'59' if is_leap else second}{offset}")
    try:
        moment = local.astimezone(UTC)
        if is_leap and (moment.hour, moment.minute) != (23, 59):
            raise ValueError("a leap second is at 23:59:60 UTC only")
        return moment + timedelta(seconds=is_leap), fraction
    except OverflowError as error:
        raise ValueError("it is beyond the years 1 to 9999") from error
