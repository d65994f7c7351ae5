"""The client on whose behalf the current task works."""

from __future__ import annotations

from contextvars import ContextVar

# Its IPv4 address or IPv6 network of 64 bits; empty in tasks of the node itself.
caller: ContextVar[str] = ContextVar("caller", default="")
