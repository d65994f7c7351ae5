"""Writes the log: readable on a terminal, JSON elsewhere, and an exception in one line."""

from __future__ import annotations

import io
import logging
import sys
import traceback
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, Literal, TextIO

import structlog

from catalog.model.masking import described, printable, printable_lines
from catalog.model.tracecontext import current_trace

_MOST_FRAMES = 3
_ROOT = Path(__file__).parents[2]


def configure_logs(level: str, form: Literal["json", "console"] | None = None) -> None:
    """Configure the log, with events from `level` on.

    Args:
        level: a level of the standard library: debug, info, warning, error.
        form: unless given, `console` on a terminal and JSON elsewhere.
    """
    is_read = sys.stderr.isatty() if form is None else form == "console"
    # Tracebacks are plain because richer tracebacks print local variables, which can be secrets.
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    exceptions: list[structlog.typing.Processor] = [structlog.processors.format_exc_info]
    if is_read:
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=_write_traceback
        )
        exceptions = []
    if level != "debug":
        exceptions = [_shorten_traceback]
    if is_read:
        exceptions.append(_make_printable)
    # aiohttp would log a traceback for each malformed request. Errors of handlers are logged by
    # catalog/http/problems.py.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    structlog.configure(
        processors=[
            _add_trace,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *exceptions,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _add_trace(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Add the trace that the current task works for."""
    trace = current_trace.get()
    return event if trace is None else {"trace": trace.trace, **event}


def _shorten_traceback(
    _: object, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Describe the exception of a log event, and the place where the exception was raised.

    A processor of structlog. For a group, the first exception is described.
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


def _make_printable(_: object, __: str, event: structlog.typing.EventDict) -> dict[str, object]:
    """Escape texts from outside; other values are shown by their `repr`."""
    return {k: printable(v) if isinstance(v, str) else v for k, v in event.items()}


def _write_traceback(stream: TextIO, error: structlog.typing.ExcInfo) -> None:
    text = io.StringIO()
    structlog.dev.plain_traceback(text, error)
    stream.write(printable_lines(text.getvalue()))
