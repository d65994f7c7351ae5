"""The lines about the progress of a reading."""

from __future__ import annotations

import pyarrow as pa
import pytest

from replication.reconcile.engine import progress_line, progress_of


@pytest.mark.parametrize(
    ("rows", "expected", "seconds", "line"),
    [
        (500, 1000, 3.0, "50%: 500 of 1,000 rows, 3 s, about 3 s left"),
        (2500, 10_000, 10.0, "25%: 2,500 of 10,000 rows, 10 s, about 30 s left"),
        # Tombstones are not expected.
        (1200, 1000, 4.0, "100%: 1,200 of 1,000 rows, 4 s, about 0 s left"),
        (0, 1000, 1.0, "0%: 0 of 1,000 rows, 1 s, about 0 s left"),
        (0, 0, 1.0, "100%: 0 of 0 rows, 1 s, about 0 s left"),
    ],
)
def test_a_line_tells_share_rows_and_times(
    rows: int, expected: int, seconds: float, line: str
) -> None:
    assert progress_line(rows, expected, seconds) == line


def test_a_short_reading_tells_nothing_and_loses_nothing() -> None:
    batch = pa.record_batch({"a": [1, 2]})
    lines: list[str] = []
    assert list(progress_of([[batch], [batch, batch]], 6, lines.append)) == [
        [batch],
        [batch, batch],
    ]
    assert lines == []
