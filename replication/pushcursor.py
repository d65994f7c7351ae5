"""The cursor that a target keeps for a link that pushes to it: a position in the pusher's log."""

from __future__ import annotations

import re
import uuid

from catalog.store.changes import Position

_CURSOR = re.compile(r"([0-9a-f]{32})\.([0-9]{1,19}\.[0-9]{1,19})@(.*)")


def write_push_cursor(instance: uuid.UUID, position: Position, link: str) -> str:
    """The cursor of a position. It names the log and the link: another link may send less."""
    return f"{instance.hex}.{position}@{link}"


def read_push_cursor(instance: uuid.UUID, link: str, text: str | None) -> Position | None:
    """The position of a cursor; `None` if it is not one of this log and this link."""
    found = _CURSOR.fullmatch(text or "")
    if found is None or found[1] != instance.hex or found[3] != link:
        return None
    try:
        return Position.parse(found[2])
    except ValueError:
        return None
