"""Starts the brokers of tests for benchmarks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

_Broker = TypeVar("_Broker")


@contextlib.asynccontextmanager
async def running(
    start: Callable[[Path], AbstractContextManager[_Broker]], directory: Path, name: str
) -> AsyncIterator[_Broker]:
    """A broker whose files are in a new directory with this name."""
    made = directory / name
    made.mkdir()
    with contextlib.ExitStack() as stack:
        # It blocks while it starts, or has an event loop of its own.
        yield await asyncio.to_thread(stack.enter_context, start(made))
