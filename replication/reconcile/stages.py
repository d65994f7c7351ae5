"""The steps of a run: announced when they start, timed when they end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Stages:
    """Tells `progress` of each stage and keeps the seconds that each took."""

    progress: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    elapsed: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str, line: str) -> Iterator[None]:
        """Time what is done inside as `name`; `line` says what it is."""
        self.progress(line)
        started = self.clock()
        yield
        self.elapsed[name] = round(self.clock() - started, 3)
