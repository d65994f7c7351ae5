"""Shortens the tracebacks in the log to one line."""

from __future__ import annotations

import sys
import traceback
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from catalog.model.masking import described

_MOST_FRAMES = 3
_ROOT = Path(__file__).parent.parent


def shorten_traceback(
    _: object, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Say of the exception of a log event what it is, and where it was raised.

    A processor of structlog. Of a group, the first exception is told.
    """
    given = event.pop("exc_info", None)
    error = sys.exc_info()[1] if given is True else given
    if not isinstance(error, BaseException):
        return event
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frames = traceback.extract_tb(error.__traceback__)[: -_MOST_FRAMES - 1 : -1]
    event["error"] = described(error)
    event["at"] = " < ".join(f"{_short(f.filename)}:{f.lineno} {f.name}" for f in frames)
    return event


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(_ROOT)) if path.is_relative_to(_ROOT) else path.name
