"""A catalog that was restored from a backup is another instance to its peers."""

from __future__ import annotations

from urllib.parse import urlsplit

import asyncpg
import pytest

from catalog.model.caller import node_caller
from catalog.model.modelsource import default_model
from catalog.store.database import Database, Node
from tests.integration.conftest import start_node


async def identity(url: str) -> Node:
    async with Database.open(url, node_caller(), modelsource=default_model().source) as database:
        return database.node


@pytest.fixture
def copy_url(database_url: str) -> str:
    parts = urlsplit(database_url)
    return parts._replace(path=f"{parts.path}_copy").geturl()


async def test_a_catalog_that_was_restored_on_the_same_server_is_another_instance(
    postgres_url: str, database_url: str, copy_url: str
) -> None:
    """Its log seems to go on from that of its peers: transaction ids are those of the server."""
    async with start_node(database_url) as node:
        await node.put("/messagegroups/g")
        before, logged = node.database.node, await node.logged()
    assert await identity(database_url) == before
    connection = await asyncpg.connect(postgres_url)
    copy, original = (urlsplit(url).path[1:] for url in (copy_url, database_url))
    try:
        await connection.execute(f'CREATE DATABASE "{copy}" TEMPLATE "{original}"')
        restored = await identity(copy_url)
        assert restored.authority == before.authority
        assert restored.instance != before.instance
        assert await identity(copy_url) == restored
        assert await identity(database_url) == before
        async with start_node(copy_url) as node:
            assert await node.logged() == logged
    finally:
        await connection.execute(f'DROP DATABASE IF EXISTS "{copy}" WITH (FORCE)')
        await connection.close()


async def test_a_role_without_privileges_can_tell_where_its_database_is(
    postgres_url: str, database_url: str
) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        async with connection.transaction():
            await connection.execute("CREATE ROLE nobody_special")
            await connection.execute("SET LOCAL ROLE nobody_special")
            found = await connection.fetchval(
                "SELECT concat_ws('/', (SELECT system_identifier FROM pg_control_system()), "
                "left(pg_walfile_name(pg_current_wal_lsn()), 8))"
            )
            assert found.count("/") == 1
            await connection.execute("RESET ROLE")
            await connection.execute("DROP ROLE nobody_special")
    finally:
        await connection.close()
