"""Lines about the progress of a reading: share, rows, elapsed and remaining time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

_EVERY_SECONDS = 2.0


def progress_of(
    parts: Iterable[list[pa.RecordBatch]], expected: int, progress: Callable[[str], None]
) -> Iterator[list[pa.RecordBatch]]:
    """The parts of a reading, with a line every two seconds.

    Args:
        expected: the number of live entities to read; tombstones come in addition.
    """
    began = last = time.monotonic()
    rows = 0
    for part in parts:
        rows += sum(map(len, part))
        now = time.monotonic()
        if now - last >= _EVERY_SECONDS:
            last = now
            progress(progress_line(rows, expected, now - began))
        yield part


def progress_line(rows: int, expected: int, seconds: float) -> str:
    """The state of a reading in words, as `42 %: 1,200,000 of 2,857,000 rows, 12 s, 17 s left`."""
    share = min(rows / expected, 1.0) if expected else 1.0
    left = seconds / share - seconds if share else 0.0
    return f"{share:.0%}: {rows:,} of {expected:,} rows, {seconds:.0f} s, about {left:.0f} s left"
