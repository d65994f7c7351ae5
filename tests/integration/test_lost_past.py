"""A source whose data directory was put back has lost changes, and whoever follows it notices."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from catalog.store.changes import LogCursor
from catalog.store.embeddedpostgres import start_embedded
from catalog.store.postgresaccount import temporary_directory
from catalog.store.queries import Queries
from replication.store.loghistory import read_cursor, why_lost
from tests.integration.conftest import Node
from tests.integration.federation import (
    accept,
    databases,
    eventually,
    execute,
    link,
    link_history_is,
    link_is,
    push,
    running,
    start_member,
)

LOST = 16
GROUP = "/messagegroups/g"


@pytest.fixture
async def peer(postgres_url: str, template: str) -> AsyncIterator[Node]:
    """A node on a server that loses nothing."""
    async with databases(postgres_url, template, 1) as [dsn], start_member(dsn) as node:
        yield node


@pytest.fixture
def directory() -> Iterator[Path]:
    with temporary_directory("concord-past-") as made:
        yield made


@contextlib.asynccontextmanager
async def source_in(directory: Path) -> AsyncIterator[Node]:
    """A node on a server of its own, which ends with it."""
    server = await start_embedded(directory)
    try:
        async with start_member(server.dsn) as node:
            yield node
    finally:
        await server.stop()


async def write(node: Node, prefix: str, number: int) -> None:
    await node.put(GROUP)
    for each in range(number):
        await node.put(f"{GROUP}/messages/{prefix}{each}", {"description": prefix})


async def has(node: Node, name: str) -> bool:
    return (await node.send("GET", f"{GROUP}/messages/{name}")).status == 200


async def follow_again(peer: Node, source: Node) -> None:
    """The source is at another port than before its restart."""
    moved = "definition = jsonb_set(definition, '{source}', to_jsonb($1::text))"
    await execute(peer, f"UPDATE links SET {moved}", source.url)


async def events_of(node: Node, id: str) -> list[str]:
    history = (await node.get(f"/replication/links/{id}"))["history"]
    return [event["event"] for event in history]


@pytest.mark.parametrize("mode", ["pull", "push"])
async def test_a_directory_that_is_put_back_and_written_on_is_noticed(
    peer: Node, directory: Path, mode: str
) -> None:
    """Its log goes beyond the cursor again: only the past tells it from the lost one."""
    running_at, kept_at = directory / "node", directory / "kept"
    async with source_in(running_at) as source:
        await write(source, "kept", 3)
        if mode == "push":
            accepted = await accept(peer, source)
            await push(source, peer)
    # With its owner: the server of root runs as another user.
    await asyncio.to_thread(subprocess.run, ["cp", "-a", running_at, kept_at], check=True)

    async with source_in(running_at) as source:
        id = accepted["id"] if mode == "push" else (await link(peer, source))["id"]
        async with running(source if mode == "push" else peer):
            await link_is(peer, id, "current")
            await write(source, "lost", LOST)
            await eventually(lambda: has(peer, f"lost{LOST - 1}"))
            await link_is(peer, id, "current")
    shutil.rmtree(running_at)
    shutil.move(kept_at, running_at)

    async with source_in(running_at) as source:
        await write(source, "other", 3 * LOST)
        await follow_again(peer, source)
        async with running(source if mode == "push" else peer):
            await link_history_is(peer, id, "asked", "lost data")
            await link_is(peer, id, "asking")
            question = (await peer.get(f"/replication/links/{id}")).get("question")
            assert question["deletions"] == 2 * LOST
            body = {"allow": question["digest"]}
            answer = await peer.send("PATCH", f"/replication/links/{id}", body)
            assert answer.status == 200, answer.body
            await eventually(lambda: has(peer, f"other{3 * LOST - 1}"))
            await link_is(peer, id, "current")
            assert not await has(peer, "lost0")
    # A restart is an ordinary day: what follows goes on from its cursor.
    before = await events_of(peer, id)
    for _ in range(3):
        async with source_in(running_at) as source:
            await follow_again(peer, source)
            await source.put(f"{GROUP}/messages/later", {"description": "later"})
            async with running(source if mode == "push" else peer):
                await eventually(lambda: has(peer, "later"))
                await link_is(peer, id, "current")
            await source.send("DELETE", f"{GROUP}/messages/later")
    assert await events_of(peer, id) == before


async def test_a_cursor_is_good_after_any_number_of_starts_and_bad_where_the_past_is_another(
    peer: Node,
) -> None:
    """Several processes use one database: each notes its start while the others go on."""
    instance = peer.database.node.instance
    await write(peer, "some", 2)
    async with peer.database.transaction() as connection:
        end = (await peer.changes())[-1].position
        cursor = await read_cursor(connection, instance, end)
        assert LogCursor.parse(str(cursor)) == cursor
        assert str(LogCursor.parse(str(cursor))) == str(cursor)
    for starts in (1, 1200):
        async with peer.database.transaction() as connection:
            await connection.execute(
                "INSERT INTO incarnations (txid) SELECT pg_current_xact_id()::text::bigint "
                "FROM generate_series(1, $1)",
                starts,
            )
            await connection.execute(Queries("database").begin_incarnation)
            assert await why_lost(connection, cursor) == ""
    await execute(peer, "DELETE FROM incarnations WHERE id::text LIKE $1", cursor.incarnation + "%")
    async with peer.database.transaction() as connection:
        # It may have been forgotten: it is older than all that are known.
        assert await why_lost(connection, cursor) == ""
        await connection.execute("INSERT INTO incarnations (txid) VALUES ($1)", end.txid)
        assert "went back" in await why_lost(connection, cursor)
    async with peer.database.transaction() as connection:
        known = await connection.fetchval("SELECT left(id::text, 8) FROM incarnations LIMIT 1")
        another = replace(cursor, checksum="0123456789ab", incarnation=known)
        assert "another change" in await why_lost(connection, another)
        assert await why_lost(connection, replace(another, checksum="", incarnation="")) == ""
