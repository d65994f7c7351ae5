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

# Each is a time series for ever; those that are furthest behind are told.
_MOST_TOLD = 100
_MOST_SECONDS = 5.0


async def get_metrics(request: web.Request) -> web.Response:
    """`GET /metrics`: what this process counts, and what the database tells of the whole node."""
    context = request[CONTEXT]
    context.metrics.read()
    registry = CollectorRegistry()
    is_up, figures = await _read_figures(context)
    registry.register(StoredMetrics(figures, is_up=is_up))
    registry.register(_MachineMetrics(context.settings))
    if directory := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        # The sum of all processes of this node, whose values are in files there.
        MultiProcessCollector(registry, path=directory)  # type: ignore[no-untyped-call]
    else:
        registry.register(context.metrics.registry)
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    body = await in_thread(encode, registry)
    return web.Response(body=body, headers={"Content-Type": content_type})


class _MachineMetrics(Collector):
    """What the node's machine tells: the disk of its data directory, and its certificates."""

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
    """When the first certificate of a file ends, as of the first time that it is asked for.

    A process shows the certificate that it was started with, whatever the file has by now.
    """
    return min(certificate_ends(path))


async def _read_figures(context: Context) -> tuple[bool, StoredFigures | None]:
    """Whether the database answers, and its figures.

    Callers who may see some groups only get no figures: these name links and subscriptions of
    others.
    """
    try:
        async with asyncio.timeout(_MOST_SECONDS), context.database.acquire() as connection:
            if context.caller.is_restricted:
                await connection.fetchval("SELECT 1")
                return True, None
            return True, await read_figures(connection, most=_MOST_TOLD)
    except (ServerBusy, TimeoutError):
        return False, None
