"""The SQL files: every statement is used, is valid, and goes through the index made for it."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import orjson
import pytest
import pytest_asyncio

import catalog
from catalog.store import schemamigration as migrations
from catalog.store.queries import Queries
from catalog.store.schemamigration import MigrationError, migrate
from catalog.store.subtrees import tree_key
from tests.schemadump import FILE as SCHEMA
from tests.schemadump import dump_schema

ROOT = Path(catalog.__file__).parent.parent
STORES = {
    path.stem: ".".join(path.relative_to(ROOT).parts[:2])
    for store in ("catalog", "replication")
    for path in sorted((ROOT / store / "store/sql").iterdir())
}
STATEMENTS = [
    (file, name) for file, store in STORES.items() for name in sorted(Queries(file, store).names())
]
GROUPS = 20
MESSAGES = 100


def statements_used() -> set[tuple[str, str]]:
    """Each `x` of `_queries.x` in the code, with the file that `_queries` was made from."""
    used = set()
    for package in ("catalog", "replication"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            for variable, file in re.findall(r"^(\w+) = Queries\(\"(\w+)\"", text, re.MULTILINE):
                used |= {(file, name) for name in re.findall(rf"\b{variable}\.(\w+)", text)}
    return used - {(file, "names") for file in STORES}


def test_every_statement_that_is_used_exists_and_every_one_that_exists_is_used() -> None:
    assert statements_used() == {*STATEMENTS}


@pytest.mark.parametrize(("file", "name"), STATEMENTS)
def test_every_statement_says_what_it_is_for(file: str, name: str) -> None:
    text = (files(STORES[file]) / "sql" / f"{file}.sql").read_text()
    purpose = re.search(rf"^-- name: {name}\n((?:-- .*\n)+)", text, re.MULTILINE)
    assert purpose is not None
    assert purpose[1].rstrip().endswith(".")


def test_migrations_have_numbers_of_their_own() -> None:
    numbers = [migration.number for migration in migrations.migrations()]
    assert numbers == sorted({*numbers})


async def test_schema_sql_shows_what_the_migrations_make() -> None:
    assert await dump_schema() == SCHEMA.read_text(), "schema.sql is stale: run `make schema`"


async def test_every_statement_is_valid_against_the_schema(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        for file, name in STATEMENTS:
            await connection.prepare(getattr(Queries(file, STORES[file]), name))
    finally:
        await connection.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seeded(shared_database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Some thousand entities with their changes, and statistics about them."""
    connection = await asyncpg.connect(shared_database_url)
    await connection.execute(
        """
        INSERT INTO entities
        SELECT xid, collection, id, kind, 'urn:a', xid, 1, '{"defaultversionid": "1"}', now(),
            now(), NULL, sha256(xid::bytea), hashtextextended(xid, 0),
            abs(hashtext(xid)) % 65536
        FROM (
            SELECT '/messagegroups/g' || g, '/messagegroups', 'g' || g, 'group'
            FROM generate_series(1, $GROUPS) AS g
            UNION ALL
            SELECT format('/messagegroups/g%s/messages/m%s', g, m),
                format('/messagegroups/g%s/messages', g), 'm' || m, 'resource'
            FROM generate_series(1, $GROUPS) AS g, generate_series(1, $MESSAGES) AS m
            UNION ALL
            SELECT format('/messagegroups/g%s/messages/m%s/versions/1', g, m),
                format('/messagegroups/g%s/messages/m%s/versions', g, m), '1', 'version'
            FROM generate_series(1, $GROUPS) AS g, generate_series(1, $MESSAGES) AS m
        ) AS e (xid, collection, id, kind);
        INSERT INTO changes (
            txid, interaction, at, xid, kind, action, authority, origin, epoch, digest, changed)
        SELECT 3 + row_number() OVER () / 10, 'i', now(), xid, kind, 'created', authority, origin,
            epoch, digest, '{}'
        FROM entities;
        """.replace("$GROUPS", str(GROUPS)).replace("$MESSAGES", str(MESSAGES))
    )
    await connection.execute(
        """
        INSERT INTO entities
        SELECT format('/schemagroups/g%s/schemas/s%s/versions/1', g, n),
            format('/schemagroups/g%s/schemas/s%s/versions', g, n), '1', 'version', 'urn:a',
            format('/schemagroups/g%s/schemas/s%s/versions/1', g, n), 1, jsonb_build_object(
                'confluent', jsonb_build_object('id', n, 'guid', md5(format('%s/%s', g, n)))
                || CASE WHEN n = 2 THEN '{"references": [{"subject": "s1", "version": 1}]}'
                    ELSE '{}'::jsonb END),
            now(), now(), NULL, 'digest', g * 1000 + n, n
        FROM generate_series(1, $GROUPS) AS g, generate_series(1, $MESSAGES) AS n
        """.replace("$GROUPS", str(GROUPS)).replace("$MESSAGES", str(MESSAGES))
    )
    await connection.execute(
        """
        INSERT INTO search_index
        SELECT xid, true, 'messagegroups/messages', 'urn:a', NULL, to_tsvector('simple', id), ''
        FROM entities WHERE kind = 'version'
        """
    )
    await connection.execute("VACUUM ANALYZE search_index")
    await connection.execute("VACUUM ANALYZE entities")
    await connection.execute("VACUUM ANALYZE changes")
    yield connection
    await connection.close()


async def plan_of(connection: asyncpg.Connection, statement: str, *arguments: Any) -> list[Any]:
    """Every node of the plan that a statement runs with."""
    text = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *arguments)
    nodes, found = [orjson.loads(text)[0]["Plan"]], []
    while nodes:
        node = nodes.pop()
        found.append(node)
        nodes += node.get("Plans", [])
    return found


GROUP = "/messagegroups/g7"
HOT: list[tuple[str, str, tuple[Any, ...], set[str]]] = [
    ("entities", "load", ([f"{GROUP}/messages/m5"],), {"entities_pkey"}),
    ("find", "plain", (f"{GROUP}/messages", "m5", 10), {"entities_sibling"}),
    (
        "entities",
        "load_shown",
        ([f"{GROUP}/messages/m5"],),
        {"entities_sibling", "entities_pkey"},
    ),
    ("entities", "load_subtrees", ([f"{GROUP}/messages/m5"],), {"entities_pkey"}),
    ("entities", "count_collections", ([f"{GROUP}/messages"],), {"entities_sibling"}),
    ("entities", "load_by_origin", (["urn:a"], [f"{GROUP}/messages/m5"]), {"entities_origin"}),
    (
        "copies",
        "load_held",
        ([f"{GROUP}/messages"], ["m5"], ["urn:a"], [f"{GROUP}/messages/m5"], []),
        {"entities_sibling", "entities_origin", "entities_pkey", "tombstones_pkey"},
    ),
    (
        "copies",
        "load_with_ancestors",
        (["urn:a"], [f"{GROUP}/messages/m5"]),
        {"entities_origin", "entities_pkey", "tombstones_pkey"},
    ),
    (
        "searchindex",
        "find_referring",
        (
            [
                f"'@/messagegroups/g{number}' | '@/messagegroups/g{number}/':*"
                for number in range(200)
            ],
            9,
        ),
        {"search_index_words", "entities_pkey"},
    ),
    ("changes", "page", (0, 0, 50), {"changes_pkey"}),
    ("changes", "page", (200, 0, 50), {"changes_pkey"}),
    ("changes", "written", ("400:400:", 400, 50), {"changes_pkey"}),
    (
        "discoveryservices",
        "find_by_names",
        (["name"],),
        {"entities_service_names", "entities_services"},
    ),
    ("schemaids", "find_by_id", (["/schemagroups/g7"], 5), {"entities_schema_id"}),
    ("schemaids", "find_by_guid", ("none",), {"entities_schema_guid"}),
    (
        "schemaids",
        "find_referring",
        (['[{"subject": "s1", "version": 1}]'], ["/schemagroups/g7"]),
        {"entities_schema_references"},
    ),
    (
        "schemaids",
        "find_conflicts_of",
        (["/schemagroups/g7/schemas/s5/versions/1"], 100),
        {"entities_pkey", "entities_contexts", "entities_schema_id"},
    ),
    (
        "schemaids",
        "read_registration",
        (
            ["/schemagroups/g7/schemas/s5/versions"],
            "none",
            "/schemagroups/g7/schemas",
            "s5",
            "/schemagroups/g7",
            1,
            1000,
            None,
        ),
        {"entities_schema_id", "entities_schema_guid", "entities_sibling"},
    ),
    ("schemaids", "list_subjects", (["/schemagroups/g7"],), {"entities_schema_id"}),
    (
        "schemaids",
        "load_versions",
        (["/schemagroups/g7/schemas/s5/versions"],),
        {"entities_sibling"},
    ),
    (
        "subtrees",
        "parts",
        ([GROUP], [f"{GROUP}/messages/m5"], ["group", "resource", "version"], None),
        {"entities_pkey"},
    ),
]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("file", "name", "arguments", "indexes"), HOT)
async def test_a_hot_statement_goes_through_its_index(
    seeded: asyncpg.Connection, file: str, name: str, arguments: Any, indexes: set[str]
) -> None:
    """Its cost depends on what it answers with, not on what the catalog holds."""
    plan = await plan_of(seeded, getattr(Queries(file, STORES[file]), name), *arguments)
    scanned = [n for n in plan if n["Node Type"] == "Seq Scan" and "Relation Name" in n]
    assert not [
        n["Relation Name"] for n in scanned if n["Relation Name"] in ("entities", "changes")
    ]
    assert {
        n["Index Name"] for n in plan if n["Node Type"].endswith("Scan") and "Index Name" in n
    } >= (indexes)
    rows = max(n["Actual Rows"] * n["Actual Loops"] for n in plan if "Index Name" in n)
    assert rows <= 2 * MESSAGES, "no more rows are looked at than belong to the answer"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("name", "arguments", "index"),
    [
        ("collection", (f"{GROUP}/messages",), "entities_sibling"),
        (
            "range",
            (tree_key("/messagegroups/"), "\x01n", ["group", "resource", "version"], ["messages"]),
            "entities_tree",
        ),
    ],
)
async def test_a_subtree_of_any_size_is_read_in_the_order_of_an_index(
    seeded: asyncpg.Connection, name: str, arguments: Any, index: str
) -> None:
    """Its first row comes at once: nothing is sorted, or read as a whole."""
    queries = Queries("subtrees")
    async with seeded.transaction():
        await seeded.fetchrow(queries.begin)
        plan = await plan_of(seeded, getattr(queries, name), *arguments)
    assert [(node["Node Type"], node["Index Name"]) for node in plan] == [("Index Scan", index)]


@pytest.mark.asyncio(loop_scope="module")
async def test_the_fingerprints_of_buckets_come_from_the_index_alone(
    seeded: asyncpg.Connection,
) -> None:
    """What two catalogs compare costs no look at any entity's row."""
    async with seeded.transaction():
        # So few rows are read faster whole; a million are not.
        await seeded.execute("SET LOCAL enable_seqscan = off")
        plan = await plan_of(
            seeded, "SELECT bucket, bit_xor(fingerprint), count(*) FROM entities GROUP BY bucket"
        )
    [scan] = [node for node in plan if node.get("Relation Name") == "entities"]
    assert (scan["Node Type"], scan["Index Name"]) == ("Index Only Scan", "entities_bucket")


async def test_links_that_waited_for_a_number_of_deletions_go_on_after_the_migration(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"before_{secrets.token_hex(4)}"
    server = await asyncpg.connect(postgres_url)
    await server.execute(f'CREATE DATABASE "{name}"')
    connection = await asyncpg.connect(urlsplit(postgres_url)._replace(path=f"/{name}").geturl())
    try:
        first = migrations.migrations()[:1]
        with monkeypatch.context() as patched:
            patched.setattr(migrations, "migrations", lambda: first)
            await migrate(connection)
        await connection.execute(
            """
            INSERT INTO links (id, definition, state, brake, error, cursor, paused) VALUES
                ('stopped', '{"mode": "pull"}', 'braked', '{"deletions": 3}', 'e', 'c', NULL),
                ('begun', '{"mode": "pull"}', 'braked', '{"deletions": 3}', 'e', NULL, NULL),
                ('paused', '{"mode": "pull"}', 'paused', '{"deletions": 3}', 'e', 'c', 'why'),
                ('other', '{"mode": "pull"}', 'waiting', NULL, 'e', 'c', NULL);
            INSERT INTO link_deletions (link, since, deleted, revision)
                VALUES ('stopped', now(), 2, 1);
            INSERT INTO doubted_copies VALUES ('begun', '/messagegroups/g', 'd');
            """
        )
        await migrate(connection)
        links = {row["id"]: row for row in await connection.fetch("SELECT * FROM links")}
        states = {
            id: (link["state"], link["question"], link["error"]) for id, link in links.items()
        }
        assert states == {
            "stopped": ("behind", None, None),
            "begun": ("new", None, None),
            "paused": ("paused", None, None),
            "other": ("waiting", None, "e"),
        }
        assert await connection.fetchval("SELECT overruled FROM doubted_copies")
    finally:
        await connection.close()
        await server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        await server.close()


async def test_a_second_migration_does_nothing(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        before = await connection.fetch("SELECT * FROM migrations")
        assert await migrate(connection) == []
        assert await connection.fetch("SELECT * FROM migrations") == before
        assert [row["name"] for row in before] == [m.name for m in migrations.migrations()]
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("UPDATE migrations SET checksum = 'x' WHERE number = 1", "different migration 0001_"),
        ("INSERT INTO migrations VALUES (9999, 'later', 'x')", "newer version"),
        # The schema before its migrations were put into one.
        (
            "UPDATE migrations SET checksum = 'x';"
            "INSERT INTO migrations SELECT n, 'step', 'x' FROM generate_series(2, 15) AS n "
            "ON CONFLICT DO NOTHING",
            "export the entities and import them into an empty database",
        ),
    ],
)
async def test_a_database_of_another_version_is_refused(
    database_url: str, damage: str, message: str
) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(damage)
        before = await connection.fetch("SELECT * FROM migrations")
        with pytest.raises(MigrationError, match=message):
            await migrate(connection)
        assert await connection.fetch("SELECT * FROM migrations") == before
    finally:
        await connection.close()
