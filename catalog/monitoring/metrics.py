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
    registry.register(StoredMetrics(await _figures_of(context)))
    if directory := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        # The sum of all processes of this node, whose values are in files there.
        MultiProcessCollector(registry, path=directory)  # type: ignore[no-untyped-call]
    else:
        registry.register(context.metrics.registry)
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    body = await in_thread(encode, registry)
    return web.Response(body=body, headers={"Content-Type": content_type})


async def _figures_of(context: Context) -> StoredFigures | None:
    """The stored figures; `None` while the database does not answer: the rest is told then.

    So it is told to callers who may see some groups only: the figures name links and others'
    subscriptions.
    """
    if visibility.get() is not None:
        return None
    try:
        async with asyncio.timeout(_MOST_SECONDS), context.database.pool.acquire() as connection:
            return await read_figures(connection, most=_MOST_TOLD)
    except (ServerBusy, TimeoutError):
        return None
