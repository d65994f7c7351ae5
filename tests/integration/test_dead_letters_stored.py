"""Dead letters and attempts as they are stored: their order, their states and their bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from catalog.model.caller import node_caller
from catalog.operations.subscriptions import DeadLetterCounts
from catalog.settings import Settings
from catalog.store.database import Database
from catalog.subscriptions.delivery.retention import KeptAttempts, trim_once
from catalog.subscriptions.stored.deadletters import (
    FailedEvent,
    add,
    blocked_subjects,
    clear_dead_letters,
    count_dead_letters,
    get_dead_letter,
    mark_due,
    page_dead_letters,
    read_due,
    set_dead,
)
from catalog.subscriptions.stored.deliveryattempts import Attempt, add_attempts, page_attempts
from catalog.subscriptions.stored.subscriptions import SubscriptionDefinition, create, delete, get
from tests.integration.clockpoints import store_point

NOW = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
ID = "s"
LAST = 2**63 - 1


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with Database.open(database_url, node_caller(), modelsource={}) as database:
        async with database.transaction() as connection:
            await create(connection, ID, SubscriptionDefinition(sink="http://127.0.0.1:9/"))
        yield database


def failed(name: str, *, waits: bool = False, at: datetime = NOW) -> FailedEvent:
    """An event whose subject is the first letter of its name."""
    return FailedEvent(
        event=b'{"id": "\\u0000"}',
        eventid=name,
        subject=name[0],
        at=at,
        attempts=0 if waits else 3,
        reason="the sink answered 400",
        state="waiting" if waits else "dead",
    )


async def put(database: Database, *events: FailedEvent, most: int = 1000) -> int:
    async with database.transaction() as connection:
        return await add(connection, ID, events, most=most)


async def states(database: Database) -> dict[str, str]:
    """The state of each dead letter, in their order."""
    async with database.acquire() as connection:
        found = await page_dead_letters(connection, ID, 0, 100)
    return {each.eventid: each.state for each in found}


async def number_of(database: Database, name: str) -> int:
    async with database.acquire() as connection:
        found = await page_dead_letters(connection, ID, 0, 100)
    return next(each.number for each in found if each.eventid == name)


async def until_one_waits(database: Database) -> None:
    """Wait until a transaction waits for another one's lock."""
    async with asyncio.timeout(20), database.acquire() as connection:
        while not await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ):
            await asyncio.sleep(0.01)  # between two looks at who waits


async def test_an_event_becomes_a_dead_letter_once(database: Database) -> None:
    assert await put(database, failed("a1"), failed("b1")) == 2
    assert await put(database, failed("b1"), failed("a2")) == 2
    assert await states(database) == {"a1": "dead", "b1": "dead", "a2": "dead"}
    async with database.acquire() as connection:
        found = await get_dead_letter(connection, ID, await number_of(database, "a1"))
        assert await blocked_subjects(connection, ID) == {"a", "b"}
        counts = await count_dead_letters(connection, [ID, "other"])
    assert found is not None
    assert (found.event, found.at, found.attempts) == (b'{"id": "\\u0000"}', NOW, 3)
    assert counts == {ID: DeadLetterCounts(dead=3), "other": DeadLetterCounts()}


async def test_what_finds_no_room_is_told(database: Database) -> None:
    assert await put(database, failed("a1"), failed("a2"), failed("a3"), most=2) == 2
    assert await put(database, failed("a2"), failed("a3"), most=2) == 1
    assert await put(database, failed("a3"), most=2) == 0
    assert await states(database) == {"a1": "dead", "a2": "dead"}


async def test_events_wait_behind_a_dead_letter_of_their_subject_only(database: Database) -> None:
    waiting = [failed(name, waits=True) for name in ("a2", "b1")]
    await put(database, failed("a1"), *waiting)
    assert await states(database) == {"a1": "dead", "a2": "waiting", "b1": "due"}


async def test_what_waits_is_delivered_again_after_what_it_waits_for(database: Database) -> None:
    waiting = [failed(name, waits=True) for name in ("a2", "b2")]
    await put(database, failed("a1"), failed("b1"), *waiting)
    async with database.transaction() as connection:
        assert await mark_due(connection, ID, number=await number_of(database, "a1")) == 2
    assert await states(database) == {"a1": "due", "b1": "dead", "a2": "due", "b2": "waiting"}
    async with database.acquire() as connection:
        assert [each.eventid for each in await read_due(connection, ID, 10)] == ["a1", "a2"]
        assert [each.eventid for each in await read_due(connection, ID, 1)] == ["a1"]
    # An event that comes while the first one is delivered again comes after all of them.
    await put(database, failed("a3", waits=True))
    assert (await states(database))["a3"] == "due"


@pytest.mark.parametrize(("holds_subject", "others"), [(True, "waiting"), (False, "due")])
async def test_a_dead_letter_that_fails_again_is_dead_again(
    database: Database, holds_subject: bool, others: str
) -> None:
    await put(database, failed("a1"), failed("a2", waits=True), failed("b1"))
    number = await number_of(database, "a1")
    async with database.transaction() as connection:
        await mark_due(connection, ID)
        await set_dead(
            connection,
            ID,
            number,
            reason="the sink answered 422",
            at=NOW + HOUR,
            attempts=2,
            holds_subject=holds_subject,
        )
        found = await get_dead_letter(connection, ID, number)
    assert found is not None
    assert (found.attempts, found.reason, found.at) == (5, "the sink answered 422", NOW + HOUR)
    assert await states(database) == {"a1": "dead", "a2": others, "b1": "due"}


async def test_nothing_waits_for_ever_for_a_dead_letter_that_leaves_meanwhile(
    database: Database,
) -> None:
    """Whoever comes second sees what the first has done."""
    await put(database, failed("a1"))
    async with database.transaction() as connection:
        await clear_dead_letters(connection, ID)
        adding = asyncio.create_task(put(database, failed("a2", waits=True)))
        await until_one_waits(database)
    assert await adding == 1
    assert await states(database) == {"a2": "due"}


def attempt(number: int, *, subscription: str = ID, at: datetime = NOW) -> Attempt:
    return Attempt(
        subscription=subscription,
        at=at,
        events=number,
        outcome="delivered",
        reason="204",
        milliseconds=number,
    )


async def attempts_of(database: Database, before: int = LAST, limit: int = 100) -> list[int]:
    async with database.acquire() as connection:
        return [each.events for each in await page_attempts(connection, ID, before, limit)]


async def test_attempts_are_read_from_the_newest_on(database: Database) -> None:
    async with database.acquire() as connection:
        await add_attempts(connection, [attempt(n) for n in range(5)], most=4)
        await add_attempts(connection, [attempt(1, subscription="gone"), attempt(5)], most=4)
        [_, _, third] = await page_attempts(connection, ID, LAST, 3)
    assert await attempts_of(database) == [5, 4, 3, 2, 1]
    assert await attempts_of(database, before=third.number) == [2, 1]


async def test_the_attempts_of_a_subscription_that_is_deleted_meanwhile_are_left_out(
    database: Database,
) -> None:
    async with database.transaction() as connection:
        await delete(connection, ID)
        async with database.acquire() as other:
            adding = asyncio.create_task(add_attempts(other, [attempt(1)], most=4))
            await until_one_waits(database)
            await connection.execute("COMMIT")
            await adding
            await connection.execute("BEGIN")
    assert await attempts_of(database) == []


async def test_old_attempts_and_dead_letters_are_dropped(database: Database) -> None:
    settings, kept = Settings(dead_letter_days=1), KeptAttempts(2, timedelta(days=1))
    old = NOW - timedelta(days=2)
    async with database.acquire() as connection:
        given = [attempt(0, at=old), *(attempt(n) for n in (1, 2, 3))]
        await add_attempts(connection, given, most=10)
        before = await get(connection, ID)
    await put(database, failed("a1", at=old), failed("a2", waits=True), failed("b1"))
    many = KeptAttempts(10, timedelta(days=1))
    dropped = await trim_once(database, settings, NOW, kept=many)
    assert dropped == (0, 0), "a day has yet to be measured"
    await store_point(database, NOW - timedelta(days=1), timedelta(0))
    await store_point(database, NOW, timedelta(days=1))
    assert await trim_once(database, settings, NOW, kept=kept) == (2, 1)
    assert await attempts_of(database) == [3, 2]
    assert await states(database) == {"a2": "due", "b1": "dead"}
    async with database.acquire() as connection:
        after = await get(connection, ID)
    assert before is not None
    assert after is not None
    assert after.revision > before.revision
    assert await trim_once(database, settings, NOW) == (0, 0)


async def test_they_go_with_their_subscription(database: Database) -> None:
    await put(database, failed("a1"))
    async with database.transaction() as connection:
        await add_attempts(connection, [attempt(1)], most=10)
        await delete(connection, ID)
        assert await add(connection, ID, [failed("a2")], most=10) == 1
        assert await mark_due(connection, ID) == 0
    assert (await states(database), await attempts_of(database)) == ({}, [])


async def test_an_unknown_state_is_refused(database: Database) -> None:
    async with database.acquire() as connection:
        with pytest.raises(asyncpg.CheckViolationError):
            await connection.execute(
                "INSERT INTO dead_letters "
                "(subscription, eventid, subject, event, at, attempts, reason, state) "
                "VALUES ('s', 'x', 'x', '', now(), 1, '', 'lost')"
            )
