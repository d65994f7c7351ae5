"""Checks of a node's database: server, schema, clock, log, and obstacles for readers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from catalog.config.settings import FEED_CONNECTIONS, Settings
from catalog.monitoring.diagnosis import Check, CheckedNode, Diagnosis, Level
from catalog.store.clockpoints import read_jumps
from catalog.store.healthfacts import (
    Facts,
    long_transactions,
    read_clock,
    read_node,
    read_server,
)
from catalog.store.monitoring import Row, StoredFigures, read_figures
from catalog.store.schemamigration import OfAnotherVersion, check_version

# The first version with SQL-standard bodies of functions, and bit_xor.
_LEAST_MAJOR = 14
_MOST_SKEW_SECONDS = 2.0
# PostgreSQL stops writing when transaction ids are two thousand millions old.
_AGE_WARNED, _AGE_ERROR = 1_000_000_000, 1_600_000_000
_LONG_TRANSACTION_SECONDS = 60.0
_NEAR = 0.8
_DAY_SECONDS = 86_400
_MOST_TOLD = 20
# As the alarms of deploy/monitoring/rules.yml.
_UPKEEP_SECONDS = 2 * _DAY_SECONDS
_TOLD_JUMP, _TOLD_WITHIN = timedelta(days=1), timedelta(days=7)
_DURABILITY = ("fsync", "full_page_writes")


async def check_server(checked: CheckedNode) -> Sequence[Diagnosis]:
    """The version and the settings of PostgreSQL."""
    async with checked.server() as connection:
        facts = await read_server(connection)
    found = [*_faults_of_server(facts), *_faults_of_pool(facts, checked.settings)]
    return found or [
        Diagnosis(subject="database", level="ok", text=f"PostgreSQL {facts['version']} answers")
    ]


def _faults_of_server(facts: Facts) -> Iterator[Diagnosis]:
    def fault(text: str, advice: str, *, is_warning: bool = False) -> Diagnosis:
        level: Level = "warning" if is_warning else "error"
        return Diagnosis(subject="database", level=level, text=text, advice=advice)

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
            f"transaction ids are {facts['age']:,} old: it stops to write at two thousand millions",
            "Let autovacuum run, end old transactions and replication slots, or run VACUUM.",
            is_warning=facts["age"] < _AGE_ERROR,
        )


def _faults_of_pool(facts: Facts, settings: Settings) -> Iterator[Diagnosis]:
    members = settings.processes + 1 if settings.processes > 1 else 1
    shared = settings.database_pool_size + settings.streams + FEED_CONNECTIONS
    wanted = shared + members * (settings.database_task_connections + 1)
    if wanted > facts["connections"]:
        yield Diagnosis(
            subject="database",
            level="warning",
            text=f"this node may open {wanted} connections, and the server allows "
            f"{facts['connections']} in all ({facts['used']} are open)",
            advice="Raise max_connections, or lower CONCORD_DATABASE_POOL_SIZE, CONCORD_STREAMS.",
        )


async def check_schema(checked: CheckedNode) -> Sequence[Diagnosis]:
    """The migrations of the database, and whether its node takes writes."""
    async with checked.server() as connection:
        try:
            await check_version(connection)
        except OfAnotherVersion as error:
            return [
                Diagnosis(
                    subject="schema",
                    level="error",
                    text=f"{error}: what depends on the schema was not checked",
                    advice="`concord migrate`, or start the node, brings an older or empty one up "
                    "to date. For another one, run its version, or restore a backup of before.",
                )
            ]
        node = await read_node(connection)
    if node is not None and node["gate"] != "open":
        text = "the node takes no writes, as it has yet to recover its own entities"
        advice = "`concord recover --from URL`; `concord recover show` tells how far it is."
        return [Diagnosis(subject="schema", level="error", text=text, advice=advice)]
    return [Diagnosis(subject="schema", level="ok", text="it is that of this version")]


async def check_clock(checked: CheckedNode) -> Sequence[Diagnosis]:
    """The difference between the clocks of machine and database, and jumps of the latter."""
    async with checked.database() as connection:
        before = datetime.now(UTC)
        there = await read_clock(connection)
        after = datetime.now(UTC)
        jumps = await read_jumps(connection, _TOLD_JUMP, _TOLD_WITHIN)
    # The database was read between both times, so that the round trip is no part of the skew.
    skew = max((before - there).total_seconds(), (there - after).total_seconds(), 0.0)
    if skew > _MOST_SKEW_SECONDS:
        text = f"this machine and the database differ by {skew:.1f} seconds"
        advice = "Synchronise both with NTP (chrony, systemd-timesyncd)."
        return [Diagnosis(subject="clock", level="error", text=text, advice=advice)]
    if jumps:
        last = jumps[0]
        where = "ahead" if last.seconds > 0 else "back"
        text = (
            f"that of the database went {abs(last.seconds) / _DAY_SECONDS:,.0f} days {where} by "
            f"{last.at:%Y-%m-%d %H:%M} UTC, or no node ran: nothing was dropped for that"
        )
        advice = "Synchronise it with NTP (chrony, systemd-timesyncd), unless the node was off."
        return [Diagnosis(subject="clock", level="warning", text=text, advice=advice)]
    return [Diagnosis(subject="clock", level="ok", text="it agrees with that of the database")]


async def check_transactions(checked: CheckedNode) -> Sequence[Diagnosis]:
    """Long open transactions of every database of the server, which delay readers of the log."""
    async with checked.server() as connection:
        found = await long_transactions(connection, _LONG_TRANSACTION_SECONDS)
    return [
        Diagnosis(
            subject="transactions",
            level="warning",
            text=f"a transaction of {one['program'] or 'a client'} in the database "
            f"{one['database']} has been open for {one['seconds']:,.0f} seconds: links and "
            "subscriptions see nothing that was written since",
            advice=f"End it: SELECT pg_terminate_backend({one['process']})"
            if one["process"].isdigit()
            else f"End it: ROLLBACK PREPARED '{one['process']}'",
        )
        for one in found
    ] or [Diagnosis(subject="transactions", level="ok", text="none is open for long")]


async def check_cursors(checked: CheckedNode) -> Sequence[Diagnosis]:
    """Subscriptions and links with a next change that is about to leave a log."""
    async with checked.database() as connection:
        figures = await read_figures(connection, most=_MOST_TOLD)
    settings = checked.settings
    late = [
        *_late("subscription", figures.slowest_subscriptions, settings.log_held_days),
        *_late("link", figures.worst_links, settings.log_days),
    ]
    return late or [Diagnosis(subject="cursors", level="ok", text="none is near the end of a log")]


async def check_upkeep(checked: CheckedNode) -> Sequence[Diagnosis]:
    """The ages of the last backup and of the last comparison with other catalogs."""
    async with checked.database() as connection:
        figures = await read_figures(connection, most=_MOST_TOLD)
    return [_backup(figures), _comparison(figures)]


def _backup(figures: StoredFigures) -> Diagnosis:
    subject, seconds = "backup", figures.log["backup_seconds"]
    if seconds is None:
        text = "there never was one"
    elif seconds > _UPKEEP_SECONDS:
        text = f"the last one is {seconds / _DAY_SECONDS:.0f} days old"
    else:
        return Diagnosis(subject=subject, level="ok", text="there is one of the last two days")
    advice = "Run `concord backup` every day: docs/operations.md has a timer and a CronJob."
    return Diagnosis(subject=subject, level="warning", text=text, advice=advice)


def _comparison(figures: StoredFigures) -> Diagnosis:
    subject = "comparison"
    if not figures.links and not figures.reconciliations:
        return Diagnosis(subject=subject, level="ok", text="there are no links")
    ages = [row["seconds"] for row in figures.reconciliations if row["outcome"] != "failed"]
    if not ages:
        text = "no job ever compared this catalog with others: nothing proves that they agree"
    elif min(ages) > _UPKEEP_SECONDS:
        text = f"this catalog was last compared with others {min(ages) / _DAY_SECONDS:.0f} days ago"
    else:
        return Diagnosis(subject=subject, level="ok", text="it was compared in the last two days")
    advice = "Run `concord reconcile` every hour or day: docs/reconciliation.md names the ways."
    return Diagnosis(subject=subject, level="warning", text=text, advice=advice)


def _late(kind: str, rows: Sequence[Row], days: float) -> Iterator[Diagnosis]:
    for row in rows:
        seconds = row["seconds"] or 0.0
        if seconds > _NEAR * days * _DAY_SECONDS:
            yield Diagnosis(
                subject=f"{kind} {row['id']}",
                level="warning",
                text=f"it is {seconds / _DAY_SECONDS:.0f} days behind, and changes stay for "
                f"{days:g} days",
                advice=f"`concord {kind} show {row['id']}` tells why. Mend that, or delete it.",
            )


DATABASE_CHECKS: Sequence[Check] = (
    check_server,
    check_schema,
    check_clock,
    check_transactions,
    check_cursors,
    check_upkeep,
)
