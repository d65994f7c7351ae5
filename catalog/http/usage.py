"""Metrics of a process: the database connections, shares and checks in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from aiohttp import web

from catalog.context import SharedState
from catalog.formats.checker import Checker
from catalog.http.body import BODY_MEMORY
from catalog.http.stream import LONG_POLLS, SINK_TESTS, STREAMS, WAITING_READS
from catalog.load.limiter import Bytes, Share
from catalog.store.connections import Pools
from catalog.telemetry.processmetrics import ProcessMetrics, Tally


def tell_usage(app: web.Application, shared: SharedState) -> None:
    """Fill the metrics from the counters of pools, shares and the checker at each collection."""
    shares: dict[str, Share | Bytes] = {
        "streams": app[STREAMS],
        "long_polls": app[LONG_POLLS],
        "waiting_reads": app[WAITING_READS],
        "sink_tests": app[SINK_TESTS],
        "checked_requests": shared.checked_requests.share,
        "body_bytes": app[BODY_MEMORY],
    }
    _tell_shares(shared.metrics, shares)
    _tell_pools(shared.metrics, shared.database.pools)
    _tell_checks(shared.metrics, shared.checker)


def _tell_shares(metrics: ProcessMetrics, shares: Mapping[str, Share | Bytes]) -> None:
    def read() -> None:
        for name, share in shares.items():
            metrics.share_used.labels(name).set(share.used)
            metrics.share_limit.labels(name).set(share.limit)

    metrics.read_with(read)


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
