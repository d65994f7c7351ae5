"""The client on whose behalf the current task works."""

from __future__ import annotations

from contextvars import ContextVar

# Its address; empty in tasks of the node itself.
caller: ContextVar[str] = ContextVar("caller", default="")
