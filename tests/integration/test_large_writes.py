"""Large requests are planned without locks, so that others write meanwhile, and nothing is lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from catalog.model.caller import node_caller
from catalog.model.errors import NotFound, XRegistryError
from catalog.model.interaction import Interaction
from catalog.model.xid import Xid
from catalog.store.database import Connection
from catalog.store.locks import Touched, lock_and_load
from catalog.writing.outcome import Outcome
from tests.integration.conftest import Answer, Node, start_node

MANY = 250  # more than are locked one by one
GROUP = Xid("messagegroups", "g")
OTHER = Xid("messagegroups", "other")

Meanwhile = Callable[[], Awaitable[None]]


def messages(count: int, group: Xid = GROUP) -> list[Xid]:
    return [group.child("messages", f"m{number}") for number in range(count)]


def put_all(node: Node, *xids: Xid, **body: Any) -> Interaction:
    interaction = Interaction(caller=node_caller(), at=GROUP)
    for xid in xids:
        interaction.put_resource(node.context.model, xid, body, patch=False)
    return interaction


def delete(*xids: Xid) -> Interaction:
    interaction = Interaction(caller=node_caller(), at=xids[0])
    for xid in xids:
        interaction.delete(xid, None)
    return interaction


async def apply(
    node: Node, interaction: Interaction, meanwhile: Meanwhile, times: int = 1
) -> Outcome:
    """Apply an interaction, and let something happen in each of the first plans of it."""
    plans = 0

    async def condition(connection: Connection) -> None:
        nonlocal plans
        plans += 1
        if plans <= times:
            async with asyncio.timeout(10):
                await meanwhile()

    return await node.context.writer.apply(
        node.context.configuration, interaction, condition=condition
    )


async def write(node: Node, method: str, *xids: Xid) -> None:
    for xid in xids:
        answer = await node.send(method, str(xid), {} if method == "PUT" else None)
        assert answer.status in (200, 201, 204), answer.body


async def count_locks(node: Node) -> int:
    async with node.database.acquire() as connection:
        return await connection.fetchval(
            "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
            " WHERE locktype = 'advisory' AND objsubid = 1 AND datname = current_database()"
            " AND (classid::bigint << 32 | objid::bigint) = hashtextextended('catalog', 0)"
        )


async def check_log(node: Node) -> None:
    """The log leads to what is here, each entity's epochs rise, and nothing has no parent."""
    live: dict[str, int] = {}
    last: dict[str, int] = {}
    async with node.database.acquire() as connection:
        rows = await connection.fetch("SELECT * FROM changes ORDER BY txid, seq")
        stored = await connection.fetch("SELECT xid, epoch, digest FROM entities")
        buried = await connection.fetch("SELECT xid, epoch FROM tombstones")
    by_interaction: dict[str, list[Any]] = {}
    for row in rows:
        by_interaction.setdefault(row["interaction"], []).append(row)
    for changes in by_interaction.values():
        for row in changes:
            xid = row["xid"]
            # A resource whose version changes keeps its own epoch.
            assert row["epoch"] > last.get(xid, -1) - (row["action"] == "updated"), row
            last[xid] = row["epoch"]
            if row["action"] == "deleted":
                del live[xid]
            else:
                is_known = xid in live or xid == "/"
                assert is_known == (row["action"] == "updated"), row
                live[xid] = row["epoch"]
        groups = {xid for xid in live if xid.count("/") == 2}
        inside = {"/".join(xid.split("/")[:3]) for xid in live if xid.count("/") > 2}
        assert inside <= groups
    here = {row["xid"]: row["epoch"] for row in stored if row["xid"] != "/"}
    assert here == {xid: epoch for xid, epoch in live.items() if xid != "/"}
    gone = {row["xid"]: row["epoch"] for row in buried}
    assert gone == {xid: epoch for xid, epoch in last.items() if xid not in live and xid != "/"}
    logged = {row["xid"]: row["digest"] for row in rows}
    assert {row["xid"]: row["digest"] for row in stored if row["xid"] in logged} == {
        xid: digest for xid, digest in logged.items() if xid in here or xid == "/"
    }


@pytest.mark.parametrize("is_delete", [False, True])
async def test_others_write_while_a_large_request_is_planned(node: Node, is_delete: bool) -> None:
    """Writers of its own group, of others and of new groups wait for none of it."""
    await write(node, "PUT", *messages(1), *messages(1, OTHER))
    new = Xid("messagegroups", "new")
    theirs = GROUP.child("messages", "theirs")

    async def meanwhile() -> None:
        assert await count_locks(node) == 0
        await write(node, "PUT", *messages(1, OTHER), new, theirs)
        if is_delete:
            await write(node, "PUT", *messages(1))

    large = delete(GROUP) if is_delete else put_all(node, *messages(MANY)[1:])
    outcome = await apply(node, large, meanwhile)
    assert len(outcome.changes) > (0 if is_delete else MANY)
    shown = await node.get("/")
    assert shown["messagegroupscount"] == (2 if is_delete else 3)
    if not is_delete:
        group = await node.get(str(GROUP))
        assert group["messagescount"] == MANY + 1
        assert group["epoch"] == 3, "created, then once for theirs and once for all of the request"
    await check_log(node)


async def test_what_changes_meanwhile_is_planned_anew(node: Node) -> None:
    """core/spec.md, "epoch Attribute": of two writers of one entity, none is lost."""
    await node.put(str(GROUP))
    contested = messages(3)[2]

    async def meanwhile() -> None:
        await write(node, "PUT", contested)

    await apply(node, put_all(node, *messages(MANY), name="mine"), meanwhile)
    shown = await node.get(str(contested))
    assert (shown["epoch"], shown["name"]) == (2, "mine")
    await check_log(node)


async def test_a_deleted_group_is_planned_anew(node: Node) -> None:
    await write(node, "PUT", *messages(1))
    interaction = put_all(node, *messages(MANY))
    await apply(node, interaction, lambda: write(node, "DELETE", GROUP))
    assert (await node.get(str(GROUP)))["messagescount"] == MANY
    await check_log(node)


async def test_a_delete_of_what_is_deleted_meanwhile_is_refused(node: Node) -> None:
    await write(node, "PUT", *messages(1))
    with pytest.raises(NotFound):
        await apply(node, delete(GROUP), lambda: write(node, "DELETE", GROUP))
    await check_log(node)


async def test_after_three_plans_it_is_locked_first(node: Node) -> None:
    """A large request comes to its end although others write the same all the time."""
    await write(node, "PUT", *messages(1))
    await apply(node, put_all(node, *messages(MANY)), lambda: write(node, "PUT", *messages(1)), 3)
    assert (await node.get(str(messages(1)[0])))["epoch"] == 5
    await check_log(node)


async def test_a_new_cross_reference_is_held_to_the_constraints_of_its_group(node: Node) -> None:
    """A large request may not break what refers to it since it was planned."""
    source = OTHER.child("messages", "source")
    target = messages(1)[0]
    await node.put(str(target), {"name": "theirs"})
    await node.put(str(OTHER), {"constraints": {"messages.name": {"enum": ["theirs"]}}})

    async def meanwhile() -> None:
        answer = await node.send("PUT", f"{source}/meta", {"xref": str(target)})
        assert answer.status == 201, answer.body

    with pytest.raises(XRegistryError) as refusal:
        await apply(node, put_all(node, *messages(MANY), name="mine"), meanwhile)
    assert str(source) in str(refusal.value)
    assert (await node.get(str(source)))["name"] == "theirs"
    await check_log(node)


async def test_constraints_of_other_groups_need_no_lock_on_the_catalog(node: Node) -> None:
    """What a large request reads of others may change while it is planned; then it is read anew."""
    source = OTHER.child("messages", "source")
    target = messages(1)[0]
    await node.put(str(target), {"name": "theirs"})
    await node.put(str(OTHER), {"constraints": {"messages.name": {"enum": ["theirs", "mine"]}}})
    await node.put(f"{source}/meta", {"xref": str(target)})

    async def meanwhile() -> None:
        await node.put(str(OTHER), {"constraints": {"messages.name": {"enum": ["theirs"]}}})

    with pytest.raises(XRegistryError) as refusal:
        await apply(node, put_all(node, *messages(MANY), name="mine"), meanwhile)
    assert str(source) in str(refusal.value)
    assert (await node.get(str(source)))["name"] == "theirs"
    await check_log(node)


async def test_a_delete_of_a_group_may_take_longer_than_other_requests(database_url: str) -> None:
    async with start_node(database_url, request_timeout_seconds=0.3) as node:
        await write(node, "PUT", GROUP)
        async with node.database.transaction() as connection:
            await lock_and_load(connection, Touched(catalog_exclusive=True))
            deleting = asyncio.create_task(node.send("DELETE", str(GROUP)))
            assert (await node.send("PUT", str(GROUP), {})).status == 503
            assert not deleting.done()
        assert (await deleting).status == 204


@asynccontextmanager
async def writing(*loops: Awaitable[None]) -> AsyncIterator[None]:
    async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(loop) for loop in loops]  # type: ignore[arg-type]
        yield
        await asyncio.gather(*running)


async def test_of_large_and_small_writers_of_the_same_groups_nothing_is_lost(node: Node) -> None:
    """Imports, deletes of groups and small writes together lead to what the log says."""
    groups = ["a", "b", "c"]

    async def send(method: str, path: str, body: Any = None) -> Answer:
        answer = await node.send(method, path, body)
        assert answer.status in (200, 201, 204, 404), answer.body
        return answer

    async def large(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(4):
            chosen = chance.sample(groups, 2)
            first = chance.randrange(60)
            ids = [f"m{number}" for number in range(first, first + 70)]
            named = {group: {"messages": {id: {} for id in ids}} for group in chosen}
            await send("POST", "/", {"messagegroups": named})

    async def deleting(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(6):
            await send("DELETE", f"/messagegroups/{chance.choice(groups)}")
            await asyncio.sleep(0)

    async def small(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(40):
            path = f"/messagegroups/{chance.choice(groups)}/messages/m{chance.randrange(150)}"
            await send(chance.choice(["PUT", "PUT", "DELETE"]), path, {})

    await send("PUT", "/messagegroups/a", {})
    async with writing(large(1), large(2), deleting(3), *(small(seed) for seed in range(4, 10))):
        pass
    await check_log(node)
