"""The producers of a process, which sinks of the same cluster and credential share."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from catalog.config import Settings
from catalog.http.descriptors import most_outbound_connections
from catalog.sinks.kafkaproducer import KafkaCluster, KafkaProducer

# A producer has a few connections at least: one to each broker, and one for a moment to begin with.
_CONNECTIONS_EACH = 4
_IDLE_SECONDS = 60.0


class TooManyClusters(OSError):
    """Every producer that there may be is in use."""


class _Shared:
    def __init__(self, producer: KafkaProducer, starting: asyncio.Task[None]) -> None:
        self.producer = producer
        self.starting = starting
        self.users = 0
        self.retiring: asyncio.TimerHandle | None = None


class KafkaProducers:
    """Lends producers, each to any number of sinks.

    A producer that failed is lent to nobody any more. One that is not lent is closed after a
    while, or when another one needs its place.
    """

    def __init__(self, settings: Settings, *, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._settings = settings
        self._idle_seconds = idle_seconds
        self._most = max(1, most_outbound_connections(settings) // _CONNECTIONS_EACH)
        self._open: dict[KafkaCluster, _Shared] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    @contextlib.asynccontextmanager
    async def lend(self, cluster: KafkaCluster) -> AsyncIterator[KafkaProducer]:
        """Lend a producer that is connected.

        Raises:
            KafkaError, OSError: it cannot connect.
        """
        shared = self._shared(cluster)
        shared.users += 1
        try:
            # Whoever waits for it may give up; the others go on waiting.
            await asyncio.shield(shared.starting)
            yield shared.producer
        finally:
            shared.users -= 1
            self._given_back(cluster, shared)

    async def close(self) -> None:
        """Close all producers."""
        for cluster, shared in [*self._open.items()]:
            self._retire(cluster, shared)
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _shared(self, cluster: KafkaCluster) -> _Shared:
        shared = self._open.get(cluster)
        if shared is None or shared.producer.is_broken:
            self._make_room()
            producer = KafkaProducer(cluster, self._settings)
            shared = self._open[cluster] = _Shared(producer, self._run(producer.start()))
        if shared.retiring is not None:
            shared.retiring.cancel()
            shared.retiring = None
        return shared

    def _make_room(self) -> None:
        if len(self._open) < self._most:
            return
        for cluster, shared in self._open.items():
            if not shared.users:
                self._retire(cluster, shared)
                return
        raise TooManyClusters(f"this node uses {self._most} Kafka clusters already")

    def _given_back(self, cluster: KafkaCluster, shared: _Shared) -> None:
        if shared.users:
            return
        if shared.producer.is_broken:
            self._retire(cluster, shared)
            return
        loop = asyncio.get_running_loop()
        shared.retiring = loop.call_later(self._idle_seconds, self._retire, cluster, shared)

    def _retire(self, cluster: KafkaCluster, shared: _Shared) -> None:
        """Close a producer in the background."""
        if self._open.get(cluster) is shared:
            del self._open[cluster]
        if shared.retiring is not None:
            shared.retiring.cancel()
        shared.starting.cancel()
        self._run(shared.producer.close())

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Those who waited were told; nobody else has to be.
            task.exception()
