"""Has metrics tell what a process has in use: connections to the database, and checks."""

from __future__ import annotations

from dataclasses import fields

from catalog.context import SharedState
from catalog.formats import Checker
from catalog.processmetrics import ProcessMetrics, Tally
from catalog.store.connections import Pools


def tell_usage(shared: SharedState) -> None:
    """Read, whenever the metrics of a process are read, what counts for itself."""
    _tell_pools(shared.metrics, shared.database.pools)
    _tell_checks(shared.metrics, shared.checker)


def _tell_pools(metrics: ProcessMetrics, pools: Pools) -> None:
    def read() -> None:
        for field in fields(pools):
            pool = getattr(pools, field.name)
            metrics.pool_used.labels(field.name).set(pool.used)
            metrics.pool_limit.labels(field.name).set(pool.limit)
            metrics.pool_waiting.labels(field.name).set(pool.waiting)

    metrics.read_with(read)


def _tell_checks(metrics: ProcessMetrics, checker: Checker) -> None:
    done, known, unfinished = (
        Tally(metrics.checks, result) for result in ("done", "known", "unfinished")
    )
    seconds = Tally(metrics.check_seconds)

    def read() -> None:
        done.tell(checker.done)
        known.tell(checker.known)
        unfinished.tell(checker.unfinished)
        seconds.tell(checker.spent)

    metrics.read_with(read)
