"""The metrics that a process counts: requests, writes, changes, and resources in use."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Sequence
from typing import Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)

from catalog.model.change import Change

_DELAYS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class ProcessMetrics:
    """The metrics of a process, in a separate registry.

    Labels have few values each: routes as the routing table has them, not paths; types of problems;
    kinds of entities. Readers copy the counts that exist elsewhere, whenever the metrics are
    requested and twice a second, since every process of the node shows the metrics of the node.
    """

    def __init__(self) -> None:
        self._observed: dict[tuple[str, str, str], Histogram] = {}
        self._readers: list[Callable[[], None]] = []
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self.requests = Histogram(
            "concord_http_request_seconds",
            "Seconds until a request was answered, long polls and streams included",
            ("route", "method", "status"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.problems = self._counter(
            "concord_http_problems", "Requests that were answered with an error document", "type"
        )
        self.writes = self._counter(
            "concord_writes", "Writes of clients: written, unchanged or refused", "outcome"
        )
        self.changes = self._counter(
            "concord_changes",
            "Changes that this process has written, those that links brought included",
            "kind",
            "action",
        )
        self.loop_delay = Histogram(
            "concord_event_loop_delay_seconds",
            "Seconds by which the event loop served a timer too late",
            buckets=_DELAYS,
            registry=self.registry,
        )
        self.pool_used = self._gauge(
            "concord_pool_used", "Connections to the database in use", "pool"
        )
        self.pool_limit = self._gauge(
            "concord_pool_limit", "Connections to the database that may be in use", "pool"
        )
        self.pool_waiting = self._gauge(
            "concord_pool_waiting", "Tasks that wait for a connection to the database", "pool"
        )
        self.share_used = self._gauge(
            "concord_share_used",
            "Work of clients under way: streams, long polls, and others; bytes of bodies",
            "share",
        )
        self.share_limit = self._gauge(
            "concord_share_limit", "Work of clients that may be under way", "share"
        )
        self.cache_reads = self._counter(
            "concord_cache_reads", "Reads of the answers that are remembered", "result"
        )
        self.cache_bytes = self._gauge("concord_cache_bytes", "Memory of remembered answers")
        self.checks = self._counter(
            "concord_checks",
            "Checks of documents: done, known from before, or unfinished",
            "result",
        )
        self.check_seconds = self._counter(
            "concord_check_seconds", "Seconds that checks of documents have taken"
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        """A gauge that is summed over the processes of a node."""
        return Gauge(name, text, labels, registry=self.registry, multiprocess_mode="livesum")

    def read_with(self, reader: Callable[[], None]) -> None:
        """Call a function whenever the metrics are read, to update metrics."""
        self._readers.append(reader)

    def read(self) -> None:
        """Update metrics by the readers."""
        for reader in self._readers:
            reader()

    def observe_request(self, route: str, method: str, status: str, seconds: float) -> None:
        """Count a request; labels are cached, as each look-up of labels costs a lock."""
        labels = (route, method, status)
        found = self._observed.get(labels)
        if found is None:
            found = self._observed[labels] = self.requests.labels(*labels)
        found.observe(seconds)

    def count_write(self, outcome: Literal["written", "unchanged", "refused"]) -> None:
        """Count a write of a client."""
        self.writes.labels(outcome).inc()

    def count_changes(self, changes: Sequence[Change]) -> None:
        """Count the changes of a write."""
        counts = Counts((change.kind, change.action) for change in changes)
        for (kind, action), count in counts.items():
            self.changes.labels(kind, action).inc(count)


class Tally:
    """A number that only grows, with the growth since the last call added to a counter."""

    def __init__(self, counter: Counter, *labels: str) -> None:
        self._counter = counter.labels(*labels) if labels else counter
        self._told = 0.0

    def tell(self, number: float) -> None:
        if number > self._told:
            self._counter.inc(number - self._told)
            self._told = number
