"""What statements about subscriptions cost: they go through the indexes made for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import orjson
import pytest
import pytest_asyncio

from catalog.model.caller import node_caller
from catalog.model.modelsource import default_model
from catalog.reconfiguration.initialmodel import ensure_registry
from catalog.store.database import Database
from catalog.store.queries import Queries

pytestmark = pytest.mark.asyncio(loop_scope="module")

MANY = 100_000
LETTERS = 1000
"""The dead letters of the subscription that has the most."""
TABLES = {
    *("subscriptions", "signing_keys", "sink_consents", "sink_credentials"),
    *("dead_letters", "delivery_attempts", "subscription_events", "changes"),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seeded(shared_database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A hundred thousand rows of each kind; a few of them are due."""
    async with Database.open(
        shared_database_url, node_caller(), modelsource=default_model().source
    ) as database:
        await ensure_registry(database, "test")
    connection = await asyncpg.connect(shared_database_url)
    await connection.execute(
        """
        ALTER TABLE subscriptions DISABLE TRIGGER USER;
        INSERT INTO subscriptions (
            id, definition, log, txid, seq, state, expiresat, createdby)
        SELECT 's' || n, '{"sink": "http://127.0.0.1:9/"}',
            CASE n % 2 WHEN 0 THEN 'changes' ELSE 'subscriptions' END, 500, 0,
            CASE WHEN n % 1000 = 0 THEN 'pending' ELSE 'active' END,
            CASE WHEN n % 10 = 0 THEN now() + (n - 1000) * interval '1 second' END,
            'owner' || n / 10
        FROM generate_series(1, $MANY) AS n;
        ALTER TABLE subscriptions ENABLE TRIGGER USER;
        INSERT INTO signing_keys (subscription, id, scheme, sealed, createdat, endsat)
        SELECT 's' || n, 'k' || k, 'hmac-sha256', sha256(n::text::bytea), now(),
            CASE k WHEN 2 THEN now() + interval '1 day' END
        FROM generate_series(1, $MANY) AS n, generate_series(1, 2) AS k;
        INSERT INTO sink_consents (subscription, sinkorigin, askat, endsat, grantedat)
        SELECT 's' || n, 'https://sink' || n % 50, askat, now() + interval '1 day',
            CASE WHEN askat IS NULL THEN now() END
        FROM (
            SELECT n, CASE n % 1000 WHEN 0 THEN now() + (n - 50000) * interval '1 second' END
            FROM generate_series(1, $MANY) AS n
        ) AS c (n, askat);
        INSERT INTO sink_credentials (
            subscription, sealed, type, scheme, expiresat, endpoint, refreshat, iswarned)
        SELECT 's' || n, sha256(n::text::bytea), type, 'Bearer', at,
            CASE type WHEN 'REFRESHTOKEN' THEN 'https://login' || n % 50 END,
            CASE type WHEN 'REFRESHTOKEN' THEN at - interval '1 minute' END,
            at < now()
        FROM (
            SELECT n, CASE WHEN n % 4 < 2 THEN 'REFRESHTOKEN' ELSE 'ACCESSTOKEN' END,
                now() + (n - 500) * interval '1 second'
            FROM generate_series(1, $MANY) AS n
        ) AS c (n, type, at);
        INSERT INTO dead_letters (
            subscription, eventid, subject, event, at, attempts, reason, state)
        SELECT 's' || CASE WHEN n <= $LETTERS THEN 7 ELSE n END, 'e' || n, '/a/' || n % 500, '{}',
            now() - interval '30 days' + (n - 100) * interval '1 second', 3, 'refused',
            CASE n % 250 WHEN 249 THEN 'due' WHEN 248 THEN 'waiting' ELSE 'dead' END
        FROM generate_series(1, $MANY) AS n;
        INSERT INTO delivery_attempts (subscription, at, events, outcome, reason, milliseconds)
        SELECT 's' || 1 + n % 1000, now() - interval '7 days' + (n - 100) * interval '6 seconds', 1,
            'refused', '503', 5
        FROM generate_series(1, $MANY) AS n;
        INSERT INTO changes (
            txid, interaction, at, xid, kind, action, authority, origin, epoch, digest, changed)
        SELECT 1 + n / 200, 'i', now(), '/a', 'group', 'created', 'urn:a', '/a', 1, '', '{}'
        FROM generate_series(1, $MANY) AS n;
        INSERT INTO subscription_events (txid, at, subscription, action, data)
        SELECT 1 + n / 200, now(), 's' || n, 'started', '{}' FROM generate_series(1, $MANY) AS n;
        """.replace("$MANY", str(MANY)).replace("$LETTERS", str(LETTERS))
    )
    for table in TABLES:
        await connection.execute(f"VACUUM ANALYZE {table}")
    yield connection
    await connection.close()


class Sql(str):
    """An argument as it stands in a statement."""


NOW, LATER = Sql("now()"), Sql("now() + interval '1 minute'")
RECENTLY, A_WEEK_AGO = Sql("now() - interval '91 minutes'"), Sql("now() - interval '7 days'")
LONG_AGO = Sql("now() - interval '30 days'")
NONE = Sql("ARRAY[]::text[]")
OWNER = "owner7"
SUBJECTS = ["/a/1", "/a/2"]
PROGRESS: tuple[Any, ...] = (
    ["s5", "s6"],
    *([1, 1] for _ in range(4)),
    Sql("ARRAY[NULL, NULL]::text[]"),
    [1, 1],
    Sql("ARRAY[now(), now()]"),
    *([1, 1] for _ in range(2)),
    Sql("ARRAY[now(), now()]"),
    ["x", "x"],
    ["active", "active"],
    ["x", "x"],
    [1, 1],
    Sql("ARRAY[now(), now()]"),
    ["x", "x"],
    Sql("ARRAY[now(), now()]"),
    [1, 1],
    *(Sql("ARRAY[now(), now()]") for _ in range(2)),
)
A_FEW, SOME = 20, 1000
# A settled plan may read all of one subscription, which has a few on average.
OF_ONE = LETTERS + A_FEW
READ: list[tuple[str, str, tuple[Any, ...], int]] = [
    ("subscriptions", "get", ("s5",), SOME),
    ("subscriptions", "get", ("s6",), SOME),
    ("subscriptions", "page", ("s5", 3), 2 * SOME),
    ("subscriptions", "page_of", ("s5", 3, OWNER), 2 * SOME),
    ("accesstokens", "suspend_subscriptions", (OWNER, "x"), 2 * A_FEW),
    ("subscriptions", "load", (["s5", "s6"],), A_FEW),
    (
        "subscriptions",
        "replace",
        ("s5", "{}", "changes", None, "active", None, False, None, None),
        A_FEW,
    ),
    ("subscriptions", "change_state", ("s5", "paused", "x", ["active"]), A_FEW),
    ("subscriptions", "pause_later", ("s1000", "x"), A_FEW),
    ("subscriptions", "move_cursor", ("s5", 1, 1), A_FEW),
    ("subscriptions", "expire", (NOW,), 2 * SOME),
    ("subscriptions", "save_progress", PROGRESS, A_FEW),
    ("subscriptions", "delete", ("s99999",), A_FEW),
    ("subscriptions", "lock", ("s5",), A_FEW),
    ("subscriptions", "wake", ("s5",), A_FEW),
    ("subscriptions", "try_now", ("s5",), A_FEW),
    ("signingkeys", "load", (["s5", "s6"], NOW), A_FEW),
    ("signingkeys", "end_all", ("s5", LATER, NOW), A_FEW),
    ("signingkeys", "remove", ("s5", "k1"), A_FEW),
    ("signingkeys", "remove_all", ("s5",), A_FEW),
    ("secrets", "page", ("signing_keys", "s5/k1", 5), A_FEW),
    (
        "secrets",
        "replace",
        ("signing_keys", "s5/k1", Sql("sha256('5')"), Sql("'x'")),
        A_FEW,
    ),
    ("secrets", "page", ("sink_credentials", "s5", 5), A_FEW),
    (
        "secrets",
        "replace",
        ("sink_credentials", "s5", Sql("sha256('5')"), Sql("'x'")),
        A_FEW,
    ),
    ("sinkconsents", "forget", ("s5",), A_FEW),
    ("sinkconsents", "is_missing", ("s1000",), A_FEW),
    ("sinkconsents", "ask_at", ("s1000", "https://sink0", LATER), A_FEW),
    ("sinkconsents", "claim", (NOW, LATER, 32, NONE, 4), SOME),
    ("sinkconsents", "next_at", (), A_FEW),
    ("sinkconsents", "offer", ("s1000", "https://sink0", Sql("'x'")), A_FEW),
    ("sinkconsents", "grant", ("s1000", "https://sink0", NOW, "x", 1), A_FEW),
    ("sinkconsents", "explain", ("s1000", "x", LATER), A_FEW),
    ("sinkconsents", "activate", ("s1000",), A_FEW),
    ("sinkconsents", "load", (["s5", "s6"],), A_FEW),
    ("sinkcredentials", "load", (["s5", "s6"],), A_FEW),
    ("sinkcredentials", "claim", (NOW, LATER, NONE, 4, 32), SOME),
    (
        "sinkcredentials",
        "refresh_early",
        (["s5", "s6"], [1, 2], Sql("ARRAY[now(), now()]"), Sql("'60 seconds'")),
        A_FEW,
    ),
    ("sinkcredentials", "next_refresh", (NONE,), A_FEW),
    ("sinkcredentials", "warn", (LATER,), SOME),
    ("deadletters", "release", ("s7",), A_FEW),
    ("deadletters", "read_due", ("s7", 20), A_FEW),
    ("deadletters", "remove", ("s7", [5, 6]), OF_ONE),
    ("deadletters", "set_dead", ("s7", 249, 1, "x", NOW, True), OF_ONE),
    ("deadletters", "count", (["s5", "s30000"],), A_FEW),
    ("deadletters", "page", ("s7", 5, 10, None), A_FEW),
    ("deadletters", "causes", ("s30000", True), A_FEW),
    ("deadletters", "get", ("s7", 5), OF_ONE),
    ("deadletters", "mark_due", ("s7", 5, None, None), A_FEW),
    ("deadletters", "mark_due", ("s30000", None, None, "x"), A_FEW),
    ("deadletters", "clear", ("s30000", None), A_FEW),
    ("deadletters", "aged", (LONG_AGO, 100), SOME),
    ("deadletters", "drop_aged", ("s30000", NOW), A_FEW),
    ("deliveryattempts", "page", ("s7", 50_000, 10), A_FEW),
    ("deliveryattempts", "trim", (A_WEEK_AGO, 100, RECENTLY), 3 * SOME),
    ("subscriptionlog", "read", (5, 0, 10), A_FEW),
]


def literal(value: Any) -> str:
    match value:
        case Sql():
            return value
        case None:
            return "NULL"
        case list():
            return f"ARRAY[{', '.join(map(literal, value))}]"
        case str():
            return f"'{value}'"
        case bool():
            return str(value).lower()
        case timedelta():
            return f"'{value.total_seconds()} seconds'"
    return str(value)


async def plan_of(
    connection: asyncpg.Connection, statement: str, mode: str, arguments: tuple[Any, ...]
) -> list[dict[str, Any]]:
    """Every node of the plan that a statement is run with at first, or when it has `settled`: the
    server may make one plan for any arguments then. What the statement does is undone.
    """
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(f"PREPARE asked AS {statement}")
        given = f"({', '.join(map(literal, arguments))})" if arguments else ""
        for _ in range(6 if mode == "settled" else 0):
            await connection.execute(f"EXPLAIN EXECUTE asked {given}")
        text = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE asked {given}")
        await connection.execute("DEALLOCATE asked")
    finally:
        await transaction.rollback()
    nodes, found = [orjson.loads(text)[0]["Plan"]], []
    while nodes:
        node = nodes.pop()
        found.append(node)
        nodes += node.get("Plans", [])
    return found


@pytest.mark.parametrize("mode", ["first", "settled"])
@pytest.mark.parametrize(
    ("file", "name", "arguments", "rows"), READ, ids=[f"{file}.{name}" for file, name, *_ in READ]
)
async def test_a_statement_reads_little_more_than_it_is_about(
    seeded: asyncpg.Connection,
    file: str,
    name: str,
    arguments: tuple[Any, ...],
    rows: int,
    mode: str,
) -> None:
    """However many rows there are beside."""
    plan = await plan_of(seeded, getattr(Queries(file), name), mode, arguments)
    scans = [n["Relation Name"] for n in plan if n["Node Type"] == "Seq Scan"]
    assert not TABLES & {*scans}
    read = [
        (n["Actual Rows"] + n.get("Rows Removed by Filter", 0)) * n["Actual Loops"]
        for n in plan
        if n.get("Relation Name") in TABLES or "Index Name" in n
    ]
    assert 0 < sum(read) <= rows, read
