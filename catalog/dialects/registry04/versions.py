"""The order of versions in edition 0.4: their numbers, of which the latest is the largest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_NUMBER = re.compile(r"0|[1-9][0-9]{0,14}")


def shown_version(vid: str) -> int | str:
    """A version's id as a number, or as it is where it is none."""
    return int(vid) if _NUMBER.fullmatch(vid) else vid


def order_of(vid: str) -> tuple[bool, int, str]:
    """Where a version is among all of its resource's.

    Numbers come in their order. Other ids come before all numbers, as if padded on the left
    to the same length, so that a number which the server gives is always the largest.

    Source: CloudEvents Registry 0.4, "version" and "Resource: schemas".
    """
    return (_NUMBER.fullmatch(vid) is not None, len(vid), vid)


def latest_of(vids: Iterable[str]) -> str:
    """The largest; there has to be one."""
    return max(vids, key=order_of)


def next_version(vids: Iterable[str], given: Sequence[range] = ()) -> str:
    """The number after all that there are, and all that deleted versions had."""
    numbers = [int(vid) for vid in vids if _NUMBER.fullmatch(vid)]
    return str(max([0, *numbers, *(span.stop - 1 for span in given)]) + 1)
