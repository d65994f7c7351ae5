"""`concord migrate` prepares a database before its node starts."""

from __future__ import annotations

import asyncio

import asyncpg
from typer.testing import CliRunner, Result

from catalog.cli import app
from catalog.store.schemamigration import migrations

URL = "https://hub.example.com"


async def migrate(*arguments: str) -> Result:
    environment = {"CONCORD_PUBLIC_URL": URL}
    invoke = CliRunner().invoke
    return await asyncio.to_thread(invoke, app, ["migrate", *arguments], env=environment)


async def test_a_database_gets_the_schema_and_the_node_its_authority(database_url: str) -> None:
    for _ in range(2):
        result = await migrate("--database-url", database_url)
        assert result.exit_code == 0, result.output
        assert f"The database of {URL} has the schema" in result.output


async def test_the_database_of_a_newer_version_is_refused(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    number = migrations()[-1].number + 1
    await connection.execute(
        "INSERT INTO migrations (number, name, checksum) VALUES ($1, 'newer', '')", number
    )
    await connection.close()
    result = await migrate("--database-url", database_url)
    assert result.exit_code == 2
    assert "a newer version of Concord has migrated it" in result.output


async def test_a_database_has_to_be_named() -> None:
    result = await migrate()
    assert result.exit_code == 2
    assert "--data-dir, or its database with --database-url" in result.output
