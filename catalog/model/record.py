"""Classes of values that every request makes in large numbers: quick to make, never changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Make a class a data class as `@dataclass(frozen=True, slots=True, kw_only=True)` does.

    Only the type checker prevents changes of the values. A class that is frozen at run time sets
    each attribute by a call, so that an entity takes three times as long to make.
    """
    return dataclass(slots=True, kw_only=True, unsafe_hash=True)(cls)
