"""A database that an older version has written keeps all that it has when it is migrated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import asyncpg
import pytest
from typer.testing import CliRunner

from catalog.cli import app
from catalog.store.schemamigration import ModelUnfit, migrate
from tests.integration.federation import databases, digest_rows, link, start_member, write_some
from tests.integration.test_recovery import start_as

MESSAGE = "/messagegroups/g/messages/m1"
# What the writes of the test fill.
WRITTEN = {
    *("node", "entities", "documents", "tombstones", "changes", "links", "subscriptions"),
    *("subscription_events", "former_counts", "access_tokens"),
}
COLUMNS = """
    SELECT c.relname::text AS name, array_agg(a.attname::text ORDER BY a.attname) AS columns
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relname <> 'migrations'
        AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    GROUP BY c.relname"""

Tables = Mapping[str, list[str]]
Contents = dict[str, list[str]]


@pytest.fixture
async def urls(postgres_url: str, template: str) -> AsyncIterator[list[str]]:
    async with databases(postgres_url, template, 3) as made:
        yield made


async def test_what_the_first_version_has_stored_is_all_there_after_an_upgrade(
    urls: list[str],
) -> None:
    newest, first, other = urls
    async with start_as(newest) as node, start_member(other) as source:
        await write_some(node, "g")
        assert (await node.send("DELETE", "/messagegroups/g/messages/m0")).status == 204
        await link(node, source, id="from")
        body = {"sink": "http://127.0.0.1:9/", "protocol": "HTTP"}
        assert (await node.send("POST", "/subscriptions", body)).status == 201
        await concord("token", "add", "--role", "reader", "--name", "ci", url=newest)
        digests, message = await digest_rows(node, verify=True), await node.get(MESSAGE)
    columns = await write_as_first(first, newest)
    before = await contents_of(first, columns)
    assert {name for name, rows in before.items() if rows} >= WRITTEN
    assert "has the schema" in await concord("migrate", url=first)
    assert await contents_of(first, columns) == before
    async with start_as(first) as node:
        assert await digest_rows(node, verify=True) == digests
        kept = await node.get(MESSAGE)
        for name in ("description", "epoch", "createdat", "modifiedat", "versionid"):
            assert kept[name] == message[name]
        assert (await node.send("GET", "/messagegroups/g/messages/m0")).status == 404
        await node.put("/messagegroups/g/messages/after")


async def test_a_database_that_was_restored_without_views_gets_them_by_the_upgrade(
    urls: list[str],
) -> None:
    url = urls[0]
    connection = await asyncpg.connect(url)
    try:
        definitions = await views_of(connection)
        assert definitions
        await connection.execute("DROP SCHEMA visible CASCADE")
        # The migrations that follow have left nothing of their own.
        await connection.execute(
            "DROP TABLE allowances; ALTER TABLE node DROP COLUMN backedupat;"
            "ALTER TABLE links DROP COLUMN comparedat, DROP COLUMN differing;"
            "ALTER TABLE reconciliations DROP COLUMN entities; DROP TABLE schemaids, search_index;"
            "DROP TABLE console_sessions, comparison_findings, access_requests, revisions;"
            "ALTER TABLE reconciliations DROP COLUMN compared;"
            "ALTER TABLE audit DROP COLUMN places; ALTER TABLE changes DROP COLUMN author;"
            "ALTER TABLE node DROP COLUMN revisionsafter; DROP FUNCTION is_own_change;"
            "DROP INDEX changes_xid;"
            "DROP TABLE peer_authorities, followers, link_figures;"
            "ALTER TABLE conflicts DROP COLUMN refused;"
            "ALTER TABLE node DROP COLUMN unindexedafter;"
            "DROP INDEX entities_schema_id, entities_schema_guid, entities_schema_references,"
            "    entities_without_schema_id, entities_contexts, entities_deprecated;"
            "DELETE FROM migrations WHERE number >= 9"
        )
        assert await migrate(connection) == [
            *("visibleviews", "allowances", "backups", "linkmembers"),
            *("linkcomparisons", "reconciledentities", "schemaids", "searchindex"),
            *("consolesessions", "revisions", "federation", "sessionrenewal", "comparisonfindings"),
        ]
        assert await views_of(connection) == definitions
    finally:
        await connection.close()


async def test_a_model_that_the_new_version_cannot_serve_stops_the_upgrade_before_any_change(
    urls: list[str],
) -> None:
    url = urls[0]
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("DROP SCHEMA public, visible CASCADE; CREATE SCHEMA public")
        await migrate(connection, only={1})
        model = """{"groups": {"confluent": {"singular": "other"}}}"""
        await connection.execute(
            "INSERT INTO node (instance, authority, modelsource)"
            " VALUES (gen_random_uuid(), 'urn:a', $1)",
            model,
        )
        with pytest.raises(ModelUnfit, match='"confluent" is a path of its own'):
            await migrate(connection)
        assert await connection.fetchval("SELECT count(*) FROM migrations") == 1
    finally:
        await connection.close()


async def views_of(connection: asyncpg.Connection) -> dict[str, str]:
    """The definitions of the views that restricted callers read, by name."""
    rows = await connection.fetch(
        "SELECT viewname::text, definition FROM pg_views WHERE schemaname = 'visible'"
    )
    return dict(rows)


async def write_as_first(url: str, newest: str) -> Tables:
    """Give a database the schema of the first version, and what another one has; return which
    columns of which tables both know."""
    there, here = await asyncpg.connect(newest), await asyncpg.connect(url)
    try:
        await here.execute("DROP SCHEMA public, visible CASCADE; CREATE SCHEMA public")
        await migrate(here, only={1})
        await here.execute("SET session_replication_role = replica")
        old, new = await tables_of(here), await tables_of(there)
        shared = {name: sorted({*old[name]} & {*new[name]}) for name in old.keys() & new.keys()}
        for name, columns in shared.items():
            await here.execute(f"DELETE FROM {name}")
            rows = await there.fetch(f"SELECT {', '.join(columns)} FROM {name}")
            await here.copy_records_to_table(name, records=rows, columns=columns)
        # Which database of which server it is, a start of the node notes.
        await here.execute("UPDATE node SET home = NULL")
    finally:
        await there.close()
        await here.close()
    return shared | {"node": [column for column in shared["node"] if column != "home"]}


async def contents_of(url: str, columns: Tables) -> Contents:
    """The rows of tables as sorted texts of these columns."""
    connection = await asyncpg.connect(url)
    try:
        return {
            name: sorted(
                str(row["shown"])
                for row in await connection.fetch(
                    f"SELECT ({', '.join(names)}) AS shown FROM {name}"
                )
            )
            for name, names in columns.items()
        }
    finally:
        await connection.close()


async def tables_of(connection: asyncpg.Connection) -> Tables:
    return {row["name"]: row["columns"] for row in await connection.fetch(COLUMNS)}


async def concord(*arguments: str, url: str) -> str:
    environment = {"CONCORD_DATABASE_URL": url}
    result = await asyncio.to_thread(CliRunner().invoke, app, arguments, env=environment)
    assert result.exit_code == 0, result.output
    return result.output
