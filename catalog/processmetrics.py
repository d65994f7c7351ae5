"""The metrics that one process counts itself: requests, refusals, changes, delays of its loop."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)

from catalog.model.change import Change

_DELAYS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class ProcessMetrics:
    """The metrics of a process, in a registry of their own.

    Labels have few values each: routes as the routing table has them, not paths; types of
    problems; kinds of entities.
    """

    def __init__(self) -> None:
        self._observed: dict[tuple[str, str, str], Histogram] = {}
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
        self.problems = Counter(
            "concord_http_problems",
            "Requests that were answered with an error document",
            ("type",),
            registry=self.registry,
        )
        self.changes = Counter(
            "concord_changes",
            "Changes that this process has written, those that links brought included",
            ("kind", "action"),
            registry=self.registry,
        )
        self.loop_delay = Histogram(
            "concord_event_loop_delay_seconds",
            "Seconds by which the event loop served a timer too late",
            buckets=_DELAYS,
            registry=self.registry,
        )

    def observe_request(self, route: str, method: str, status: str, seconds: float) -> None:
        """Count a request. Its labels are looked up in a dictionary, as each one costs a lock."""
        labels = (route, method, status)
        found = self._observed.get(labels)
        if found is None:
            found = self._observed[labels] = self.requests.labels(*labels)
        found.observe(seconds)

    def count_changes(self, changes: Sequence[Change]) -> None:
        """Count the changes of one write."""
        for change in changes:
            self.changes.labels(change.kind, change.action).inc()
