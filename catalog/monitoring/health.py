"""What a node tells about itself: metrics, liveness, readiness, and the settings in force."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
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


class StoredMetrics(Collector):
    """The figures of a database at a point in time; `None` shows no figures."""

    def __init__(self, figures: StoredFigures | None, *, is_up: bool) -> None:
        self._figures = figures
        self._is_up = is_up

    def collect(self) -> Iterator[Metric]:
        yield _gauge("concord_database_up", "Whether the database answers", float(self._is_up))
        if self._figures is not None:
            yield from _sizes(self._figures.log)
            yield from _backup(self._figures.log)
            yield from _subscriptions(self._figures)
            yield from _links(self._figures)
            yield from _reconciliations(self._figures)


def _sizes(log: Row) -> Iterator[Metric]:
    yield _gauge("concord_database_bytes", "Size of the database", log["bytes"])
    yield _gauge("concord_entities", "Entities, as of the last statistics", log["entities"])
    yield _gauge("concord_log_entries", "Changes that the log has", log["entries"])
    yield _gauge("concord_log_head", "Number of the last change in the log", log["newest_seq"])
    for which in ("oldest", "newest"):
        if (seconds := log[f"{which}_seconds"]) is not None:
            yield _gauge(
                f"concord_log_{which}_age_seconds", f"Age of the {which} change in the log", seconds
            )


def _backup(log: Row) -> Iterator[Metric]:
    text = "Age of what the last backup has; none if there never was one"
    told = [log] if log["backup_seconds"] is not None else []
    yield _by((), "concord_backup_age_seconds", text, told, "backup_seconds")


def _subscriptions(figures: StoredFigures) -> Iterator[Metric]:
    states, slowest, totals = figures.subscriptions, figures.slowest_subscriptions, figures.totals
    yield _by(("state",), "concord_subscriptions", "Subscriptions", states, "number")
    yield _total("concord_events_delivered", "Events that sinks took", totals["delivered"])
    yield _total("concord_events_failed", "Events that were given up", totals["failed"])
    failed = "Attempts to deliver that failed"
    yield _total("concord_delivery_attempts_failed", failed, totals["failedattempts"])
    for column, text in (
        ("delivered", "Events that the sink of a subscription took"),
        ("failed", "Events of a subscription that were given up"),
    ):
        yield _by(
            ("id",), f"concord_subscription_{column}", text, slowest, column, CounterMetricFamily
        )
    labels = ("id", "state")
    lag = "Changes that a subscription has yet to pass"
    yield _by(labels, "concord_subscription_lag_changes", lag, slowest, "changes")
    age = "Age of the oldest change that a subscription has yet to pass"
    yield _by(labels, "concord_subscription_lag_seconds", age, slowest, "seconds")
    failures = "Attempts in a row that failed"
    yield _by(labels, "concord_subscription_failures", failures, slowest, "failures")


def _links(figures: StoredFigures) -> Iterator[Metric]:
    worst = figures.worst_links
    yield _by(("mode", "state"), "concord_links", "Links", figures.links, "number")
    known = [row for row in worst if row["seconds"] is not None]
    lag = "Greatest age of a change that a link has not brought"
    yield _by(("id", "mode", "state"), "concord_link_lag_seconds", lag, known, "seconds")
    labels = ("id", "mode")
    yield _by(labels, "concord_link_conflicts", "Copies that were not applied", worst, "conflicts")
    yield _by(labels, "concord_link_failures", "Attempts in a row that failed", worst, "failures")
    compared = [row for row in worst if row["differing"] is not None]
    differing = "Entities that a link and its peer have in different states"
    yield _by(labels, "concord_link_differing", differing, compared, "differing")
    behind = [row for row in worst if row["behind"] is not None]
    changes = "Changes that a link has yet to bring, as its source told last"
    yield _by(labels, "concord_link_lag_changes", changes, behind, "behind")
    applied = "Copies that a link has applied"
    yield _by(labels, "concord_link_applied", applied, worst, "applied", CounterMetricFamily)
    errors = "Requests of a link that failed"
    yield _by(labels, "concord_link_errors", errors, worst, "errors", CounterMetricFamily)
    left = "Seconds until a certificate or token that a link shows ends"
    ends = figures.link_credentials
    yield _by(("id", "part"), "concord_link_credential_left_seconds", left, ends, "seconds")
    totals = figures.totals
    yield _total("concord_copies_applied", "Copies that all links have applied", totals["applied"])
    yield _total("concord_links_errors", "Requests of all links that failed", totals["errors"])


def _reconciliations(figures: StoredFigures) -> Iterator[Metric]:
    age = "Seconds since a job last reported a comparison of this catalog with this outcome"
    told = figures.reconciliations
    yield _by(("outcome",), "concord_reconciliation_age_seconds", age, told, "seconds")
    found = "Differences at this catalog that the last complete comparison found"
    differences = figures.differences
    yield _by(("finding",), "concord_reconciliation_differences", found, differences, "number")


def _gauge(name: str, text: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, text)
    family.add_metric((), value)
    return family


def _total(name: str, text: str, value: float) -> Metric:
    family = CounterMetricFamily(name, text)
    family.add_metric((), value)
    return family


def _by(
    labels: Sequence[str],
    name: str,
    text: str,
    rows: Iterable[Row],
    column: str,
    kind: type[GaugeMetricFamily | CounterMetricFamily] = GaugeMetricFamily,
) -> Metric:
    """A family with a sample for each row, with labels and value from columns of the row."""
    family = kind(name, text, labels=labels)
    for row in rows:
        family.add_metric([row[label] for label in labels], row[column])
    return family


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
