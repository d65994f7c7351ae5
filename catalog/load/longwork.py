"""Does long work of the processor in a thread, so that the loop goes on serving others.

The loop gets its share of the interpreter every few milliseconds (`sys.setswitchinterval`), while
the work of one request would hold it for seconds. There is one such thread: with more, each would
take as much as the loop has. A client has one piece of work in its queue at a time, so clients
take turns.
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

# What is smaller takes a few milliseconds at most.
_LARGE_BYTES = 32 * 1024
_MANY_ENTITIES = 100
_SLICE_SECONDS = 0.005

_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="long-work")
_turns: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()


@record
class _Work:
    """The work of the current task.

    Args:
        client: takes turns with others; empty for the node's own tasks.
        request_bytes: the size of the body of the request that the work is for.
        abandoned: set once nobody waits for the work any more.
    """

    client: str = ""
    request_bytes: int = 0
    abandoned: threading.Event | None = None


# Fairness between clients needs it in functions that know of no request.
_NODES_OWN = _Work()
_work: ContextVar[_Work] = ContextVar("work", default=_NODES_OWN)


def begin_work(client: str) -> None:
    """Let what the current task does from now on be work for a client."""
    _work.set(_Work(client=client))


def note_request_bytes(count: int) -> None:
    """Let `is_long` know the size of the current request's body."""
    _work.set(replace(_work.get(), request_bytes=count))


def is_long(entities: int = 0) -> bool:
    """Whether work is long, by the size of the current request or the entities it concerns."""
    return _work.get().request_bytes > _LARGE_BYTES or entities > _MANY_ENTITIES


class Slices:
    """Work on the loop that reads the database in between: others are served after each slice."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    async def breathe(self) -> None:
        """Let others be served if the slice has lasted long enough."""
        if time.monotonic() - self._begun > _SLICE_SECONDS:
            await asyncio.sleep(0)
            self._begun = time.monotonic()


class Abandoned(Exception):
    """The one who asked for long work is gone."""


def check_wanted() -> None:
    """End long work that nobody waits for any more; call it between its steps.

    Raises:
        Abandoned
    """
    if (abandoned := _work.get().abandoned) is not None and abandoned.is_set():
        raise Abandoned


async def aside(entities: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that does no I/O: in the thread if its work is long, else at once.

    Args:
        entities: the number of entities that the work concerns, as far as it is known.
    """
    if not is_long(entities):
        return function(*args, **kwargs)
    return await in_thread(function, *args, **kwargs)


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that does no I/O in the thread.

    A caller that is cancelled goes on at once; the call ends where it next checks (see
    `check_wanted`), or else when it is done.
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
