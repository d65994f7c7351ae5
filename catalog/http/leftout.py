"""Keeps one entity that cannot be shown from failing the reads of others.

The node itself writes no such entity. Its row was damaged, or written by another program.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

import orjson
import structlog

from catalog.http.responses import to_json
from catalog.model.errors import DataRetrievalError

_log = structlog.get_logger(__name__)

_Shown = TypeVar("_Shown")

_MOST_REMEMBERED = 1000
_LONGEST_REASON = 300
_reported: OrderedDict[tuple[str, str], None] = OrderedDict()


def shown_or_none(xid: str, show: Callable[[], _Shown]) -> _Shown | None:
    """The result of `show`; `None`, and a line in the log, if it cannot show the entity at `xid`.

    Args:
        show: does no I/O, so that whatever it raises is about the entity.
    """
    try:
        return show()
    except Exception as error:
        report_left_out(xid, error)
        return None


def json_or_none(xid: str, show: Callable[[], Any]) -> orjson.Fragment | None:
    """The result of `show` as JSON text; `None`, as above, if it cannot be shown or written."""
    return shown_or_none(xid, lambda: orjson.Fragment(to_json(show())))


def report_left_out(xid: str, error: Exception) -> None:
    """Log that an entity is left out of answers, once for each reason."""
    said = error.detail if isinstance(error, DataRetrievalError) else str(error)
    reason = f"{type(error).__name__}: {said}"[:_LONGEST_REASON]
    if (xid, reason) in _reported:
        return
    _reported[xid, reason] = None
    if len(_reported) > _MOST_REMEMBERED:
        _reported.popitem(last=False)
    _log.error("an entity cannot be shown, and is left out", xid=xid, reason=reason)
