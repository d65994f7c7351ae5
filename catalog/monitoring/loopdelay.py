"""Measures how late the event loop serves timers, and updates the metrics of other modules."""

from __future__ import annotations

import asyncio

from catalog.context import Context

_EVERY_SECONDS = 0.5


async def run_loop_delay(context: Context) -> None:
    """Measure for ever; a delay of a timer delays every request as much."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _EVERY_SECONDS
        await asyncio.sleep(_EVERY_SECONDS)
        context.metrics.loop_delay.observe(max(0.0, loop.time() - due))
        context.metrics.read()
