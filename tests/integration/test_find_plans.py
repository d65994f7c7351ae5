"""What pages and filters cost: they go through the indexes that are made for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import orjson
import pytest
import pytest_asyncio

from catalog.model.attributereference import EntityKind
from catalog.model.caller import node_caller
from catalog.model.filter import parse_filters
from catalog.model.xid import Xid
from catalog.reading.find import find_page, find_visible
from catalog.reconfiguration.initialmodel import ensure_registry
from catalog.store.database import Database
from catalog.store.filterjsonpath import any_of, condition_of, within
from catalog.store.queries import Queries
from tests.integration.searching import MODEL

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUERIES = Queries("find")
LISTING = "/dirs/d/files"
MANY = 12_000
LIMIT = 20


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seeded(shared_database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """One large collection among small ones."""
    async with Database.open(
        shared_database_url, node_caller(), modelsource=MODEL.source
    ) as database:
        await ensure_registry(database, "test")
    connection = await asyncpg.connect(shared_database_url)
    await connection.execute(
        """
        CREATE TEMP TABLE made AS
        SELECT '/dirs/' || CASE WHEN n <= $MANY THEN 'd' ELSE 'd' || n % 100 END AS dir, n
        FROM generate_series(1, $MANY + 3000) AS n;
        INSERT INTO entities
        SELECT xid, collection, id, kind, 'urn:a', xid, 1, attributes::jsonb, now(),
            now() - n * interval '1 second', NULL, sha256(xid::bytea), n, n % 65536,
            listing, lower(listing_id)
        FROM (
            SELECT dir, '/dirs', substr(dir, 7), 'group', '{"name": "Some"}', 1, '/dirs',
                substr(dir, 7)
            FROM made GROUP BY dir
            UNION ALL
            SELECT format('%s/files/F%s', dir, n), dir || '/files', 'F' || n, 'resource',
                '{"defaultversionid": "1", "defaultversionsticky": false}', n, NULL, NULL
            FROM made
            UNION ALL
            SELECT format('%s/files/F%s/versions/1', dir, n),
                format('%s/files/F%s/versions', dir, n), '1', 'version',
                format('{"name": "Name %s", "size": %s, "labels": {"stage": "%s"}}',
                    n * 7919 % 10007, n % 100, CASE WHEN n % 500 = 0 THEN 'Prod' ELSE 'dev' END),
                n, dir || '/files', 'F' || n
            FROM made
        ) AS e (xid, collection, id, kind, attributes, n, listing, listing_id);
        """.replace("$MANY", str(MANY))
    )
    await connection.execute("VACUUM ANALYZE entities")
    yield connection
    await connection.close()


def condition(text: str) -> Any:
    asked = parse_filters([text], EntityKind(model=MODEL, groups="dirs", resources="files"))
    return any_of([condition_of(clause.expressions) for clause in asked.clauses])


def literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case list():
            return f"ARRAY[{', '.join(map(literal, value))}]::text[]"
        case str():
            return "'" + value.replace("'", "''") + "'"
    return str(value)


async def plan_of(
    connection: asyncpg.Connection, name: str, mode: str, arguments: tuple[Any, ...]
) -> list[dict[str, Any]]:
    """Every node of the plan that a statement is run with, planned in one of the two modes."""
    async with connection.transaction():
        await connection.execute(f"SET LOCAL plan_cache_mode = force_{mode}_plan")
        await connection.execute(f"PREPARE asked AS {getattr(QUERIES, name)}")
        values = ", ".join(map(literal, arguments))
        text = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE asked ({values})")
        await connection.execute("DEALLOCATE asked")
    nodes, found = [orjson.loads(text)[0]["Plan"]], []
    while nodes:
        node = nodes.pop()
        found.append(node)
        nodes += node.get("Plans", [])
    return found


DENSE, RARE, SOME = condition("labels.stage=DEV"), condition("name=NAME 17"), condition("name=*1*")
ABOUT_STAGE = (DENSE.path, ["labels"], False, False)
ABOUT_NAME = (["name"], False, False)
WALKED = (LISTING, *ABOUT_STAGE)
EARLY, LATE = "", "\x7f"
READ: list[tuple[str, tuple[Any, ...], str, int]] = [
    ("plain", (LISTING, "f5", LIMIT), "entities_sibling", LIMIT),
    ("walk_by_id", (*WALKED, EARLY, LIMIT), "entities_listing", 2 * LIMIT),
    ("walk_by_id", (*WALKED, "f5", LIMIT), "entities_listing", 2 * LIMIT),
    ("walk_by_id_desc", (*WALKED, LATE, LIMIT), "entities_listing", 2 * LIMIT),
    ("walk_by_name", (*WALKED, "name 5", "f5", LIMIT), "entities_name", 2 * LIMIT),
    ("walk_by_name_desc", (*WALKED, "name 5", "f5", LIMIT), "entities_name", 2 * LIMIT),
    ("walk_by_time", (*WALKED, "-infinity", "", LIMIT), "entities_modified", 2 * LIMIT),
    ("walk_by_time_desc", (*WALKED, "infinity", "", LIMIT), "entities_modified", 2 * LIMIT),
    (
        "walk_by_name",
        (LISTING, SOME.path, *ABOUT_NAME, EARLY, EARLY, LIMIT),
        "entities_name",
        10 * LIMIT,
    ),
    (
        "look_up",
        (RARE.lookup, RARE.path, *ABOUT_NAME, LISTING, 4, "files", None),
        "entities_search",
        LIMIT,
    ),
    (
        "look_up",
        (
            within(DENSE.lookup, "/dirs/d1/files"),
            *ABOUT_STAGE,
            "/dirs/d1/files",
            4,
            "files",
            None,
        ),
        "entities_search",
        MANY // 400,
    ),
    (
        "look_up",
        (
            within(DENSE.lookup, "/dirs/d/files/F7/versions"),
            *ABOUT_STAGE,
            "/dirs/d/files/F7/versions",
            6,
            "versions",
            None,
        ),
        "entities_search",
        LIMIT,
    ),
    (
        "rank_some",
        (LISTING, None, [], False, False, "", -1, 0, "", "", LIMIT, ["f1", "f2", "f3"]),
        "entities_listing",
        LIMIT,
    ),
    ("hold", (*ABOUT_STAGE, [LISTING], ["f1"]), "entities_listing", LIMIT),
    ("match", (*ABOUT_STAGE, ["/dirs/d1/files"]), "entities_sibling", 100),
]


@pytest.mark.parametrize("mode", ["generic", "custom"])
@pytest.mark.parametrize(("name", "arguments", "index", "rows"), READ)
async def test_a_statement_reads_little_more_than_it_answers_with(
    seeded: asyncpg.Connection,
    name: str,
    arguments: tuple[Any, ...],
    index: str,
    rows: int,
    mode: str,
) -> None:
    """However it is planned, and whatever the catalog holds beside."""
    plan = await plan_of(seeded, name, mode, arguments)
    scans = [n["Relation Name"] for n in plan if n["Node Type"] == "Seq Scan"]
    assert "entities" not in scans
    assert index in {n["Index Name"] for n in plan if "Index Name" in n and n["Actual Loops"]}
    read = [
        (n["Actual Rows"] + n.get("Rows Removed by Filter", 0)) * n["Actual Loops"]
        for n in plan
        if n.get("Relation Name") == "entities" or "Index Name" in n
    ]
    assert max(read) <= rows, read


async def test_a_rare_match_is_looked_up_and_a_common_one_is_read_in_order(
    seeded: asyncpg.Connection,
) -> None:
    """Both first pages come without reading the collection."""
    for text, expected in (("labels.stage=PROD", ["F500", "F1000"]), ("labels.stage=dev", ["F1"])):
        asked = parse_filters([text], EntityKind(model=MODEL, groups="dirs", resources="files"))
        page = await find_page(seeded, Xid.parse("/dirs/d"), "files", filters=asked, limit=5)
        ids = {xid.rpartition("/")[2] for xid in page.xids}
        assert {*expected} & ids
        assert page.total == (MANY // 500 if "PROD" in text else MANY - MANY // 500)


@pytest.mark.parametrize(
    ("owner", "plural", "text", "found"),
    [
        ("/dirs/d1", "files", "labels.stage=dev", MANY // 400),
        ("/dirs/d1", "files", "labels.stage=dev,size=1", MANY // 400),
        ("/", "dirs", "name=some", 101),
        ("/dirs/d1/files/F12001", "versions", "labels.stage=dev", 1),
    ],
)
async def test_a_value_that_is_common_elsewhere_costs_a_collection_nothing(
    seeded: asyncpg.Connection, owner: str, plural: str, text: str, found: int
) -> None:
    """The search index alone tells what is in the collection: no row beside it is fetched."""
    aim = {"/": {"groups": "dirs"}}.get(owner, {"groups": "dirs", "resources": "files"})
    aim = {**aim, "versions": True} if plural == "versions" else aim
    asked = parse_filters([text], EntityKind(model=MODEL, **aim))
    async with seeded.transaction():
        before = await rows_fetched(seeded)
        visible = await find_visible(seeded, Xid.parse(owner), asked, plural)
        fetched = await rows_fetched(seeded) - before
    assert len(visible.roots) == found
    assert found <= fetched <= 3 * found


async def rows_fetched(connection: asyncpg.Connection) -> int:
    """How many rows of entities this transaction has read, by whatever index."""
    return int(
        await connection.fetchval("SELECT pg_stat_get_xact_tuples_fetched('entities'::regclass)")
    )


async def test_what_is_found_below_a_group_is_looked_up_once(seeded: asyncpg.Connection) -> None:
    asked = parse_filters(["files.name=name 17,name=s*"], EntityKind(model=MODEL, groups="dirs"))
    page = await find_page(seeded, Xid(), "dirs", filters=asked, limit=5)
    assert page.xids
    assert all(xid.startswith("/dirs/d") for xid in page.xids)
