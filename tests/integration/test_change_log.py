"""The change log under load: a reader that follows it sees every change once, in order."""

from __future__ import annotations

import asyncio

from catalog.model.change import REMOVED
from catalog.store.changes import LoggedChange, Position, read_changes
from catalog.store.database import wait_for
from tests.integration.conftest import Node

WRITERS = 32
WRITES = 12
PAGE = 7


async def test_a_reader_that_pages_while_32_write_misses_nothing(node: Node) -> None:
    """Positions are (transaction, sequence), shown once no earlier one can still appear.

    A reader that only went on from the last `seq` it saw would skip changes: of two
    transactions that are open at once, the one with the lower numbers may commit last, and
    by then the reader has passed them. The next test makes such a gap on purpose.
    """
    done = asyncio.Event()
    async with asyncio.timeout(90), asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(follow(node, done))
        await write_all(node)
        done.set()
    seen = reader.result()
    positions = [change.position for change in seen]
    assert positions == sorted(positions)
    assert len(positions) == len({*positions})
    assert seen == await node.changes(), "what was read page by page is what is there"
    assert seen[-1].position.txid > seen[0].position.txid
    check_epochs(seen)


async def write_all(node: Node) -> None:
    """Each writer has entities of its own, and all share some."""
    async with asyncio.TaskGroup() as tasks:
        for number in range(WRITERS):
            tasks.create_task(write_some(node, number))


async def write_some(node: Node, number: int) -> None:
    for n in range(WRITES):
        path = f"/messagegroups/g{n % 3}/messages/m{number if n % 2 else 'shared'}"
        answer = await node.send("PUT", f"{path}/versions/v{n % 4}", {"name": f"{number}.{n}"})
        assert answer.status in (200, 201), answer.body


async def follow(node: Node, done: asyncio.Event) -> list[LoggedChange]:
    """Everything that a reader sees which never looks back."""
    seen: list[LoggedChange] = []
    cursor = Position(0, 0)
    while True:
        is_last = done.is_set()
        ticket = node.database.signal.ticket()
        async with node.database.acquire() as connection:
            page = await read_changes(connection, cursor, PAGE)
        seen += page
        if page:
            cursor = page[-1].position
        elif is_last and len(seen) >= await node.logged():
            return seen
        else:
            await wait_for(ticket, 0.2)


def check_epochs(seen: list[LoggedChange]) -> None:
    """An entity's epochs rise by one from change to change: none is missing, none is late."""
    epochs: dict[str, int] = {}
    for logged in seen:
        xid, epoch = logged.change.xid, logged.change.epoch
        own = "meta.epoch" if logged.change.kind == "resource" else "epoch"
        if logged.change.action == "created":
            assert xid not in epochs
        elif xid != "/":
            assert epoch == epochs[xid] + (own in logged.change.changed), logged
        epochs[xid] = epoch


async def test_an_open_transaction_holds_back_what_was_committed_after_it_began(
    node: Node,
) -> None:
    """The order that a reader sees is never one that a late commit could still change."""
    async with node.database.acquire() as other:
        late = other.transaction()
        await late.start()
        await other.fetchval("SELECT pg_current_xact_id()::text::bigint")
        answer = await node.send("PUT", "/messagegroups/g", {})
        assert answer.status == 201
        assert await node.logged() == 2
        async with node.database.acquire() as connection:
            assert await read_changes(connection, Position(0, 0), 100) == []
        await late.rollback()
    assert {logged.change.xid for logged in await node.changes()} == {"/", "/messagegroups/g"}


async def test_a_deprecation_that_was_taken_away_is_marked(node: Node) -> None:
    """core/events.md names both alike; a later version of it does not."""
    group = "/messagegroups/g"
    await node.put(group, {"deprecated": {"removal": "2030-01-01T00:00:00Z"}})
    for deprecated in ({"removal": "2031-01-01T00:00:00Z"}, None):
        await node.send("PATCH", group, {"deprecated": deprecated})
    told = [c.change.deprecation for c in await node.changes() if c.change.xid == group]
    assert told == [("removal",), ("removal",), (REMOVED, "removal")]
