"""How events are logged: one line each to standard error, never with the values of locals."""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logs(level: str) -> None:
    """Log from `level` on: readable on a terminal, JSON elsewhere.

    Args:
        level: a name of the standard library's: debug, info, warning, error.
    """
    # Tracebacks are plain because richer ones print locals, and secrets with them.
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    exceptions: list[structlog.typing.Processor] = [structlog.processors.format_exc_info]
    if sys.stderr.isatty():
        renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        exceptions = []
    # Whoever does not speak HTTP gets a 400; a traceback for each would fill the disk. What
    # fails in a handler does not come here: the middleware logs that.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    structlog.configure(
        processors=[
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
