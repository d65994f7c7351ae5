"""What a node tells about itself: metrics, liveness, readiness, and the settings in force."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from catalog.context import CONTEXT, Context
from catalog.http.responses import json_response
from catalog.http.route import Route
from catalog.load.workthread import in_thread
from catalog.model.errors import ServerBusy
from catalog.model.roles import Permission
from catalog.monitoring.nodechecks import certificate_ends
from catalog.operations.nodestate import (
    READ_SETTINGS,
    SettingInForce,
    SettingsInForce,
    SettingSource,
)
from catalog.operations.operation import Anyone, Operation
from catalog.settings import Settings
from catalog.store.monitoring import Row, StoredFigures, ping, read_figures

_DELAY_EVERY_SECONDS = 0.5
_READY_SECONDS = 2.0
# Two segments of PostgreSQL's log: the server ends without space for the next segment.
_LEAST_BYTES = 32 * 2**20


# The rows of `StoredFigures` and their labels; for each column, the name and text of its metric.
_STORED: Mapping[tuple[str, Sequence[str]], Mapping[str, tuple[str, str]]] = {
    ("log", ()): {
        "bytes": ("concord_database_bytes", "Size of the database"),
        "entities": ("concord_entities", "Entities, as of the last statistics"),
        "entries": ("concord_log_entries", "Changes that the log has"),
        "newest_seq": ("concord_log_head", "Number of the last change in the log"),
        "oldest_seconds": ("concord_log_oldest_age_seconds", "Age of the oldest change in the log"),
        "newest_seconds": ("concord_log_newest_age_seconds", "Age of the newest change in the log"),
        "backup_seconds": (
            "concord_backup_age_seconds",
            "Age of what the last backup has; none if there never was one",
        ),
    },
    ("totals", ()): {
        "delivered": ("concord_events_delivered_total", "Events that sinks took"),
        "failed": ("concord_events_failed_total", "Events that were given up"),
        "failedattempts": (
            "concord_delivery_attempts_failed_total",
            "Attempts to deliver that failed",
        ),
        "applied": ("concord_copies_applied_total", "Copies that all links have applied"),
        "errors": ("concord_links_errors_total", "Requests of all links that failed"),
    },
    ("subscriptions", ("state",)): {"number": ("concord_subscriptions", "Subscriptions")},
    ("slowest_subscriptions", ("id",)): {
        "delivered": (
            "concord_subscription_delivered_total",
            "Events that the sink of a subscription took",
        ),
        "failed": (
            "concord_subscription_failed_total",
            "Events of a subscription that were given up",
        ),
    },
    ("slowest_subscriptions", ("id", "state")): {
        "changes": (
            "concord_subscription_lag_changes",
            "Changes that a subscription has yet to pass",
        ),
        "seconds": (
            "concord_subscription_lag_seconds",
            "Age of the oldest change that a subscription has yet to pass",
        ),
        "failures": ("concord_subscription_failures", "Attempts in a row that failed"),
    },
    ("links", ("mode", "state")): {"number": ("concord_links", "Links")},
    ("worst_links", ("id", "mode", "state")): {
        "seconds": (
            "concord_link_lag_seconds",
            "Greatest age of a change that a link has not brought",
        ),
    },
    ("worst_links", ("id", "mode")): {
        "conflicts": ("concord_link_conflicts", "Copies that were not applied"),
        "failures": ("concord_link_failures", "Attempts in a row that failed"),
        "differing": (
            "concord_link_differing",
            "Entities that a link and its peer have in different states",
        ),
        "behind": (
            "concord_link_lag_changes",
            "Changes that a link has yet to bring, as its source told last",
        ),
        "applied": ("concord_link_applied_total", "Copies that a link has applied"),
        "errors": ("concord_link_errors_total", "Requests of a link that failed"),
    },
    ("link_credentials", ("id", "part")): {
        "seconds": (
            "concord_link_credential_left_seconds",
            "Seconds until a certificate or token that a link shows ends",
        ),
    },
    ("reconciliations", ("outcome",)): {
        "seconds": (
            "concord_reconciliation_age_seconds",
            "Seconds since a job last reported a comparison of this catalog with this outcome",
        ),
    },
    ("differences", ("finding",)): {
        "number": (
            "concord_reconciliation_differences",
            "Differences at this catalog that the last complete comparison found",
        ),
    },
}


class StoredMetrics(Collector):
    """The figures of a database at a point in time; `None` shows no figures."""

    def __init__(self, figures: StoredFigures | None, *, is_up: bool) -> None:
        self._figures = figures
        self._is_up = is_up

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("concord_database_up", "Whether the database answers", self._is_up)
        if self._figures is None:
            return
        for (name, labels), columns in _STORED.items():
            rows: Row | list[Row] = getattr(self._figures, name)
            for column, (metric, text) in columns.items():
                is_counter = metric.endswith("_total")
                kind = CounterMetricFamily if is_counter else GaugeMetricFamily
                family = kind(metric, text, labels=labels)
                for row in rows if isinstance(rows, list) else [rows]:
                    if row[column] is not None:
                        family.add_metric([row[label] for label in labels], row[column])
                yield family


# Each id is a time series for ever, so only the subscriptions and links furthest behind are shown.
_MOST_TOLD = 100
_FIGURES_SECONDS = 5.0


async def get_metrics(request: web.Request) -> web.Response:
    """`GET /metrics`: counts of the processes, and figures of the node from the database.

    The formats are the text formats of Prometheus and OpenMetrics.
    """
    context = request[CONTEXT]
    context.shared.metrics.read()
    registry = CollectorRegistry()
    is_up, figures = await _read_figures(context)
    registry.register(StoredMetrics(figures, is_up=is_up))
    registry.register(_MachineMetrics(context.settings))
    if directory := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        # The sum over the processes of the node, which keep the values in files of the directory.
        MultiProcessCollector(registry, path=directory)  # type: ignore[no-untyped-call]
    else:
        registry.register(context.shared.metrics.registry)
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
        async with asyncio.timeout(_FIGURES_SECONDS), context.database.acquire() as connection:
            if context.caller.is_restricted:
                await connection.fetchval("SELECT 1")
                return True, None
            return True, await read_figures(connection, most=_MOST_TOLD)
    except (ServerBusy, TimeoutError):
        return False, None


async def run_loop_delay(context: Context) -> None:
    """Measure for ever; a delay of a timer delays every request as much."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _DELAY_EVERY_SECONDS
        await asyncio.sleep(_DELAY_EVERY_SECONDS)
        context.shared.metrics.loop_delay.observe(max(0.0, loop.time() - due))
        context.shared.metrics.read()


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
        async with asyncio.timeout(_READY_SECONDS), context.database.acquire() as connection:
            await ping(connection)
    except (ServerBusy, TimeoutError):
        return f"the database does not answer within {_READY_SECONDS:.0f} seconds"
    return ""


def _lacks_space(settings: Settings) -> bool:
    directory = settings.data_dir.expanduser()
    if settings.database_url is not None or not directory.exists():
        return False
    return shutil.disk_usage(directory).free < _LEAST_BYTES


async def read_settings_in_force(request: web.Request) -> SettingsInForce:
    """List the settings of the process that answers, without secrets."""
    settings = request[CONTEXT].settings
    try:
        of_environment: Settings | None = Settings()
    except ValueError:
        # The command line has replaced what would not be valid.
        of_environment = None
    return SettingsInForce(
        settings=[
            _in_force(settings, name, value, of_environment)
            for name, value in settings.masked().items()
        ]
    )


def _in_force(
    settings: Settings, name: str, value: object, of_environment: Settings | None
) -> SettingInForce:
    source: SettingSource = "command"
    if name not in settings.model_fields_set:
        source = "default"
    elif getattr(of_environment, name, None) == getattr(settings, name):
        source = "environment"
    field = Settings.model_fields[name]
    default = field.get_default(call_default_factory=True)
    return SettingInForce(
        name=f"CONCORD_{name.upper()}",
        value=value,
        default=str(default) if isinstance(default, Path) else default,
        source=source,
        description=" ".join((field.description or "").split()),
    )


# A probe has no credential, and a refused probe would make the node appear dead.
_LIVE, _READY = (
    Operation(method="GET", path=path, needs=Anyone.UNASKED, is_bounded=False, is_counted=False)
    for path in ("/health/live", "/health/ready")
)
_METRICS = Operation(method="GET", path="/metrics", needs=Permission.READ, is_bounded=False)

routes: Sequence[Route] = (
    Route(_METRICS, get_metrics),
    Route(_LIVE, get_live),
    Route(_READY, get_ready),
    Route(READ_SETTINGS, read_settings_in_force),
)
