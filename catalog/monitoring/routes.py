"""The paths for monitoring a node."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.http.route import Route
from catalog.model.roles import Permission
from catalog.monitoring.health import get_live, get_ready
from catalog.monitoring.metrics import get_metrics
from catalog.operations.operation import Anyone, Operation

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
