"""The rate at which a stream of a node arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

LEAST_RATE = 100
"""The lowest acceptable rate of a stream, in bytes per second."""


@dataclass(slots=True, kw_only=True)
class StreamArrival:
    """The rate at which a stream arrives, without the time that the reader takes.

    Args:
        patience: the seconds of waiting after which the rate is checked.
    """

    patience: float
    waited: float = 0.0
    size: int = 0

    @property
    def is_too_slow(self) -> bool:
        return self.waited > self.patience and self.size < LEAST_RATE * self.waited

    async def timed(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        async for chunk in chunks:
            self.waited += loop.time() - begun
            self.size += len(chunk)
            yield chunk
            # Only now, since the time that the reader takes must not count against the node.
            begun = loop.time()
