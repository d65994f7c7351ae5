"""Runs long computations in a thread, so that the event loop continues to serve requests.

The event loop gets the interpreter every few milliseconds (`sys.setswitchinterval`), whereas the
computation of a single request would hold the interpreter for seconds. The number of threads is
one: each further thread would take as much of the interpreter as the event loop has. A client has
one computation in the queue of the thread at a time, so clients take turns.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import replace
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

from catalog.model.record import record

P = ParamSpec("P")
T = TypeVar("T")

# Smaller bodies take a few milliseconds at most.
_LARGE_BYTES = 32 * 1024
_MANY_ENTITIES = 100
_SLICE_SECONDS = 0.005

_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="long-work")
# Weak values: the lock of a client exists only while calls of the client hold or await the lock.
_turns: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()


@record
class _Work:
    """The work of the current task.

    Args:
        client: the client that the work is for; empty for tasks of the node itself.
        request_bytes: the size of the body of the request.
        abandoned: set once the caller has stopped waiting for the work.
    """

    client: str = ""
    request_bytes: int = 0
    abandoned: threading.Event | None = None


# A context variable, because functions without access to the request need the client for fairness.
_NODES_OWN = _Work()
_work: ContextVar[_Work] = ContextVar("work", default=_NODES_OWN)


def begin_work(client: str) -> None:
    """Declare the following work of the current task as work for a client."""
    _work.set(_Work(client=client))


def note_request_bytes(count: int) -> None:
    """Note the size of the current request's body for `is_long`."""
    _work.set(replace(_work.get(), request_bytes=count))


def is_long(entities: int = 0) -> bool:
    """Whether work is long, by the size of the current request or the number of entities."""
    return _work.get().request_bytes > _LARGE_BYTES or entities > _MANY_ENTITIES


class Slices:
    """Work on the event loop with reads of the database in between, cut into short slices."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    async def breathe(self) -> None:
        """Let the event loop serve other tasks if the slice has lasted long enough."""
        if time.monotonic() - self._begun > _SLICE_SECONDS:
            await asyncio.sleep(0)
            self._begun = time.monotonic()


class Abandoned(Exception):
    """The caller of long work has stopped waiting."""


def check_wanted() -> None:
    """End long work without a waiting caller; to be called between the steps of long work.

    Raises:
        Abandoned: the caller of the work has stopped waiting.
    """
    if (abandoned := _work.get().abandoned) is not None and abandoned.is_set():
        raise Abandoned


async def aside(entities: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function without I/O: in the thread if the work is long, else directly.

    Args:
        entities: the number of entities that the work concerns; 0 if unknown.
    """
    if not is_long(entities):
        return function(*args, **kwargs)
    return await in_thread(function, *args, **kwargs)


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function without I/O in the thread.

    A cancelled caller continues at once; the call ends at the next `check_wanted`, or else when
    the function returns.
    """
    loop = asyncio.get_running_loop()
    work = replace(_work.get(), abandoned=(abandoned := threading.Event()))
    context = contextvars.copy_context()
    context.run(_work.set, work)
    turn = _turns.setdefault((id(loop), work.client), asyncio.Lock())
    async with turn:
        try:
            call = functools.partial(context.run, function, *args, **kwargs)
            return await loop.run_in_executor(_thread, call)
        except asyncio.CancelledError:
            abandoned.set()
            raise
