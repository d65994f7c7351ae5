"""The part of the catalog that the current task's client may write: some groups, or everything."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from catalog.model.errors import XRegistryError


@dataclass(frozen=True, slots=True)
class WriteScope:
    """The rules that let a client write to groups; it sees these groups, too.

    Args:
        refusal_of: makes the error that refuses to write at a path elsewhere.
    """

    rules: tuple[str, ...]
    refusal_of: Callable[[str], XRegistryError]


writescope: ContextVar[WriteScope | None] = ContextVar("writescope", default=None)
"""That of the current task; `None` stands for everywhere."""
