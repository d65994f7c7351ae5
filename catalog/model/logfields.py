"""The ids that each line of the log has which the current task writes."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar

log_fields: ContextVar[Mapping[str, str]] = ContextVar("log_fields")


def begin_log_fields(**fields: str) -> None:
    """Have lines of the current task tell these, and nothing that they told before."""
    log_fields.set(fields)


def add_log_fields(**fields: str) -> None:
    """Have lines of the current task, and of those that it begins, tell these, too."""
    log_fields.set({**log_fields.get({}), **fields})
