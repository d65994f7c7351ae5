"""The part of the catalog that the current task's client may see: some groups, or everything."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Visibility:
    """The rules that let a client see groups, with all that is in them.

    The registry itself is always visible. Everything else does not exist for the client.
    """

    rules: tuple[str, ...]


visibility: ContextVar[Visibility | None] = ContextVar("visibility", default=None)
"""That of the current task; `None` stands for everything."""
