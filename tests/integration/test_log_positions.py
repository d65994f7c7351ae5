"""The place of a time in the logs: that of a scan from the beginning, at the cost of a lookup."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import orjson
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog.model.caller import node_caller
from catalog.model.modelsource import default_model
from catalog.reconfiguration.initialmodel import ensure_registry
from catalog.store.changes import ENTRY_SINCE, MOST_DISORDER, LogName, Position, find_position
from catalog.store.database import Database

pytestmark = pytest.mark.asyncio(loop_scope="module")

LOGS: list[LogName] = ["changes", "subscriptions", "audit"]
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DISORDER = int(MOST_DISORDER.total_seconds())
MANY = 100_000
COLUMNS: dict[LogName, tuple[str, str]] = {
    "changes": (
        "changes (txid, interaction, at, xid, kind, action, authority, origin, epoch, digest,"
        " changed)",
        "'i', at, '/a', 'group', 'created', 'urn:a', '/a', 1, '', '{}'",
    ),
    "subscriptions": (
        "subscription_events (txid, at, subscription, action, data)",
        "at, 's', 'started', '{}'",
    ),
    "audit": (
        "audit (txid, at, outcome, kind, name, issuer, address, agent, method, path, targets)",
        "at, 'done', 'token', '', '', '', '', 'PUT', '/a', '{}'",
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def connection(shared_database_url: str) -> AsyncIterator[asyncpg.Connection]:
    async with Database.open(
        shared_database_url, node_caller(), modelsource=default_model().source
    ) as database:
        await ensure_registry(database, "test")
    connection = await asyncpg.connect(shared_database_url)
    yield connection
    await connection.close()


async def fill(
    connection: asyncpg.Connection, log: LogName, entries: Sequence[tuple[int, datetime]]
) -> None:
    """Let a log have these entries alone: transactions and times in the order of positions."""
    table, values = COLUMNS[log]
    await connection.execute(f"TRUNCATE {table.partition(' ')[0]}")
    await connection.execute(
        f"INSERT INTO {table} SELECT txid, {values}"
        " FROM unnest($1::bigint[], $2::timestamptz[]) WITH ORDINALITY AS e (txid, at, place)"
        " ORDER BY place",
        [txid for txid, _ in entries],
        [at for _, at in entries],
    )


async def scanned(
    connection: asyncpg.Connection, log: LogName, moment: datetime
) -> Position | None:
    """The position before the first entry of a time or later, by reading all of them."""
    table = COLUMNS[log][0].partition(" ")[0]
    rows = await connection.fetch(f"SELECT txid, seq, at FROM {table} ORDER BY txid, seq")
    found = (Position(row["txid"], row["seq"] - 1) for row in rows if row["at"] >= moment)
    return next(found, None)


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[int, datetime]]:
    """Transactions with gaps between them, whose times are in disorder as far as they may be."""
    txid, seconds, entries = 0, 0, []
    steps = st.tuples(
        st.sampled_from([0, 0, 1, 2, 9]),
        st.sampled_from([0, 1, DISORDER // 3, DISORDER, 5 * DISORDER]),
        st.integers(0, DISORDER) | st.sampled_from([0, DISORDER]),
    )
    for gap, pause, late in draw(st.lists(steps, max_size=30)):
        txid, seconds = txid + gap, seconds + pause
        entries.append((txid + 1, BEGIN + timedelta(seconds=seconds + late)))
    return entries


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    log=st.sampled_from(LOGS),
    entries=logs(),
    place=st.integers(0, 30),
    off=st.integers(-DISORDER, DISORDER) | st.sampled_from([0, -1, 1]),
)
async def test_a_time_has_the_place_that_a_scan_would_find(
    connection: asyncpg.Connection,
    log: LogName,
    entries: list[tuple[int, datetime]],
    place: int,
    off: int,
) -> None:
    await fill(connection, log, entries)
    near = entries[place % len(entries)][1] if entries else BEGIN
    moment = near + timedelta(seconds=off)
    expected = await scanned(connection, log, moment)
    before = await find_position(connection, "now", log)
    found = await find_position(connection, moment.isoformat(), log)
    if expected is None:
        # The end of the log moves on, since other tests write to databases of the same server.
        assert before <= found <= await find_position(connection, "now", log)
    else:
        assert found == expected


@pytest.mark.parametrize("log", LOGS)
async def test_times_of_a_clock_that_was_set_back_have_a_place(
    connection: asyncpg.Connection, log: LogName
) -> None:
    """It is right before an entry of that time or later, and after an earlier one; or the end."""
    hours = [*range(10), *range(1000, 1010), *range(10, 20), *range(500, 510), *range(20, 30)]
    entries = [(n + 1, BEGIN + timedelta(hours=hour)) for n, hour in enumerate(hours)]
    await fill(connection, log, entries)
    times = dict(entries)
    for hour in range(1, 1009):
        moment = BEGIN + timedelta(hours=hour, minutes=-30)
        found = await find_position(connection, moment.isoformat(), log)
        if found.txid in times:
            assert times[found.txid] >= moment
            assert times[found.txid - 1] < moment
        else:
            assert found.txid > len(entries)
            assert hour >= 30


@pytest.mark.parametrize("mode", ["generic", "custom"])
@pytest.mark.parametrize("log", LOGS)
async def test_the_place_of_a_time_costs_as_much_at_the_end_of_a_long_log(
    connection: asyncpg.Connection, log: LogName, mode: str
) -> None:
    """It reads what is near, and some entries on the way there."""
    each = timedelta(seconds=10)
    entries = [(1 + n // 200, BEGIN + n * each) for n in range(MANY)]
    await fill(connection, log, entries)
    table = COLUMNS[log][0].partition(" ")[0]
    await connection.execute(f"VACUUM ANALYZE {table}")
    statement = ENTRY_SINCE[log]
    for place in (0, 77, MANY // 3, MANY - 2, MANY + 100):
        plan = await plan_of(connection, statement, mode, BEGIN + place * each)
        assert {node["Index Name"] for node in plan if "Index Name" in node} == {f"{table}_pkey"}
        assert not [node for node in plan if node["Node Type"] in ("Seq Scan", "Sort")]
        read = [
            (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
            for node in plan
            if "Index Name" in node
        ]
        assert sum(read) <= 2 * MOST_DISORDER / each + 200 + 64, read


async def plan_of(
    connection: asyncpg.Connection, statement: str, mode: str, moment: datetime
) -> list[dict[str, Any]]:
    """Every node of the plan that a statement runs with, planned in one of the two modes."""
    async with connection.transaction():
        await connection.execute(f"SET LOCAL plan_cache_mode = force_{mode}_plan")
        await connection.execute(f"PREPARE asked AS {statement}")
        text = await connection.fetchval(
            "EXPLAIN (ANALYZE, FORMAT JSON)"
            f" EXECUTE asked ('{moment.isoformat()}', '{MOST_DISORDER.total_seconds()} seconds')"
        )
        await connection.execute("DEALLOCATE asked")
    nodes, found = [orjson.loads(text)[0]["Plan"]], []
    while nodes:
        node = nodes.pop()
        found.append(node)
        nodes += node.get("Plans", [])
    return found


async def change(connection: asyncpg.Connection) -> int:
    """The transaction of a change that is made now."""
    table, values = COLUMNS["changes"]
    txid: int = await connection.fetchval("SELECT pg_current_xact_id()::text::bigint")
    await connection.execute(
        f"INSERT INTO {table} SELECT $1, {values} FROM clock_timestamp() AS at", txid
    )
    return txid


async def test_what_a_transaction_that_still_runs_will_log_is_not_left_out(
    shared_database_url: str, connection: asyncpg.Connection
) -> None:
    await fill(connection, "changes", [(1, BEGIN)])
    since = datetime.now(UTC)
    other = await asyncpg.connect(shared_database_url)
    try:
        async with other.transaction():
            late = await change(other)
            async with connection.transaction():
                assert await change(connection) > late
            found = await find_position(connection, since.isoformat())
            assert found < Position(late, 0)
    finally:
        await other.close()
