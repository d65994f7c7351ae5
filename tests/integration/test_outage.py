"""A node whose PostgreSQL is killed, hangs or loses single connections."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import structlog
from aiohttp import ClientPayloadError, web

from catalog.context import CONTEXT
from catalog.http.route import writes
from catalog.model.caller import node_caller
from catalog.model.concorderrors import DatabaseUnavailable
from catalog.model.errors import ServerBusy
from catalog.model.modelsource import default_model
from catalog.monitoring.health import routes as monitoring_routes
from catalog.store.database import Database
from catalog.store.databasewatch import Watch, leave_alone
from catalog.store.embeddedpostgres import EmbeddedPostgres, start_embedded
from catalog.store.leadership import run_heartbeat, take_over
from replication.routes import routes as replication_routes
from tests.conftest import forget_durability
from tests.integration.conftest import Answer, Node, start_node
from tests.integration.federation import eventually
from tests.postmaster import kill_server, send_to_server

# The first test that opens the database decides its model.
MODEL = default_model().source
GROUP = "/messagegroups/g"
# Commits that write changes wait until they are killed.
COMMIT_FOR_EVER = """
    CREATE FUNCTION wait_for_ever() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_sleep(600); RETURN NULL; END';
    CREATE CONSTRAINT TRIGGER wait_for_ever AFTER INSERT ON changes
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_for_ever()"""
# What PostgreSQL says where a file cannot grow.
FULL_DISK = """
    CREATE FUNCTION fail_for_space() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN RAISE 'No space left on device' USING ERRCODE = '53100'; END$$;
    CREATE TRIGGER fail_for_space BEFORE INSERT ON changes
        FOR EACH ROW EXECUTE FUNCTION fail_for_space()"""
BUSY = """
    SELECT pid FROM pg_stat_activity WHERE datname = current_database()
        AND pid <> pg_backend_pid() AND state = 'active' AND query LIKE $1"""
TERMINATE = """
    SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where this module's own server is, since the others' must not be killed."""
    directory = tmp_path_factory.mktemp("own")
    server = asyncio.run(start_embedded(directory))
    asyncio.run(forget_durability(server.dsn))
    yield directory
    asyncio.run(server.revive())
    asyncio.run(server.stop())


@pytest.fixture
async def server(directory: Path) -> AsyncIterator[EmbeddedPostgres]:
    """That server, which runs at first."""
    server = await start_embedded(directory)
    yield server
    await server.stop()


@pytest.fixture
async def node(server: EmbeddedPostgres) -> AsyncIterator[Node]:
    lost = [writes("POST", path, _lose) for path in ("/lost", "/lost/after/write")]
    routes = [*replication_routes, *monitoring_routes, *lost]
    async with start_node(server.dsn, routes=routes) as node:
        await node.put(GROUP)
        yield node


@contextlib.asynccontextmanager
async def watched(database: Database, *, revive: Any = leave_alone) -> AsyncIterator[None]:
    watch = asyncio.create_task(Watch(database.shared, revive, patience_seconds=0.5).run())
    try:
        yield
    finally:
        watch.cancel()
        await asyncio.wait([watch])


@contextlib.asynccontextmanager
async def operator(server: EmbeddedPostgres) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(server.dsn)
    try:
        yield connection
    finally:
        await connection.close()


def assert_unavailable(answer: Answer, error: str = "database_unavailable") -> None:
    assert (answer.status, answer.error) == (503, error), answer.body
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    assert answer.headers["Retry-After"].isdigit()


async def answers(node: Node, status: int) -> None:
    async def is_so() -> bool:
        return (await node.send("GET", GROUP)).status == status

    await eventually(is_so)


async def test_without_its_database_a_node_answers_503_and_says_when_to_come_again(
    node: Node, directory: Path
) -> None:
    kill_server(directory)
    subscription = {"sink": "http://127.0.0.1:9/", "protocol": "HTTP"}
    for method, path, body in (
        ("GET", GROUP, None),
        ("GET", "/messagegroups?filter=name=x", None),
        ("GET", "/export", None),
        ("PUT", GROUP, {}),
        ("PATCH", f"{GROUP}/messages/m", {}),
        ("DELETE", GROUP, None),
        ("POST", "/subscriptions", subscription),
        ("GET", "/subscriptions", None),
        ("GET", "/replication/digests", None),
        ("GET", "/replication/snapshot", None),
        ("GET", "/services", None),
        ("GET", "/messagecatalog", None),
        ("PUT", "/registry/0.4/definitionGroups/x", {"id": "x"}),
    ):
        assert_unavailable(await node.send(method, path, body))


async def test_a_node_goes_on_by_itself_when_its_server_is_back(
    node: Node, server: EmbeddedPostgres, directory: Path
) -> None:
    """Whatever the node was doing: nothing has to be restarted, and an outage is two lines."""
    with structlog.testing.capture_logs() as logs:
        async with watched(node.database):
            kill_server(directory)
            await answers(node, 503)
            sent = [node.send("PUT", GROUP, {}) for _ in range(50)]
            assert {answer.status for answer in await asyncio.gather(*sent)} == {503}
            await server.revive()
            await answers(node, 200)
            await node.put(GROUP, {"name": "after"})
    said = [entry["event"] for entry in logs if entry["log_level"] in ("error", "info")]
    assert said == ["the database is away", "the database is back"]


async def test_an_embedded_server_that_is_killed_is_started_again(
    node: Node, server: EmbeddedPostgres, directory: Path
) -> None:
    async with watched(node.database, revive=server.revive):
        for number in range(2):
            kill_server(directory)
            await answers(node, 503)
            await answers(node, 200)
            await node.put(GROUP, {"name": str(number)})


async def test_a_hanging_database_is_noticed_and_its_return_too(
    node: Node, directory: Path
) -> None:
    async with watched(node.database):
        send_to_server(directory, signal.SIGSTOP)
        try:
            # The first waits for the database, the others know that it would be in vain.
            waiting = asyncio.create_task(node.send("GET", "/export"))
            await eventually(_is_away(node))
            async with asyncio.timeout(2):
                assert_unavailable(await node.send("PUT", GROUP, {}))
        finally:
            send_to_server(directory, signal.SIGCONT)
        assert (await waiting).status == 200
        await answers(node, 200)


async def test_a_node_whose_disk_is_full_says_so_and_goes_on_when_there_is_space(
    node: Node, server: EmbeddedPostgres
) -> None:
    async with watched(node.database), operator(server) as connection:
        await connection.execute(FULL_DISK)
        try:
            for method, path in (("PUT", "/messagegroups/full"), ("DELETE", GROUP)):
                answer = await node.send(method, path, {} if method == "PUT" else None)
                assert_unavailable(answer, "storage_full")
                assert "disk" in answer.json["title"]
            assert (await node.send("GET", GROUP)).status == 200
        finally:
            await connection.execute("DROP FUNCTION fail_for_space CASCADE")
        await eventually(_is_ready(node))
        await node.put("/messagegroups/full")


async def test_a_node_is_not_ready_while_a_write_found_its_disk_full(node: Node) -> None:
    """Nor does it say that its database is away, if that ended for this reason."""
    node.database.shared.availability.fill("a test")
    ready = await node.send("GET", "/health/ready")
    assert (ready.status, ready.headers["Retry-After"]) == (503, "1")
    assert "disk of the database is full" in ready.json["reason"]
    node.database.shared.availability.lose("a test")
    assert_unavailable(await node.send("GET", GROUP), "storage_full")
    assert (
        "disk of the database is full" in (await node.send("GET", "/health/ready")).json["reason"]
    )


def _is_ready(node: Node) -> Any:
    async def is_ready() -> bool:
        return (await node.send("GET", "/health/ready")).status == 200

    return is_ready


def _is_away(node: Node) -> Any:
    async def is_away() -> bool:
        return node.database.shared.availability.is_away

    return is_away


async def test_closing_a_database_that_hangs_takes_a_moment(
    server: EmbeddedPostgres, directory: Path
) -> None:
    loop = asyncio.get_running_loop()
    try:
        async with (
            Database.open(server.dsn, node_caller(), modelsource=MODEL) as database,
            database.transaction() as connection,
        ):
            await connection.fetchval("SELECT 1")
            send_to_server(directory, signal.SIGSTOP)
            began = loop.time()
            raise TimeoutError
    except ServerBusy:
        assert loop.time() - began < 8
    finally:
        send_to_server(directory, signal.SIGCONT)


async def test_an_answer_that_was_remembered_is_not_given_when_nobody_can_confirm_it(
    node: Node, directory: Path
) -> None:
    """Not beyond `CONCORD_CACHE_STALENESS_SECONDS`."""
    assert [(await node.send("GET", GROUP)).status for _ in range(2)] == [200, 200]
    kill_server(directory)
    await answers(node, 503)


async def test_a_write_that_was_lost_while_it_was_committed_is_told_to_be_in_doubt(
    node: Node, server: EmbeddedPostgres
) -> None:
    async with operator(server) as connection:
        await connection.execute(COMMIT_FOR_EVER)
        for method, path in (("PUT", "/messagegroups/alone"), ("DELETE", GROUP)):
            writing = asyncio.create_task(node.send(method, path, {} if method == "PUT" else None))
            await eventually(_runs(connection, "COMMIT%"))
            await connection.execute(TERMINATE)
            answer = await writing
            assert_unavailable(answer, "outcome_unknown")
            assert "may have been applied" in answer.json["title"]
        await connection.execute("DROP FUNCTION wait_for_ever CASCADE")


def _runs(connection: asyncpg.Connection, query: str) -> Any:
    async def runs() -> bool:
        # Within a transaction, the first look would be the last one.
        await connection.execute("SELECT pg_stat_clear_snapshot()")
        return bool(await connection.fetch(BUSY, query))

    return runs


async def test_a_write_that_was_lost_before_its_commit_is_not_in_doubt(
    node: Node, server: EmbeddedPostgres
) -> None:
    async with operator(server) as connection, connection.transaction():
        await connection.execute("LOCK TABLE entities")
        writing = asyncio.create_task(node.send("DELETE", GROUP))
        await eventually(_runs(connection, "%"))
        await connection.execute(TERMINATE)
        assert_unavailable(await writing)
    assert (await node.send("GET", GROUP)).status == 200


async def test_a_write_whose_answer_is_lost_is_told_to_be_in_doubt(node: Node) -> None:
    """The database is lost after the commit, while the answer is read."""
    assert_unavailable(await node.send("POST", "/lost/after/write"), "outcome_unknown")
    assert_unavailable(await node.send("POST", "/lost"))


async def _lose(request: web.Request) -> web.Response:
    database = request[CONTEXT].database
    if request.path.endswith("/after/write"):
        async with database.transaction() as connection:
            await connection.execute("UPDATE subscriptions SET failures = 0")
    async with database.acquire() as connection:
        await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    return web.Response()


@pytest.mark.parametrize(
    "path", ["/export", "/replication/snapshot", "/replication/digests?format=csv"]
)
async def test_an_answer_whose_database_is_lost_on_the_way_does_not_look_whole(
    node: Node, server: EmbeddedPostgres, path: str
) -> None:
    text = "x" * 4000
    for number in range(20):
        messages = {f"m{n}": {"description": text} for n in range(100)}
        await node.put(f"/messagegroups/g{number}", {"messages": messages})
    async with operator(server) as connection, node.client.get(path) as response:
        assert response.status == 200
        await response.content.read(10)
        # All at once: the answer must not be complete before its connection's turn.
        await connection.execute(TERMINATE.replace(", 10000", ""))
        with pytest.raises(ClientPayloadError):
            await response.read()


async def _take_over_and_lose(database: Database, operator: asyncpg.Connection) -> None:
    async with asyncio.timeout(5), database.acquire() as session:
        pid = await session.fetchval("SELECT pg_backend_pid()")
        async with take_over(session, "test") as is_in_charge:
            assert is_in_charge
            await operator.execute("SELECT pg_terminate_backend($1)", pid)
            await run_heartbeat(session)


async def test_whose_session_is_lost_loses_the_role_at_once(server: EmbeddedPostgres) -> None:
    async with (
        Database.open(server.dsn, node_caller(), modelsource=MODEL) as one,
        Database.open(server.dsn, node_caller(), modelsource=MODEL) as other,
        operator(server) as connection,
    ):
        with pytest.raises(DatabaseUnavailable):
            await _take_over_and_lose(one, connection)
        async with other.acquire() as session, take_over(session, "test") as is_in_charge:
            assert is_in_charge
        async with one.acquire() as session, take_over(session, "test") as is_in_charge:
            assert is_in_charge, "the pool keeps no connection with the lock of an earlier one"
