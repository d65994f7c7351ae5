"""Many who write services at once, beside those who write natively."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import asyncpg
import pytest

from catalog.store.locks import Touched, lock_and_load
from tests.integration.conftest import Answer, Node, start_node
from tests.integration.test_discovery_services import add, names, service

WRITERS = 24
# The writes of one client that may hold a connection at a time: half of the pool.
MOST_AT_ONCE = 5
# More than may be written without the whole catalog being locked.
MANY = 120


@contextlib.asynccontextmanager
async def locked(node: Node, *groups: str) -> AsyncIterator[None]:
    """Keep everybody from these groups, as whoever deletes something in them does."""
    touched = Touched(groups=frozenset(groups), groups_exclusive=True)
    async with node.database.transaction() as connection:
        await lock_and_load(connection, touched)
        yield


@contextlib.asynccontextmanager
async def unwritable(node: Node, xid: str) -> AsyncIterator[None]:
    """Keep whoever writes an entity where it has decided what to write, and not done so."""
    async with node.database.transaction() as connection:
        await connection.execute("SELECT FROM entities WHERE xid = $1 FOR UPDATE", xid)
        yield


async def until_waiting(node: Node, writers: int, *unless: asyncio.Task[Answer]) -> None:
    """Until so many wait for a lock, or one of these requests is answered."""
    async with asyncio.timeout(20), node.database.acquire() as connection:
        while await waiting(connection) < writers and not any(each.done() for each in unless):
            await asyncio.sleep(0.005)  # between two looks


async def waiting(connection: asyncpg.Connection) -> int:
    return int(
        await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
    )


async def all_of(*requests: Coroutine[Any, Any, Answer]) -> list[Answer]:
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(request) for request in requests]
    return [task.result() for task in running]


async def put(node: Node, id: str, name: str, **attributes: Any) -> Answer:
    return await node.send("PUT", f"/services/{id}", {"id": id, **service(name, **attributes)})


@pytest.mark.parametrize("others", ["/messagegroups/g", "/endpoints/e"])
async def test_a_service_is_written_while_another_group_is_locked(node: Node, others: str) -> None:
    """Even that of messages that it shows: what it shows of them is found when it is read."""
    await node.put("/messagegroups/g")
    await node.put(others)
    await node.put("/endpoints/x", {"usage": ["subscriber"], "messagegroups": ["/messagegroups/g"]})
    [native] = await node.get("/services")
    async with locked(node, others), asyncio.timeout(20):
        [id, more] = await add(node, service("one", events=[{"type": "t"}]), service("two"))
        assert (await put(node, id, "new", events=[{"type": "u"}])).status == 200
        assert (await put(node, native["id"], "native")).status == 200
        assert (await node.send("DELETE", f"/services/{more}")).status == 200
    assert await names(node) == {"new", "native"}


async def test_only_who_touches_a_service_waits_for_whoever_writes_it(node: Node) -> None:
    one, other = await add(node, service("one"), service("other"))
    async with unwritable(node, f"/endpoints/{one}"), asyncio.timeout(20):
        writer = asyncio.create_task(put(node, one, "new"))
        await until_waiting(node, 1)
        same = asyncio.create_task(put(node, one, "newer"))
        native = asyncio.create_task(node.send("PATCH", f"/endpoints/{one}", {"labels": {}}))
        await until_waiting(node, 3)
        await node.put("/messagegroups/g/messages/m")
        assert (await put(node, other, "free")).status == 200
        assert not any(task.done() for task in (writer, same, native))
    answers = await asyncio.gather(writer, same, native)
    assert {answer.status for answer in answers} == {200}
    assert sorted(answer.json["epoch"] for answer in answers) == [2, 3, 4]


async def test_of_two_who_want_a_name_at_once_one_gets_it(database_url: str) -> None:
    async with start_node(database_url) as node, start_node(database_url) as there:
        one, other = await add(node, service("one"), service("other"))
        async with unwritable(node, f"/endpoints/{one}"), asyncio.timeout(20):
            first = asyncio.create_task(put(node, one, "Wanted"))
            await until_waiting(node, 1)
            second = asyncio.create_task(put(there, other, "wANTED"))
            await until_waiting(node, 2, second)
        answers = await asyncio.gather(first, second)
        assert [answer.status for answer in answers] == [200, 409]
        assert await names(node) == {"Wanted", "other"}


async def test_of_many_who_want_several_names_at_once_none_waits_for_one_who_waits(
    node: Node,
) -> None:
    ids = await add(node, *(service(f"n{n}") for n in range(MOST_AT_ONCE)))
    running = []
    async with unwritable(node, f"/endpoints/{ids[0]}"):
        for number, id in enumerate(ids, 1):
            wanted = [{**service(f"w{n * number % 8}"), "id": id} for n in range(1, 9)]
            request = node.send("POST", "/services?import", wanted)
            running.append(asyncio.create_task(request))
            await until_waiting(node, number)
    async with asyncio.timeout(20):
        answers = await asyncio.gather(*running)
    assert [answer.status for answer in answers] == [201, *(409 for _ in ids[1:])]


async def test_every_write_of_one_service_is_counted(database_url: str) -> None:
    async with start_node(database_url) as node, start_node(database_url) as there:
        [id] = await add(node, service("one"))
        answers = await all_of(
            *(
                put((node, there)[n % 2], id, f"n{n}", events=[{"type": f"t{n}"}])
                for n in range(WRITERS)
            )
        )
        assert {answer.status for answer in answers} == {200}
        shown = {answer.json["epoch"]: answer.json for answer in answers}
        assert sorted(shown) == [n + 2 for n in range(WRITERS)]
        last = await node.get(f"/services/{id}")
        for name in ("name", "events"):
            assert last[name] == shown[WRITERS + 1][name]
        assert len(last["events"]) == 1


@pytest.mark.parametrize("endpoint", ["0b5e3a52-6a3f-4c8e-9d55-5d3f5b1a9c10", "native"])
async def test_what_was_written_while_a_service_waited_is_replaced(
    node: Node, endpoint: str
) -> None:
    await node.put(f"/endpoints/{endpoint}", {"usage": ["subscriber"]})
    [shown] = await node.get("/services")
    rain = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "rain"}}}
    async with locked(node, f"/endpoints/{endpoint}"), asyncio.timeout(20):
        body = {"messages": {"rain": rain}}
        earlier = asyncio.create_task(node.send("PATCH", f"/endpoints/{endpoint}", body))
        await until_waiting(node, 1)
        later = asyncio.create_task(put(node, shown["id"], "n", events=[{"type": "snow"}]))
        await until_waiting(node, 2)
    assert [answer.status for answer in await asyncio.gather(earlier, later)] == [200, 200]
    shown = await node.get(f"/services/{shown['id']}")
    assert shown["events"] == [{"type": "snow"}]


async def test_large_requests_wait_for_all_others_and_hold_no_lock_for_each_name(
    node: Node,
) -> None:
    """The database has room for some thousand locks, which all transactions share."""
    await node.put("/messagegroups/g")
    wanted = [service(f"n{n}") for n in range(MANY)]
    async with locked(node, "/messagegroups/g"):
        large = asyncio.create_task(node.send("POST", "/services", wanted))
        await until_waiting(node, 1, large)
        assert not large.done()
    answer = await large
    assert answer.status == 201
    assert len(answer.json) == MANY


async def test_a_mix_of_native_writers_and_those_of_services_comes_to_an_end(
    database_url: str,
) -> None:
    """No two writers wait for each other, whatever they touch and in whatever order."""
    async with start_node(database_url) as node, start_node(database_url) as there:
        await node.put("/endpoints/native", {"usage": ["subscriber"], "name": "native"})
        [native] = await node.get("/services")
        ids = [*await add(node, *(service(f"n{n}") for n in range(6))), native["id"]]
        requests = [mixed((node, there)[n % 2], ids, n) for n in range(WRITERS * 6)]
        answers = await all_of(*requests)
        assert {answer.status for answer in answers} <= {200, 201, 204, 404, 409}
        shown = await node.get("/services")
        found = [each["name"] for each in shown if each["name"].startswith("n")]
        assert len(found) == len({*found})


async def mixed(node: Node, ids: list[str], n: int) -> Answer:
    """One of many requests that meet the same services, names and groups."""
    id, next_id = ids[n % len(ids)], ids[(n * 5 + 1) % len(ids)]
    event = {"type": f"t{n % 3}"}
    match n % 9:
        case 0:
            return await put(node, id, f"n{n % 7}", events=[event])
        case 1:
            both = [
                {**service(f"n{(n + k) % 7}"), "id": each} for k, each in enumerate({id, next_id})
            ]
            return await node.send("POST", "/services?import", both)
        case 2:
            return await node.send("DELETE", f"/services/{id}")
        case 3:
            return await node.send("PATCH", f"/endpoints/{id}", {"labels": {"n": str(n)}})
        case 4:
            return await node.send("PUT", f"/endpoints/{id}/messages/m{n % 3}", {})
        case 5:
            return await node.send("POST", "/services", [service(str(uuid.uuid4()))])
        case 6:
            many = [{**service(f"many {k}"), "id": str(uuid.UUID(int=k))} for k in range(MANY)]
            return await node.send("POST", "/services?import", many)
        case 7:
            body = {each: {"labels": {"n": str(n)}} for each in (next_id, id)}
            return await node.send("PATCH", "/endpoints", body)
        case _:
            return await node.send("PATCH", "/", {"name": str(n)})
