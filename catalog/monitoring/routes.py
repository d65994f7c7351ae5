"""The paths by which a node is watched."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from catalog.monitoring.health import get_live, get_ready
from catalog.monitoring.metrics import get_metrics

routes: Sequence[web.RouteDef] = (
    web.get("/metrics", get_metrics),
    web.get("/health/live", get_live),
    web.get("/health/ready", get_ready),
)
