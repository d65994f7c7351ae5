"""The change log is bounded, and readers that it leaves behind are told."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog

from catalog.model.caller import node_caller
from catalog.settings import Settings
from catalog.store.changes import Head, Retention, read_head
from catalog.store.database import Database
from catalog.subscriptions.delivery import retention
from catalog.subscriptions.delivery.retention import (
    drop_once,
    passed_time_for,
    retention_from,
    run_log_retention,
)
from catalog.subscriptions.stored.subscriptions import SubscriptionDefinition, create
from tests.integration.clockpoints import store_point
from tests.integration.conftest import Node
from tests.integration.federation import eventually, execute
from tests.integration.test_dispatcher import Sink, delivering

DAY = timedelta(days=1)
EVERYTHING = Retention(age=30 * DAY, count=1000, held_age=90 * DAY, held_count=2000)


async def write_groups(node: Node, count: int) -> None:
    """Each write logs a group and the registry."""
    for number in range(count):
        await node.put(f"/messagegroups/g{number}", {"description": str(uuid.uuid4())})
    await node.changes()


async def head_of(node: Node) -> Head:
    async with node.database.acquire() as connection:
        return await read_head(connection)


async def drop(node: Node, retention: Retention, **options: int) -> int:
    passed = passed_time_for(node.context.settings)
    return await drop_once(node.database, retention, passed, **options)


async def subscribe(node: Node, sink: str = "http://127.0.0.1:9/") -> str:
    id = str(uuid.uuid4())
    async with node.database.transaction() as connection:
        await create(connection, id, SubscriptionDefinition(sink=sink))
    return id


async def test_what_is_within_age_and_number_stays(node: Node) -> None:
    await write_groups(node, 3)
    before = await node.changes()
    assert await drop(node, EVERYTHING) == 0
    assert await node.changes() == before


async def test_the_log_keeps_the_last_changes(node: Node) -> None:
    await write_groups(node, 5)
    before = await node.changes()
    assert await drop(node, replace(EVERYTHING, count=3)) == len(before) - 3
    assert await node.logged() == 3
    assert (await head_of(node)).dropped == before[-4].position


async def test_batches_are_small(node: Node) -> None:
    await write_groups(node, 5)
    least = replace(EVERYTHING, count=1)
    number = await node.logged()
    assert await drop(node, least, limit=3) == 3
    assert await node.logged() == number - 3
    assert await drop(node, least) == number - 4


async def test_old_changes_leave_the_log_but_the_newest_stays(node: Node) -> None:
    """It names the state of the catalog, by which answers are tagged."""
    await write_groups(node, 3)
    newest = (await node.changes())[-1]
    assert await drop(node, EVERYTHING) == 0
    await store_point(node.database, datetime.now(UTC), 31 * DAY)
    assert await drop(node, EVERYTHING) > 0
    async with node.database.acquire() as connection:
        rows = await connection.fetch("SELECT txid, seq FROM changes")
    assert [(row["txid"], row["seq"]) for row in rows] == [
        (newest.position.txid, newest.position.seq)
    ]


@pytest.mark.parametrize("days", [100, -100])
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_clock_that_jumps_makes_nothing_older_than_an_hour(
    node: Node, days: int, is_restarted: bool
) -> None:
    """Neither while it is wrong, nor when it is right again."""
    await write_groups(node, 3)
    number, seconds = await node.logged(), 0.0
    running = passed_time_for(node.context.settings, monotonic=lambda: seconds)
    await drop_once(node.database, EVERYTHING, running)
    for moved in (-days, days):
        await execute(node, "UPDATE clock_points SET at = at + $1::interval", moved * DAY)
        seconds += 3600
        passed = passed_time_for(node.context.settings) if is_restarted else running
        with structlog.testing.capture_logs() as logs:
            assert await drop_once(node.database, EVERYTHING, passed) == 0
        [told] = [entry for entry in logs if "jumped" in entry["event"]]
        assert round(told["jumpseconds"] / 86_400) == -moved
        assert told["countedseconds"] == 3600
    assert await node.logged() == number
    async with node.database.acquire() as connection:
        measured = await connection.fetchval("SELECT max(measured) FROM clock_points")
        assert measured == pytest.approx(7200, abs=1)


async def test_tombstones_stay(node: Node) -> None:
    await write_groups(node, 1)
    await node.send("DELETE", "/messagegroups/g0")
    await node.changes()
    await drop(node, replace(EVERYTHING, count=1))
    async with node.database.acquire() as connection:
        assert await connection.fetchval("SELECT count(*) FROM tombstones") == 1


@pytest.mark.parametrize(
    ("state", "bound", "stays"),
    [
        ("active", {}, True),
        ("ended", {}, False),
        ("active", {"held_count": 1}, False),
        ("active", {"held_age": timedelta(0)}, False),
    ],
)
async def test_changes_stay_for_a_subscription_within_a_bound(
    node: Node, state: str, bound: dict[str, Any], stays: bool
) -> None:
    await write_groups(node, 1)
    await subscribe(node)
    await execute(node, "UPDATE subscriptions SET state = $1", state)
    passed = await node.logged()
    await write_groups(node, 4)
    number = await node.logged()
    retention = replace(EVERYTHING, **{"count": 1, **bound})
    assert await drop(node, retention) == (passed if stays else number - 1)


async def test_a_subscription_that_is_left_behind_is_told_and_goes_on(node: Node) -> None:
    async with Sink() as sink:
        id = await subscribe(node, sink.url)
        await write_groups(node, 3)
        await drop(node, replace(EVERYTHING, count=1, held_count=1))
        async with delivering(node.context):
            await node.put("/messagegroups/late", {})

            async def is_delivered() -> bool:
                subjects = {event.get_subject() for event in sink.events}
                status = (await node.get(f"/subscriptions/{id}"))["status"]
                return "/messagegroups/late" in subjects and "lost" in status

            await eventually(is_delivered)
        again = {"sink": sink.url, "protocol": "HTTP"}
    assert "/messagegroups/g0" not in {event.get_subject() for event in sink.events}
    shown = await node.get(f"/subscriptions/{id}")
    assert shown["status"]["state"] == "active"
    assert "Read from the catalog" in shown["status"]["lost"]["detail"]
    assert "lost" not in (await node.put(f"/subscriptions/{id}", again))["status"]


async def test_a_cached_answer_is_not_given_when_the_log_of_its_writes_is_gone(
    node: Node, database_url: str
) -> None:
    """Another process wrote, and the log was dropped before this one looked."""
    await write_groups(node, 2)
    await node.get("/messagegroups/g0")
    assert (await node.get("/messagegroups/g0"))["epoch"] == 1
    await execute(
        node,
        """WITH written AS (
            UPDATE entities SET epoch = 7 WHERE xid = '/messagegroups/g0' RETURNING *
        ), logged AS (
            INSERT INTO changes (
                interaction, at, xid, kind, action, authority, origin, epoch, digest, changed)
            SELECT 'i', now(), xid, kind, 'updated', authority, origin, epoch, digest, '{}'
            FROM written RETURNING 1
        )
        SELECT count(*) FROM logged""",
    )
    await write_last_change_of_another_process(node)
    await node.changes()
    await drop(node, replace(EVERYTHING, count=1))

    async def is_new() -> bool:
        return bool((await node.get("/messagegroups/g0"))["epoch"] == 7)

    await eventually(is_new)


async def write_last_change_of_another_process(node: Node) -> None:
    await execute(
        node,
        """INSERT INTO changes (
            interaction, at, xid, kind, action, authority, origin, epoch, digest, changed)
        SELECT 'j', now(), xid, kind, 'updated', authority, origin, epoch, digest, '{}'
        FROM entities WHERE xid = '/messagegroups/g1'""",
    )


async def test_the_log_of_a_restored_database_begins_anew(node: Node, database_url: str) -> None:
    """Its positions are from another server, which has assigned more transaction ids."""
    await write_groups(node, 1)
    later = 2**40
    await execute(node, "UPDATE changes SET txid = $1", later)
    await execute(node, "UPDATE node SET dropped_txid = $1", later)
    async with (
        Database.open(database_url, node_caller(), modelsource={}) as restored,
        restored.acquire() as connection,
    ):
        head = await read_head(connection)
        assert head.reaches(head.now)
        assert restored.node.instance != node.database.node.instance


async def test_one_process_drops_at_a_time(node: Node) -> None:
    await write_groups(node, 2)
    async with node.database.acquire() as connection:
        await connection.fetchval(
            "SELECT pg_advisory_lock(hashtextextended('concord log retention', 0))"
        )
        try:
            assert await drop(node, replace(EVERYTHING, count=1)) == 0
        finally:
            await connection.execute("SELECT pg_advisory_unlock_all()")


async def test_a_node_drops_by_its_settings(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_LOG_PAUSE_SECONDS", 0.05)
    node.context.shared.settings = Settings(log_changes=4)
    assert retention_from(Settings()).count == 5_000_000
    await write_groups(node, 6)
    task = asyncio.create_task(run_log_retention(node.context))
    try:

        async def is_bounded() -> bool:
            return await node.logged() == 4

        await eventually(is_bounded)
    finally:
        task.cancel()
