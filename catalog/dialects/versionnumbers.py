"""The version numbers of the dialects: decimal ids; the largest number is the latest version."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_NUMBER = re.compile(r"0|[1-9][0-9]{0,14}")


def is_number(vid: str) -> bool:
    """Whether a version's id is a decimal integer of up to 15 digits, without leading zeros."""
    return _NUMBER.fullmatch(vid) is not None


def shown_number(vid: str) -> int | str:
    """A version's id as an integer if the id is a number, else the id itself."""
    return int(vid) if is_number(vid) else vid


def last_number(vids: Iterable[str], deleted: Sequence[range] = ()) -> int:
    """The largest number of present and deleted versions; 0 without a number."""
    numbers = [int(vid) for vid in vids if is_number(vid)]
    return max([0, *numbers, *(span.stop - 1 for span in deleted)])


def latest_of(vids: Iterable[str]) -> str:
    """The id of the latest version; see `in_order`."""
    return max(vids, key=_order)


def in_order(vids: Iterable[str]) -> list[str]:
    """The ids of versions, latest last.

    Ids that are no numbers come before the numbers, ordered as if padded on the left to the same
    length, so that a number from the server is always the largest.

    Source: CloudEvents Registry 0.4, "version" and "Resource: schemas".
    """
    return sorted(vids, key=_order)


def _order(vid: str) -> tuple[bool, int, str]:
    return is_number(vid), len(vid), vid
