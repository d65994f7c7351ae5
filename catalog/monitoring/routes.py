"""The paths for monitoring a node: metrics, liveness, and readiness for requests."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence

from aiohttp import web

from catalog.config import Settings
from catalog.context import CONTEXT, Context
from catalog.http.responses import json_response
from catalog.http.route import Route
from catalog.model.errors import ServerBusy
from catalog.model.roles import Permission
from catalog.monitoring.metrics import get_metrics
from catalog.operations.operation import Anyone, Operation
from catalog.store.monitoring import ping

_MOST_SECONDS = 2.0
# Two segments of PostgreSQL's log: the server ends without space for the next segment.
_LEAST_BYTES = 32 * 2**20


async def get_live(_: web.Request) -> web.Response:
    """`GET /health/live`: 200 while the process answers at all; if not, restart it."""
    return json_response({"status": "alive"})


async def get_ready(request: web.Request) -> web.Response:
    """`GET /health/ready`: 200 if the database answers within two seconds and can store, else 503.

    The disk counts as full if a write found no space and no space was found since, or if the disk
    of the node's own database has less than 32 MiB left.
    """
    context = request[CONTEXT]
    if reason := await _reason_to_wait(context):
        headers = {"Retry-After": "1"}
        return json_response({"status": "waiting", "reason": reason}, status=503, headers=headers)
    return json_response({"status": "ready"})


async def _reason_to_wait(context: Context) -> str:
    """The reason why the node can do nothing for clients; "" if the node is ready."""
    availability = context.database.shared.availability
    if availability.is_full or _lacks_space(context.settings):
        return "the disk of the database is full: free space there"
    if availability.is_away:
        return "the database is away"
    try:
        async with asyncio.timeout(_MOST_SECONDS), context.database.acquire() as connection:
            await ping(connection)
    except (ServerBusy, TimeoutError):
        return f"the database does not answer within {_MOST_SECONDS:.0f} seconds"
    return ""


def _lacks_space(settings: Settings) -> bool:
    directory = settings.data_dir.expanduser()
    if settings.database_url is not None or not directory.exists():
        return False
    return shutil.disk_usage(directory).free < _LEAST_BYTES


# A probe has no credential, and a refused probe would make the node appear dead.
_LIVE, _READY = (
    Operation(
        method="GET",
        path=path,
        needs=Anyone.UNASKED,
        is_bounded=False,
        is_counted=False,
    )
    for path in ("/health/live", "/health/ready")
)
_METRICS = Operation(method="GET", path="/metrics", needs=Permission.READ, is_bounded=False)

routes: Sequence[Route] = (
    Route(_METRICS, get_metrics),
    Route(_LIVE, get_live),
    Route(_READY, get_ready),
)
