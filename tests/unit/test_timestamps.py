"""Times are read alike in the form that nodes write and in all others."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.model.timestamps import format_time, parse_time


@given(st.datetimes(timezones=st.just(UTC)))
def test_what_nodes_write_is_read_as_the_same_time(moment: datetime) -> None:
    text = format_time(moment)
    read = parse_time(text)
    assert (read, read.tzinfo) == (moment, UTC)
    assert parse_time(text.replace("Z", "+00:00").replace("T", "t")) == moment


@pytest.mark.parametrize("time", ["00:00:61", "24:00:00", "00:60:00", "12:00:60"])
def test_what_is_no_time_is_refused_in_each_form(time: str) -> None:
    for zone in ("Z", "+00:00"):
        with pytest.raises(ValueError, match=r"."):
            parse_time(f"2026-11-23T{time}{zone}")


@pytest.mark.parametrize("date", ["2026-02-30", "0000-01-01", "2026-13-01"])
def test_what_is_no_date_is_refused(date: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_time(f"{date}T00:00:00Z")


def test_a_leap_second_is_the_next_second() -> None:
    assert parse_time("2016-12-31T23:59:60Z") == datetime(2017, 1, 1, tzinfo=UTC)
