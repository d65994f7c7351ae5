"""Answers the metrics of a node in the text formats of Prometheus and OpenMetrics."""

from __future__ import annotations

import asyncio
import os

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector

from catalog.context import CONTEXT, Context
from catalog.longwork import in_thread
from catalog.model.errors import ServerBusy
from catalog.model.visibility import visibility
from catalog.monitoring.storedmetrics import StoredMetrics
from catalog.store.monitoring import StoredFigures, read_figures

# Each is a time series for ever; those that are furthest behind are told.
_MOST_TOLD = 100
_MOST_SECONDS = 5.0


async def get_metrics(request: web.Request) -> web.Response:
    """`GET /metrics`: what this process counts, and what the database tells of the whole node."""
    context = request.app[CONTEXT]
    context.metrics.read()
    registry = CollectorRegistry()
    is_up, figures = await _read_figures(context)
    registry.register(StoredMetrics(figures, is_up=is_up))
    if directory := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        # The sum of all processes of this node, whose values are in files there.
        MultiProcessCollector(registry, path=directory)  # type: ignore[no-untyped-call]
    else:
        registry.register(context.metrics.registry)
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    body = await in_thread(encode, registry)
    return web.Response(body=body, headers={"Content-Type": content_type})


async def _read_figures(context: Context) -> tuple[bool, StoredFigures | None]:
    """Whether the database answers, and its figures.

    Callers who may see some groups only get no figures: these name links and subscriptions of
    others.
    """
    try:
        async with asyncio.timeout(_MOST_SECONDS), context.database.pool.acquire() as connection:
            if visibility.get() is not None:
                await connection.fetchval("SELECT 1")
                return True, None
            return True, await read_figures(connection, most=_MOST_TOLD)
    except (ServerBusy, TimeoutError):
        return False, None
