"""The cursor that a target keeps for a pushing link: a position in the pusher's log."""

from __future__ import annotations

import re
import uuid

from catalog.store.logpositions import LogCursor

_CURSOR = re.compile(r"([0-9a-f]{32})(\.[0-9a-f.]{1,80})@(.*)")


def write_push_cursor(instance: uuid.UUID, cursor: LogCursor, link: str) -> str:
    """The text of a cursor, with the log and the link, since a different link may send less."""
    return f"{instance.hex}{str(cursor).removeprefix(cursor.instance)}@{link}"


def read_push_cursor(instance: uuid.UUID, link: str, text: str | None) -> LogCursor | None:
    """The cursor in this log; `None` for a cursor of a different log or link."""
    found = _CURSOR.fullmatch(text or "")
    if found is None or found[1] != instance.hex or found[3] != link:
        return None
    try:
        return LogCursor.parse(f"{instance.hex[:8]}{found[2]}")
    except ValueError:
        return None
