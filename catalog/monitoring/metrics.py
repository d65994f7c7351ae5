"""Answers the metrics of a node in the text formats of Prometheus and OpenMetrics."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from catalog.config import Settings
from catalog.context import CONTEXT, Context
from catalog.load.longwork import in_thread
from catalog.model.errors import ServerBusy
from catalog.monitoring.machinechecks import certificate_ends
from catalog.monitoring.storedmetrics import StoredMetrics
from catalog.store.monitoring import StoredFigures, read_figures

# Each id is a time series for ever, so only the subscriptions and links furthest behind are shown.
_MOST_TOLD = 100
_MOST_SECONDS = 5.0


async def get_metrics(request: web.Request) -> web.Response:
    """`GET /metrics`: counts of the processes, and figures of the node from the database."""
    context = request[CONTEXT]
    context.metrics.read()
    registry = CollectorRegistry()
    is_up, figures = await _read_figures(context)
    registry.register(StoredMetrics(figures, is_up=is_up))
    registry.register(_MachineMetrics(context.settings))
    if directory := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        # The sum over the processes of the node, which keep the values in files of the directory.
        MultiProcessCollector(registry, path=directory)  # type: ignore[no-untyped-call]
    else:
        registry.register(context.metrics.registry)
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    body = await in_thread(encode, registry)
    return web.Response(body=body, headers={"Content-Type": content_type})


class _MachineMetrics(Collector):
    """Metrics of the node's machine: the disk of the data directory, and the certificates."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def collect(self) -> Iterator[Metric]:
        size = GaugeMetricFamily("concord_disk_bytes", "Size of the disk of the data directory")
        free = GaugeMetricFamily("concord_disk_free_bytes", "Free bytes on that disk")
        directory = self._settings.data_dir.expanduser()
        if directory.exists():
            usage = shutil.disk_usage(directory)
            size.add_metric((), usage.total)
            free.add_metric((), usage.free)
        yield size
        yield free
        left = GaugeMetricFamily(
            "concord_certificate_left_seconds",
            "Seconds until a certificate of the node ends; 0 if its file cannot be read",
            labels=("setting",),
        )
        now = datetime.now(UTC)
        for setting, path in self._settings.certificates.items():
            try:
                seconds = (_end_of(path) - now).total_seconds()
            except (OSError, ValueError):
                seconds = 0.0
            left.add_metric((setting,), seconds)
        yield left


@cache
def _end_of(path: Path) -> datetime:
    """The earliest end of the certificates of a file, as of the first call.

    A process shows the certificate that it was started with, whatever the file has by now.
    """
    return min(certificate_ends(path))


async def _read_figures(context: Context) -> tuple[bool, StoredFigures | None]:
    """Whether the database answers, and the figures.

    Callers limited to groups get no figures, which name links and subscriptions of other callers.
    """
    try:
        async with asyncio.timeout(_MOST_SECONDS), context.database.acquire() as connection:
            if context.caller.is_restricted:
                await connection.fetchval("SELECT 1")
                return True, None
            return True, await read_figures(connection, most=_MOST_TOLD)
    except (ServerBusy, TimeoutError):
        return False, None
