"""`concord backup` and `restore`: a catalog comes back as a whole, and as another instance."""

from __future__ import annotations

import asyncio
import contextlib
import os
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import asyncpg
import orjson
import pytest
from typer.testing import CliRunner, Result

from catalog.cli import app
from tests.integration.conftest import Node
from tests.integration.federation import (
    carries,
    databases,
    digest_rows,
    eventually,
    execute,
    link_history_is,
    running,
    start_member,
    write_some,
)
from tests.integration.meteredsource import follow, metered
from tests.integration.test_recovery import start_as

MESSAGE = "/messagegroups/g/messages/after"
COUNT = 200


async def concord(*arguments: Any, **environment: str) -> Result:
    invoke = CliRunner().invoke
    return await asyncio.to_thread(invoke, app, [*map(str, arguments)], env=environment)


async def back_up(file: Path, url: str) -> None:
    result = await concord("backup", file, "--database-url", url)
    assert result.exit_code == 0, result.output


async def restore(file: Path, url: str, *options: str) -> str:
    result = await concord("restore", file, "--database-url", url, *options)
    assert result.exit_code == 0, result.output
    return result.output


async def refused(file: Path, url: str, *options: str) -> str:
    result = await concord("restore", file, "--database-url", url, *options)
    assert result.exit_code == 2, result.output
    return result.output


async def empty(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await connection.close()


@pytest.fixture
async def urls(postgres_url: str, template: str) -> AsyncIterator[list[str]]:
    async with databases(postgres_url, template, 2) as made:
        yield made


async def test_what_was_acknowledged_after_a_backup_comes_back_and_peers_compare_digests(
    urls: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "backup"
    async with start_member(urls[1]) as replica, contextlib.AsyncExitStack() as stack:
        async with start_as(urls[0]) as node:
            way = await stack.enter_async_context(metered(node))
            body = {f"m{number}": {"description": "as it was"} for number in range(COUNT)}
            await node.put("/messagegroups/g")
            assert (await node.send("POST", "/messagegroups/g/messages", body)).status == 200
            await follow(replica, way, id="from")
            await back_up(file, urls[0])
            await node.put(MESSAGE, {"description": "after"})
            await node.put("/messagegroups/later/messages/m")
            async with running(replica):
                await eventually(lambda: carries(replica, node))
                await link_history_is(replica, "from", "copied")
            before, instance = await digest_rows(node), node.database.node.instance
            everything = way.bytes
            assert "A node uses the database" in await refused(file, urls[0], "--replace")
        assert "which --replace would drop" in await refused(file, urls[0])
        told = await restore(file, urls[0], "--replace")
        assert "concord recover --from URL" in told
        async with start_as(urls[0]) as node:
            assert node.database.node.instance != instance
            assert (await node.get("/messagegroups/g/messages/m0"))["description"] == "as it was"
            assert (await node.send("GET", "/messagegroups/later")).status == 404
            answer = await node.send("PUT", MESSAGE, {"description": "too early"})
            assert (answer.status, answer.error) == (503, "catalog_recovering")
            async with running(node):
                recovered = await concord("recover", "--from", replica.url, CONCORD_URL=node.url)
                assert recovered.exit_code == 0, recovered.output
            assert await digest_rows(node) == before
            await node.put(MESSAGE, {"description": "and on"})
            way.node, way.bytes = node, 0
            async with running(replica):
                await link_history_is(replica, "from", "compared", "another instance", "copied")
                await eventually(lambda: carries(replica, node))
            assert way.bytes < everything / 2


async def test_a_catalog_comes_back_as_a_whole_in_another_database_and_takes_writes_if_alone(
    urls: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "backup"
    async with start_as(urls[0]) as node:
        await write_some(node, "g")
        assert (await node.send("DELETE", "/messagegroups/g/messages/m0")).status == 204
        await back_up(file, urls[0])
        rows, log = await digest_rows(node, verify=True), await node.logged()
    assert file.stat().st_mode & 0o077 == 0
    assert (await concord("backup", file, "--database-url", urls[0])).exit_code == 2
    await check_that_another_is_kept(file, urls[1])
    await empty(urls[1])
    assert "1. Start the node" in await restore(file, urls[1], "--alone")
    async with start_as(urls[1]) as node:
        assert await digest_rows(node, verify=True) == rows
        assert await node.logged() == log
        await node.put("/messagegroups/g/messages/m0", {"description": "second life"})


async def check_that_another_is_kept(file: Path, url: str) -> None:
    """The catalog of another authority is never replaced."""
    async with start_as(url, "urn:test:another"):
        pass
    told = await refused(file, url, "--replace")
    assert "The database has the catalog of urn:test:another" in told


@pytest.mark.parametrize("damage", ["cut", "changed", "foreign", "newer", "manifest"])
async def test_a_file_that_is_no_whole_backup_changes_nothing(
    urls: list[str], tmp_path: Path, damage: str
) -> None:
    file = tmp_path / "backup"
    async with start_as(urls[0]) as node:
        await back_up(file, urls[0])
        await node.put(MESSAGE, {"description": "after"})
        before = await digest_rows(node)
    _damage(file, damage)
    told = await refused(file, urls[0], "--replace")
    assert "Traceback" not in told
    async with start_as(urls[0]) as node:
        assert await digest_rows(node) == before


def _damage(file: Path, damage: str) -> None:
    whole = file.read_bytes()
    if damage == "cut":
        file.write_bytes(whole[: len(whole) // 2])
    elif damage == "changed":
        middle = whole.index(b"entities.rows") + 60
        file.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    elif damage == "foreign":
        file.write_bytes(b"PGDMP" + whole[:100])
    elif damage == "newer":
        newer = {"number": 9999, "name": "n", "checksum": "00"}
        _rewrite(file, lambda manifest: manifest["migrations"].append(newer))
    else:
        # The rows are whole, and yet they are not those of this manifest.
        more = {"entities": 1_000}
        _rewrite(file, lambda manifest: manifest["contents"].update(more))


def _rewrite(file: Path, change: Callable[[Any], None], **rows: bytes) -> None:
    """Change the manifest of a backup, and replace the rows of some tables."""
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    manifest = orjson.loads(parts["manifest.json"])
    change(manifest)
    parts |= {f"{table}.rows": data for table, data in rows.items()}
    parts["manifest.json"] = orjson.dumps(manifest)
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("pg_authid", ["rolname"]),
        ("links; DROP TABLE node", ["id"]),
        ("links", ["id", "definition"]),
        ("links", ["id) FROM PROGRAM 'touch executed'; --"]),
    ],
)
async def test_a_crafted_file_changes_nothing(
    urls: list[str], tmp_path: Path, table: str, columns: list[str]
) -> None:
    file = tmp_path / "backup"
    async with start_as(urls[0]) as node:
        await write_some(node, "g")
        await back_up(file, urls[0])
        before = await digest_rows(node)
    _rewrite(file, lambda manifest: manifest["tables"].update({table: columns}))
    assert "Nothing was changed" in await refused(file, urls[0], "--replace")
    async with start_as(urls[0]) as node:
        assert await digest_rows(node) == before


async def test_rows_that_are_no_rows_of_a_catalog_change_nothing(
    urls: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "backup"
    async with start_as(urls[0]) as node:
        await write_some(node, "g")
        await back_up(file, urls[0])
        before = await digest_rows(node)
    _rewrite(file, lambda manifest: None, tombstones=b"\\! touch executed\nSELECT 1;\n")
    assert "Nothing was changed" in await refused(file, urls[0], "--replace")
    async with start_as(urls[0]) as node:
        assert await digest_rows(node) == before


async def test_what_a_database_has_beside_its_catalog_does_not_come_back(
    urls: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "backup"
    async with start_as(urls[0]) as node:
        await node.put("/messagegroups/g")
        await execute(node, "CREATE FUNCTION beside() RETURNS int LANGUAGE sql RETURN 1")
        await back_up(file, urls[0])
    await empty(urls[1])
    await restore(file, urls[1], "--alone")
    async with start_as(urls[1]) as node, node.database.acquire() as connection:
        assert await connection.fetchval("SELECT to_regproc('beside')") is None


async def test_a_restored_catalog_has_the_schema_that_its_migrations_make(
    urls: list[str], tmp_path: Path
) -> None:
    """The views that restrict clients, triggers, foreign keys and indexes, too."""
    file = tmp_path / "backup"
    async with start_as(urls[0]) as node:
        await write_some(node, "g")
        before = await objects_of(node)
    await back_up(file, urls[0])
    await restore(file, urls[0], "--replace", "--alone")
    async with start_as(urls[0]) as node:
        assert await objects_of(node) == before


async def objects_of(node: Node) -> list[str]:
    """The definitions of all that a schema is made of."""
    async with node.database.acquire() as connection:
        rows = await connection.fetch(
            """
            SELECT format('%s %s', c.oid::regclass, pg_get_viewdef(c.oid)) AS text FROM pg_class c
            WHERE c.relkind = 'v' AND c.relnamespace::regnamespace::text IN ('public', 'visible')
            UNION ALL SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i
            JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relnamespace = 'public'::regnamespace
            UNION ALL SELECT format('%s %s', conrelid::regclass, pg_get_constraintdef(oid))
            FROM pg_constraint WHERE connamespace = 'public'::regnamespace
            UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
            ORDER BY 1"""
        )
    return [row["text"] for row in rows]


async def test_the_catalog_of_a_version_that_is_not_known_is_not_backed_up(
    urls: list[str], tmp_path: Path
) -> None:
    async with start_as(urls[0]) as node:
        newer = "INSERT INTO migrations (number, name, checksum) VALUES (9999, 'newer', '')"
        await execute(node, newer)
    result = await concord("backup", tmp_path / "backup", "--database-url", urls[0])
    assert result.exit_code == 2
    assert "Another version of Concord has migrated the database" in result.output
    assert "Back it up with that version" in result.output
    assert not os.listdir(tmp_path)


async def test_a_subscription_misses_nothing_on_a_server_that_has_counted_less(
    urls: list[str],
) -> None:
    """Its cursor would be beyond all that the server logs for a long time."""
    async with start_as(urls[0]) as node:
        body = {"sink": "http://127.0.0.1:9/", "protocol": "HTTP"}
        answer = await node.send("POST", "/subscriptions", body)
        assert answer.status == 201, answer.body
        await execute(node, "UPDATE subscriptions SET txid = $1", 2**40)
    async with start_as(urls[0]) as node:
        await node.put(MESSAGE)
        async with node.database.acquire() as connection:
            behind = await connection.fetchval(
                "SELECT count(*) FROM changes c, subscriptions s "
                "WHERE (c.txid, c.seq) > (s.txid, s.seq)"
            )
        assert behind


async def test_a_directory_keeps_the_newest_backups_and_what_is_no_backup(
    urls: list[str], tmp_path: Path
) -> None:
    directory = tmp_path / "hub"
    async with start_member(urls[0]):
        pass
    directory.mkdir()
    others = {"20200101T000000Z.txt", "hub-monday.concord"}
    for name in (*others, *(f"202001{day:02}T000000Z.concord" for day in (1, 2, 3))):
        (directory / name).touch()
    result = await concord("backup", directory, "--keep", 2, "--database-url", urls[0])
    assert result.exit_code == 0, result.output
    left = {path.name for path in directory.iterdir()} - others
    [new] = left - {"20200103T000000Z.concord"}
    assert len(left) == 2
    assert others <= {path.name for path in directory.iterdir()}
    await empty(urls[1])
    await restore(directory / new, urls[1])
    failed = await concord("backup", directory, "--keep", 1, "--database-url", urls[0] + "gone")
    assert failed.exit_code == 2
    assert (directory / new).exists(), "nothing is deleted before there is a new one"
