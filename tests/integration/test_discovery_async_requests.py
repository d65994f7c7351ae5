"""Services that are written while their clients do not wait."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import Any

import asyncpg

from tests.integration.conftest import Answer, Node, assert_problem, start_node

ONE = {"name": "one", "protocols": ["HTTP"]}
LATER = {"Prefer": "respond-async"}


@contextlib.asynccontextmanager
async def locked(node: Node) -> AsyncIterator[asyncpg.Connection]:
    """Keep everybody from writing, as whoever changes the configuration does."""
    async with node.database.acquire() as connection, connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('catalog', 0))")
        yield connection


async def ask(node: Node, method: str, path: str, json: Any = None, **headers: str) -> str:
    """Send a request that is accepted; the path of its status."""
    answer = await node.send(method, path, json, **{**LATER, **headers})
    assert answer.status == 202, answer.body
    assert answer.body == b""
    assert answer.headers["Preference-Applied"] == "respond-async"
    assert answer.headers["Retry-After"] == "1"
    assert answer.headers["Location"].startswith(f"{node.url}/services/requests/")
    return str(answer.headers["Location"]).removeprefix(node.url)


async def end_of(node: Node, status: str) -> Answer:
    """What a request is answered with in the end."""
    async with asyncio.timeout(20):
        while (answer := await node.send("GET", status)).status == 202:
            assert answer.headers["Retry-After"] == "1"
    return answer


async def execute(node: Node, statement: str, *arguments: Any) -> None:
    async with node.database.acquire() as connection:
        await connection.execute(statement, *arguments)


async def test_the_answer_is_at_the_status_endpoint_once_it_is_done(node: Node) -> None:
    async with locked(node):
        status = await ask(node, "POST", "/services", [ONE])
        assert (await node.send("GET", status)).status == 202
        assert await node.get("/services") == []
    answer = await end_of(node, status)
    [shown] = await node.get("/services")
    assert (answer.status, answer.json) == (200, [{"id": shown["id"]}])
    assert answer.headers["Location"] == shown["url"]
    assert answer.headers["Content-Type"].startswith("application/json")


async def test_every_kind_of_write_can_be_answered_later(node: Node) -> None:
    id = str(uuid.uuid4())
    path = f"/services/{id}"
    put = await end_of(node, await ask(node, "PUT", f"{path}?import", {**ONE, "id": id}))
    assert (put.status, put.json) == (200, await node.get(path))
    assert put.headers["Location"] == node.url + path
    put = await end_of(node, await ask(node, "PUT", path, {**ONE, "id": id, "name": "two"}))
    assert (put.status, put.json["name"]) == (200, "two")
    assert "Location" not in put.headers
    gone = await end_of(node, await ask(node, "DELETE", path))
    assert (gone.status, gone.json) == (200, put.json)
    await node.send("POST", "/services?import", [{**ONE, "id": id}])
    all_gone = await end_of(node, await ask(node, "DELETE", "/services", [{"id": id}]))
    assert (all_gone.status, len(all_gone.json)) == (200, 1)
    assert await node.get("/services") == []


async def test_a_request_that_fails_says_why_at_its_status_endpoint(node: Node) -> None:
    await node.send("POST", "/services", [ONE])
    state = await node.state()
    answer = await end_of(node, await ask(node, "POST", "/services", [{**ONE, "name": "ONE"}]))
    assert (answer.status, answer.error) == (406, "service_name_taken")
    assert_problem(answer)
    missing = await end_of(node, await ask(node, "DELETE", f"/services/{uuid.uuid4()}"))
    assert (missing.status, missing.error) == (406, "not_found")
    assert await node.state() == state


async def test_what_cannot_be_read_is_refused_at_once(node: Node) -> None:
    for body in ({}, [{"name": "x"}]):
        assert (await node.send("POST", "/services", body, **LATER)).status == 400


async def test_a_preference_among_others_is_heard_and_others_are_not(node: Node) -> None:
    await end_of(node, await ask(node, "POST", "/services", [], Prefer="a=b, Respond-Async; x=1"))
    answer = await node.send("POST", "/services", [], Prefer='return=minimal, x="respond-async"')
    assert answer.status == 201
    assert "Preference-Applied" not in answer.headers


async def test_a_status_is_known_to_every_process_and_after_a_restart(database_url: str) -> None:
    async with start_node(database_url) as node:
        status = await ask(node, "POST", "/services", [ONE])
        before = await end_of(node, status)
    async with start_node(database_url) as node:
        after = await node.send("GET", status)
        assert (after.status, after.body) == (200, before.body)
        assert after.headers["Location"] == before.headers["Location"]


async def test_a_request_whose_process_ended_is_reported_and_nothing_of_it_was_done(
    database_url: str,
) -> None:
    async with start_node(database_url) as other, contextlib.AsyncExitStack() as process:
        node = await process.enter_async_context(start_node(database_url))
        async with locked(other):
            status = await ask(node, "POST", "/services", [ONE])
            await process.aclose()
        assert (await other.send("GET", status)).status == 202
        await execute(other, "UPDATE service_requests SET deadline = now()")
        answer = await other.send("GET", status)
        assert (answer.status, answer.error) == (406, "request_interrupted")
        assert await other.get("/services") == []


async def test_what_was_reported_as_interrupted_does_not_happen_afterwards(node: Node) -> None:
    async with locked(node):
        status = await ask(node, "POST", "/services", [ONE])
        await execute(node, "UPDATE service_requests SET deadline = now()")
        answer = await node.send("GET", status)
        assert (answer.status, answer.error) == (406, "request_interrupted")
        assert_problem(answer)
    async with locked(node):
        assert await node.get("/services") == []
    assert (await node.send("GET", status)).error == "request_interrupted"


async def test_no_more_requests_wait_than_is_bearable(node: Node) -> None:
    await execute(
        node,
        "INSERT INTO service_requests (id, deadline)"
        " SELECT gen_random_uuid(), now() + interval '1 minute' FROM generate_series(1, 20)",
    )
    answer = await node.send("POST", "/services", [ONE], **LATER)
    assert (answer.status, answer.error) == (503, "server_busy")
    await execute(node, "UPDATE service_requests SET deadline = now()")
    assert (await end_of(node, await ask(node, "POST", "/services", [ONE]))).status == 200


async def test_old_requests_are_forgotten_and_the_oldest_of_too_many(node: Node) -> None:
    await execute(
        node,
        "INSERT INTO service_requests (id, at, deadline, state)"
        " SELECT gen_random_uuid(), now() - make_interval(secs => n), now(), 'done'"
        " FROM generate_series(1, 4000, 3) AS n",
    )
    status = await ask(node, "POST", "/services", [])
    assert (await end_of(node, status)).status == 200
    async with node.database.acquire() as connection:
        count, oldest = await connection.fetchrow(
            "SELECT count(*), extract(epoch FROM now() - min(at)) FROM service_requests"
        )
    assert count == 1001
    assert oldest < 3100


async def test_a_status_that_nobody_asked_for_is_not_found(node: Node) -> None:
    for id in (uuid.uuid4(), "x"):
        assert (await node.send("GET", f"/services/requests/{id}")).status == 404
