"""The checks of `concord doctor`: database, machine, settings and sinks of a node."""

from __future__ import annotations

import asyncio
import shutil
import stat
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509

from catalog.http.allowedaddresses import split_hosts
from catalog.http.outboundconnections import probe_endpoint
from catalog.model.confluentattribute import CONFLICTS_ADVICE
from catalog.model.connectionfailure import why_unreachable
from catalog.model.masking import described
from catalog.model.sinkterms import DEFAULT_PORTS
from catalog.monitoring.diagnosis import Check, CheckedNode, Diagnosis, Level
from catalog.settings.keyfile import KeyFile, KeysUnusable
from catalog.settings.settings import FEED_CONNECTIONS, Settings
from catalog.settings.settingtypes import is_loopback
from catalog.store import monitoring, schemaids
from catalog.store.clockpoints import read_jumps
from catalog.store.monitoring import Row, StoredFigures, read_figures
from catalog.store.schemamigration import OfAnotherVersion, check_version

# The first version with SQL-standard bodies of functions, and bit_xor.
_LEAST_MAJOR = 14
_MOST_SKEW_SECONDS = 2.0
# PostgreSQL takes no writes when its oldest transaction id is about 2,000,000,000 ids old.
_AGE_WARNED, _AGE_ERROR = 1_000_000_000, 1_600_000_000
_LONG_TRANSACTION_SECONDS = 60.0
_NEAR = 0.8
_DAY_SECONDS = 86_400
_MOST_TOLD = 20
# As the alarms of deploy/monitoring/rules.yml.
_UPKEEP_SECONDS = 2 * _DAY_SECONDS
_TOLD_JUMP, _TOLD_WITHIN = timedelta(days=1), timedelta(days=7)
_DURABILITY = ("fsync", "full_page_writes")
EXPIRY_WARNED = timedelta(days=21)
_FREE_WARNED, _FREE_ERROR = 0.1, 0.03
_FREE_BYTES = 1024**3
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IRWXO
_MOST_READ = 1000
_MOST_ASKED = 50
_AT_A_TIME = 10
# With other schemes, only the subscription may know the authority of the sink's certificate.
_KNOWN_TLS = frozenset({"https"})


async def check_server(checked: CheckedNode) -> Sequence[Diagnosis]:
    """The version and the settings of PostgreSQL."""
    async with checked.server() as connection:
        facts = await monitoring.read_server(connection)
    found = [*_faults_of_server(facts), *_faults_of_pool(facts, checked.settings)]
    return found or [Diagnosis("database", "ok", f"PostgreSQL {facts['version']} answers")]


def _faults_of_server(facts: Row) -> Iterator[Diagnosis]:
    def fault(text: str, advice: str, *, is_warning: bool = False) -> Diagnosis:
        level: Level = "warning" if is_warning else "error"
        return Diagnosis("database", level, text, advice)

    if facts["major"] < _LEAST_MAJOR:
        yield fault(f"it is PostgreSQL {facts['version']}", f"Use {_LEAST_MAJOR} or later.")
    if facts["is_standby"]:
        yield fault("it is a standby, which takes no writes", "Name the primary server.")
    for name in _DURABILITY:
        if facts[name] == "off":
            yield fault(
                f"{name} is off: a power cut can destroy the catalog",
                f"ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf();",
            )
    if facts["encoding"] != "UTF8":
        yield fault(
            f"its encoding is {facts['encoding']}, which lacks characters of documents",
            "Create a database with ENCODING 'UTF8' TEMPLATE template0, and import into it.",
        )
    if facts["collation_made"] != facts["collation_now"]:
        yield fault(
            "the library that sorts its texts has changed since it was made",
            "REINDEX DATABASE, then ALTER DATABASE … REFRESH COLLATION VERSION.",
            is_warning=True,
        )
    if facts["age"] > _AGE_WARNED:
        yield fault(
            f"transaction ids are {facts['age']:,} old; at 2,000,000,000 it takes no writes",
            "Let autovacuum run, end old transactions and replication slots, or run VACUUM.",
            is_warning=facts["age"] < _AGE_ERROR,
        )


def _faults_of_pool(facts: Row, settings: Settings) -> Iterator[Diagnosis]:
    members = settings.processes + 1 if settings.processes > 1 else 1
    shared = settings.database_pool_size + settings.streams + FEED_CONNECTIONS
    wanted = shared + members * (settings.database_task_connections + 1)
    if wanted > facts["connections"]:
        yield Diagnosis(
            "database",
            "warning",
            f"this node may open {wanted} connections, and the server allows "
            f"{facts['connections']} in all ({facts['used']} are open)",
            "Raise max_connections, or lower CONCORD_DATABASE_POOL_SIZE, CONCORD_STREAMS.",
        )


async def check_schema(checked: CheckedNode) -> Sequence[Diagnosis]:
    """The migrations of the database, and whether its node takes writes."""
    async with checked.server() as connection:
        try:
            await check_version(connection)
        except OfAnotherVersion as error:
            return [
                Diagnosis(
                    "schema",
                    "error",
                    f"{error}: what depends on the schema was not checked",
                    "`concord migrate`, or start the node, brings an older or empty one up "
                    "to date. For another one, run its version, or restore a backup of before.",
                )
            ]
        node = await monitoring.read_node(connection)
    if node is not None and node["gate"] != "open":
        text = "the node takes no writes, as it has yet to recover its own entities"
        advice = "`concord recover --from URL`; `concord recover show` tells how far it is."
        return [Diagnosis("schema", "error", text, advice)]
    return [Diagnosis("schema", "ok", "it is that of this version")]


async def check_clock(checked: CheckedNode) -> Sequence[Diagnosis]:
    """The difference between the clocks of machine and database, and jumps of the latter."""
    async with checked.database() as connection:
        before = datetime.now(UTC)
        there = await monitoring.read_clock(connection)
        after = datetime.now(UTC)
        jumps = await read_jumps(connection, _TOLD_JUMP, _TOLD_WITHIN)
    # The database was read between both times, so that the round trip is no part of the skew.
    skew = max((before - there).total_seconds(), (there - after).total_seconds(), 0.0)
    if skew > _MOST_SKEW_SECONDS:
        text = f"this machine and the database differ by {skew:.1f} seconds"
        advice = "Synchronise both with NTP (chrony, systemd-timesyncd)."
        return [Diagnosis("clock", "error", text, advice)]
    if jumps:
        last = jumps[0]
        where = "ahead" if last.seconds > 0 else "back"
        text = (
            f"that of the database went {abs(last.seconds) / _DAY_SECONDS:,.0f} days {where} by "
            f"{last.at:%Y-%m-%d %H:%M} UTC, or no node ran: nothing was dropped for that"
        )
        advice = "Synchronise it with NTP (chrony, systemd-timesyncd), unless the node was off."
        return [Diagnosis("clock", "warning", text, advice)]
    return [Diagnosis("clock", "ok", "it agrees with that of the database")]


async def check_transactions(checked: CheckedNode) -> Sequence[Diagnosis]:
    """Long open transactions of every database of the server, which delay readers of the log."""
    async with checked.server() as connection:
        found = await monitoring.long_transactions(connection, _LONG_TRANSACTION_SECONDS)
    return [
        Diagnosis(
            "transactions",
            "warning",
            f"a transaction of {one['program'] or 'a client'} in the database "
            f"{one['database']} has been open for {one['seconds']:,.0f} seconds: links and "
            "subscriptions see nothing that was written since",
            f"End it: SELECT pg_terminate_backend({one['process']})"
            if one["process"].isdigit()
            else f"End it: ROLLBACK PREPARED '{one['process']}'",
        )
        for one in found
    ] or [Diagnosis("transactions", "ok", "none is open for long")]


async def check_figures(checked: CheckedNode) -> Sequence[Diagnosis]:
    """The ages of the last backup and comparison; what is about to fall out of a log."""
    async with checked.database() as connection:
        figures = await read_figures(connection, most=_MOST_TOLD)
    settings = checked.settings
    late = [
        *_late("subscription", figures.slowest_subscriptions, settings.log_held_days),
        *_late("link", figures.worst_links, settings.log_days),
    ]
    fine = [Diagnosis("cursors", "ok", "none is near the end of a log")]
    return [*(late or fine), _backup(figures), _comparison(figures)]


def _backup(figures: StoredFigures) -> Diagnosis:
    subject, seconds = "backup", figures.log["backup_seconds"]
    if seconds is None:
        text = "there never was one"
    elif seconds > _UPKEEP_SECONDS:
        text = f"the last one is {seconds / _DAY_SECONDS:.0f} days old"
    else:
        return Diagnosis(subject, "ok", "there is one of the last two days")
    advice = "Run `concord backup` every day: docs/operations.md has a timer and a CronJob."
    return Diagnosis(subject, "warning", text, advice)


def _comparison(figures: StoredFigures) -> Diagnosis:
    subject = "comparison"
    if not figures.links and not figures.reconciliations:
        return Diagnosis(subject, "ok", "there are no links")
    ages = [row["seconds"] for row in figures.reconciliations if row["outcome"] != "failed"]
    if not ages:
        text = "no job ever compared this catalog with others: nothing proves that they agree"
    elif min(ages) > _UPKEEP_SECONDS:
        text = f"this catalog was last compared with others {min(ages) / _DAY_SECONDS:.0f} days ago"
    else:
        return Diagnosis(subject, "ok", "it was compared in the last two days")
    advice = "Run `concord reconcile` every hour or day: docs/reconciliation.md names the ways."
    return Diagnosis(subject, "warning", text, advice)


def _late(kind: str, rows: Sequence[Row], days: float) -> Iterator[Diagnosis]:
    for row in rows:
        seconds = row["seconds"] or 0.0
        if seconds > _NEAR * days * _DAY_SECONDS:
            yield Diagnosis(
                f"{kind} {row['id']}",
                "warning",
                f"it is {seconds / _DAY_SECONDS:.0f} days behind, and changes stay for "
                f"{days:g} days",
                f"`concord {kind} show {row['id']}` tells why. Mend that, or delete it.",
            )


async def check_schema_ids(checked: CheckedNode) -> Sequence[Diagnosis]:
    """Whether each schema id names one schema within its context."""
    async with checked.database() as connection:
        conflicts = await schemaids.find_conflicts(connection)
    return [
        Diagnosis(f"schema id {each.id}", "error", each.text, CONFLICTS_ADVICE)
        for each in conflicts[:_MOST_TOLD]
    ]


DATABASE_CHECKS: Sequence[Check] = (
    check_server,
    check_schema,
    check_clock,
    check_transactions,
    check_figures,
    check_schema_ids,
)


def expiry(subject: str, end: datetime, advice: str) -> Diagnosis:
    """Whether a certificate is about to expire."""
    left = end - datetime.now(UTC)
    if left > EXPIRY_WARNED:
        return Diagnosis(subject, "ok", f"valid until {end:%Y-%m-%d}")
    level: Level = "warning" if left > timedelta(0) else "error"
    verb = "expires" if left > timedelta(0) else "has expired"
    return Diagnosis(subject, level, f"it {verb} on {end:%Y-%m-%d %H:%M} UTC", advice)


async def check_directory(checked: CheckedNode) -> Sequence[Diagnosis]:
    """The data directory: room on the disk, and permissions."""
    directory = checked.settings.data_dir.expanduser()
    if not directory.exists():
        if checked.settings.database_url is not None:
            return []
        text = f"{directory} does not exist yet"
        return [Diagnosis("directory", "ok", text)]
    found = [*_faults_of_directory(directory)]
    text = f"{directory} has room, and is closed to others"
    return found or [Diagnosis("directory", "ok", text)]


def _faults_of_directory(directory: Path) -> Iterator[Diagnosis]:
    usage = shutil.disk_usage(directory)
    share = usage.free / max(usage.total, 1)
    if share < _FREE_WARNED and usage.free < 10 * _FREE_BYTES:
        level: Level = "error" if share < _FREE_ERROR or usage.free < _FREE_BYTES else "warning"
        text = f"{usage.free / _FREE_BYTES:.1f} GiB are free on the disk of {directory}"
        advice = "Make room: PostgreSQL stops when its disk is full."
        yield Diagnosis("directory", level, text, advice)
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & _WRITABLE_BY_OTHERS:
        text = f"others may enter {directory} (mode {mode:o})"
        yield Diagnosis("directory", "error", text, f"chmod 700 {directory}")


async def check_key(checked: CheckedNode) -> Sequence[Diagnosis]:
    """The key that encrypts secrets."""
    settings = checked.settings
    if settings.encryption_keys:
        return [Diagnosis("key", "ok", "CONCORD_ENCRYPTION_KEY is set")]
    file = KeyFile.of(settings)
    if not file.path.exists():
        text = f"there is no {file.path} yet; the node makes it when it starts"
        return [Diagnosis("key", "ok", text)]
    try:
        file.read()
    except KeysUnusable as error:
        advice = "Run this as the node's user; secrets cannot be used without their key."
        return [Diagnosis("key", "error", str(error), advice)]
    if settings.database_url is not None:
        text = f"it is in {file.path}, on this machine only"
        advice = "If processes on other machines share the database, set CONCORD_ENCRYPTION_KEY."
        return [Diagnosis("key", "warning", text, advice)]
    return [Diagnosis("key", "ok", f"it is in {file.path}")]


async def check_certificates(checked: CheckedNode) -> Sequence[Diagnosis]:
    """The ends of the node's own certificates."""
    settings = checked.settings
    advice = "Renew it, and restart the processes of the node."
    found: list[Diagnosis] = []
    for name, path in settings.certificates.items():
        try:
            ends = await asyncio.to_thread(certificate_ends, path)
        except (OSError, ValueError) as error:
            text = f"{path} cannot be read: {error}"
            hint = "It is a PEM file that the node's user may read."
            found.append(Diagnosis(name, "error", text, hint))
        else:
            found.append(expiry(name, min(ends), advice))
    return found


def certificate_ends(path: Path) -> list[datetime]:
    """The ends of the certificates in a PEM file.

    Raises:
        OSError, ValueError: the file cannot be read, or has no certificates.
    """
    return [one.not_valid_after_utc for one in x509.load_pem_x509_certificates(path.read_bytes())]


async def check_settings(checked: CheckedNode) -> Sequence[Diagnosis]:
    """Settings that permit more than an operator may want, or mislead remote catalogs."""
    found = [*_unsafe(checked.settings)]
    return found or [Diagnosis("settings", "ok", "none is unsafe")]


def _unsafe(settings: Settings) -> Iterator[Diagnosis]:
    def warn(text: str, advice: str, level: Level = "warning") -> Diagnosis:
        return Diagnosis("settings", level, text, advice)

    public = None if settings.public_url is None else urlsplit(settings.public_url)
    is_local = is_loopback(settings.host) and (public is None or is_loopback(public.hostname or ""))
    if settings.is_open and not is_local:
        yield warn(
            "everybody who reaches the node may do everything",
            "Set CONCORD_OPEN=false, and make tokens: docs/securing.md.",
            "error",
        )
    if public is None:
        yield warn(
            "there is no public URL: other catalogs may not reach what this one gives them",
            "Set CONCORD_PUBLIC_URL before others follow it.",
        )
    elif public.scheme == "http" and not is_local:
        yield warn(
            "the public URL is without TLS: tokens can be read on the way",
            "Serve https: CONCORD_TLS_CERT and CONCORD_TLS_KEY, or a proxy.",
        )
    if settings.allow_private_addresses and not is_local:
        yield warn(
            "those who may add subscriptions and links can reach private addresses",
            "Name the networks in CONCORD_ALLOWED_ADDRESSES instead of "
            "CONCORD_ALLOW_PRIVATE_ADDRESSES.",
        )
    if "*" in settings.cors_origins:
        yield warn("pages of every origin may use the API", "Name them in CONCORD_CORS_ORIGINS.")


MACHINE_CHECKS: Sequence[Check] = (check_directory, check_key, check_certificates, check_settings)


@dataclass(frozen=True, slots=True, order=True)
class _Endpoint:
    host: str
    port: int
    is_tls: bool

    def __str__(self) -> str:
        return f"sink {self.host}:{self.port}"


async def check_sinks(checked: CheckedNode) -> Sequence[Diagnosis]:
    """Whether the hosts of sinks have addresses that the node connects to, and listen."""
    async with checked.database() as connection:
        rows = await monitoring.read_sinks(connection, _MOST_READ)
    used = defaultdict[_Endpoint, list[str]](list)
    for row in rows:
        for url in split_hosts(row["sink"] or ""):
            if (endpoint := _endpoint_of(url)) is not None:
                used[endpoint].append(row["id"])
    if not used:
        return [Diagnosis("sinks", "ok", "there are none")]
    turns = asyncio.Semaphore(_AT_A_TIME)
    asked = sorted(used)[:_MOST_ASKED]
    found = await asyncio.gather(*(_ask(checked, each, used[each], turns) for each in asked))
    if left := len(used) - len(asked):
        text = f"{left} more hosts were not asked"
        found.append(Diagnosis("sinks", "ok", text))
    return found


def _endpoint_of(url: str) -> _Endpoint | None:
    try:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return None
    if not parts.hostname or port is None:
        return None
    return _Endpoint(parts.hostname, port, parts.scheme in _KNOWN_TLS)


async def _ask(
    checked: CheckedNode, endpoint: _Endpoint, subscriptions: list[str], turns: asyncio.Semaphore
) -> Diagnosis:
    subject = str(endpoint)
    try:
        async with turns:
            end = await probe_endpoint(
                endpoint.host, endpoint.port, checked.settings, is_tls=endpoint.is_tls
            )
    except OSError as error:
        return Diagnosis(
            subject,
            "error",
            f"it {why_unreachable(error)} ({described(error)})",
            f"See its name, firewall and certificate; `concord subscription show "
            f"{subscriptions[0]}`.",
        )
    if end is not None:
        return expiry(subject, end, "Whoever runs the sink renews it.")
    return Diagnosis(subject, "ok", "it accepts connections")


SINK_CHECKS: Sequence[Check] = (check_sinks,)
