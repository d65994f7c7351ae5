"""Pages and matches, straight from the database: what is found, in which order, at what cost."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
import pytest_asyncio

from catalog.model.attributereference import EntityKind
from catalog.model.caller import node_caller
from catalog.model.entity import Entity
from catalog.model.errors import BadRequest
from catalog.model.filter import Filters, Sort, parse_filters, parse_sort
from catalog.model.xid import Xid
from catalog.reading.find import find_page, find_visible
from catalog.reconfiguration.initialmodel import ensure_registry
from catalog.store.database import Connection, Database
from tests.integration.searching import MODEL, clear, entity, plant, resource

pytestmark = pytest.mark.asyncio(loop_scope="module")

DIRS = {"groups": "dirs"}
FILES = {"groups": "dirs", "resources": "files"}
VERSIONS = {**FILES, "versions": True}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database(shared_database_url: str) -> AsyncIterator[Database]:
    async with Database.open(
        shared_database_url, node_caller(), modelsource=MODEL.source
    ) as opened:
        await ensure_registry(opened, "test")
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def connection(database: Database) -> AsyncIterator[Connection]:
    """A transaction of a catalog with nothing in it."""
    await clear(database)
    async with database.acquire() as connection:
        yield connection


def filters(*texts: str, **aim: Any) -> Filters:
    return parse_filters(texts, EntityKind(model=MODEL, **aim))


def sort(text: str, **aim: Any) -> Sort:
    return parse_sort(text, EntityKind(model=MODEL, **aim))


def file(xid: str, **attributes: Any) -> list[Entity]:
    """A resource with one version."""
    return [resource(xid), entity(f"{xid}/versions/1", attributes)]


async def pages(
    connection: Connection, owner: str, plural: str, *, limit: int = 2, **asked: Any
) -> list[str]:
    """The ids of all pages, one after the other."""
    found, after = list[str](), ""
    while True:
        page = await find_page(
            connection, Xid.parse(owner), plural, after=after, limit=limit, **asked
        )
        assert len(page.xids) <= limit
        found += [xid.rpartition("/")[2] for xid in page.xids]
        after = page.following
        if not after:
            return found


SPEC_EXAMPLE = [
    entity("/dirs/g1"),
    entity("/dirs/g2"),
    resource("/dirs/g1/files/r1"),
    entity("/dirs/g1/files/r1/versions/1"),
    entity("/dirs/g1/files/r1/versions/2"),
    *file("/dirs/g1/files/r2"),
    *file("/dirs/g2/files/r3"),
]


async def test_counts_and_urls_of_nested_collections_follow_from_what_is_visible(
    connection: Connection, database: Database
) -> None:
    await plant(database, SPEC_EXAMPLE)
    asked = filters("dirs.dirid=g2", "dirs.files.fileid=r1,dirs.dirid=g1")
    visible = await find_visible(connection, Xid(), asked)
    assert visible.roots == ["/dirs/g2", "/dirs/g1/files/r1"]
    assert visible.ids("/dirs") == {"g1", "g2"}
    assert visible.ids("/boxs") == set()
    assert visible.ids("/dirs/g1/files") == {"r1"}
    assert visible.ids("/dirs/g2/files") is None
    assert visible.ids("/dirs/g1/files/r1/versions") is None
    assert visible.filter_of("/dirs") == ["dirid=g2", "files.fileid=r1,dirid=g1"]
    assert visible.filter_of("/boxs") == ["excludeall"]
    assert visible.filter_of("/dirs/g1/files") == ["fileid=r1"]
    assert visible.filter_of("/dirs/g2/files") == []
    assert visible.shows("/dirs/g1/files/r1/meta")
    assert not visible.shows("/dirs/g1/files/r2/meta")


async def test_a_filter_of_a_collection_tells_about_what_is_in_its_entities(
    connection: Connection, database: Database
) -> None:
    await plant(database, SPEC_EXAMPLE)
    asked = filters("files.fileid=r*,dirid=g1", **DIRS)
    visible = await find_visible(connection, Xid(), asked, "dirs")
    assert visible.ids("/dirs") == {"g1"}
    assert visible.ids("/dirs/g1/files") == {"r1", "r2"}
    assert visible.filter_of("/dirs/g1/files") == ["fileid=r*"]
    of_page = await find_visible(connection, Xid(), asked, "dirs", only=["/dirs/g2"])
    assert of_page.is_empty
    indexed = filters("files.fileid=r3", **DIRS)
    assert (await find_visible(connection, Xid(), indexed, "dirs", only=["/dirs/g1"])).is_empty
    of_page = await find_visible(connection, Xid(), indexed, "dirs", only=["/dirs/g2"])
    assert of_page.roots == ["/dirs/g2/files/r3"]


NAMES = {"m1": "b", "m2": "A", "M3": "", "m4": None, "m5": "ab", "m6": "B", "m7": "ä"}
NAMED = [
    entity("/dirs/g"),
    *(
        row
        for id, name in NAMES.items()
        for row in file(f"/dirs/g/files/{id}", **({} if name is None else {"name": name}))
    ),
]


async def test_a_page_goes_on_after_what_was_deleted_and_shows_what_came_later(
    connection: Connection, database: Database
) -> None:
    await plant(database, NAMED)
    order = sort("name", **FILES)
    owner = Xid.parse("/dirs/g")
    first = await find_page(connection, owner, "files", sort=order, limit=4)
    assert [xid[-2:] for xid in first.xids] == ["M3", "m4", "m2", "m5"]
    await connection.execute("DELETE FROM entities WHERE xid LIKE '/dirs/g/files/m5%'")
    await plant(database, [*file("/dirs/g/files/n", name="AC"), *file("/dirs/g/files/a", name="a")])
    second = await find_page(connection, owner, "files", sort=order, after=first.following, limit=9)
    assert [xid.rpartition("/")[2] for xid in second.xids] == ["n", "m1", "m6", "m7"]


def token(*content: Any) -> str:
    return urlsafe_b64encode(orjson.dumps(content)).decode().rstrip("=")


@pytest.mark.parametrize(
    "after",
    [
        "x",
        "é",
        "=",
        "W10",
        "x" * 5000,
        token(),
        token(0, "0", "a", "b", "c"),
        token(7, "0", "a", "b"),
        token(2, "NaN", "a", "b"),
        token(1, "1e99999", "a", "b"),
        token(1, "x", "a", "b"),
        token(2, "0", "a" * 300, "b"),
        token(2, "0", "a\0", "b"),
        token(2, "0", "a", "b/c"),
        token(2, "0", "yesterday", "b"),
    ],
)
async def test_a_token_that_no_page_gave_out_is_refused(connection: Connection, after: str) -> None:
    with pytest.raises(BadRequest):
        await find_page(
            connection, Xid(), "dirs", sort=sort("modifiedat", **DIRS), after=after, limit=1
        )


VALUES = [
    (r"name=a\*c", "star"),
    ("name=a*c", "star dot long"),
    (r"name=A.C", "dot"),
    ("name=*[x]*", "bracket"),
    (r"name=a\,b", "comma"),
    (r"name=\\d", "backslash"),
    ("name=", "empty"),
    ("name=*", "star dot long bracket comma backslash empty quote lines"),
    ('name="$.a', "quote"),
    ("name=one*two", "lines"),
    ("name=null", "none"),
]
VALUED = {
    "star": "A*C",
    "dot": "a.c",
    "long": "abbbc",
    "bracket": "-[X]-",
    "comma": "a,b",
    "backslash": "\\d",
    "empty": "",
    "quote": '"$.A',
    "lines": "one\ntwo",
}


@pytest.mark.parametrize(("text", "ids"), VALUES)
async def test_values_are_compared_as_they_are_written(
    connection: Connection, database: Database, text: str, ids: str
) -> None:
    """Nothing in a value is more than a character, but wildcards and what escapes them."""
    rows = [entity(f"/dirs/{id}", {"name": name}) for id, name in VALUED.items()]
    await plant(database, [*rows, entity("/dirs/none")])
    found = await pages(connection, "/", "dirs", filters=filters(text, **DIRS))
    assert set(found) == set(ids.split())


async def test_the_default_version_is_what_a_resource_is_found_by(
    connection: Connection, database: Database
) -> None:
    """Whichever way it became the default one."""
    xid = "/dirs/g/files/f"
    old, new = (entity(f"{xid}/versions/{vid}", {"name": vid}) for vid in ("old", "new"))

    async def found() -> list[str]:
        names = ("old", "new")
        return [
            name
            for name in names
            if await pages(connection, "/dirs/g", "files", filters=filters(f"name={name}", **FILES))
        ]

    await plant(database, [entity("/dirs/g"), resource(xid, "old"), old])
    assert await found() == ["old"]
    await plant(database, [new])
    assert await found() == ["old"]
    await plant(database, [resource(xid, "new")])
    assert await found() == ["new"]
    await plant(database, [resource(xid, "old"), old])
    assert await found() == ["old"]
    await plant(database, [resource(xid, "new"), new, old])
    assert await found() == ["new"]


async def test_copies_that_come_in_any_order_are_listed_once_they_are_complete(
    connection: Connection, database: Database
) -> None:
    """Until then a resource is on the plain page, and matches nothing."""
    xid = "/dirs/g/files/f"
    rows = [resource(xid, "2"), entity(f"{xid}/versions/1"), entity(f"{xid}/versions/2")]
    everything = filters("fileid=f", **FILES)
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        await clear(database)
        await plant(database, [entity("/dirs/g")])
        for step, number in enumerate(order, 1):
            await plant(database, [rows[number]])
            plain = await pages(connection, "/dirs/g", "files")
            assert plain == (["f"] if 0 in order[:step] else [])
            is_complete = {0, 2} <= {*order[:step]}
            found = await pages(connection, "/dirs/g", "files", filters=everything)
            assert found == (["f"] if is_complete else [])


async def test_a_cross_reference_is_found_and_ordered_by_its_target(
    connection: Connection, database: Database
) -> None:
    await plant(
        database,
        [
            entity("/dirs/g"),
            *file("/dirs/g/files/b", name="Bee", size=1),
            *file("/dirs/g/files/z", name="Zed", size=3),
            entity("/dirs/g/files/x", {"xref": "/dirs/g/files/b"}),
            entity("/dirs/g/files/y", {"xref": "/dirs/g/files/nothing"}),
        ],
    )

    async def found(text: str, **asked: Any) -> list[str]:
        return await pages(connection, "/dirs/g", "files", filters=filters(text, **FILES), **asked)

    assert await found("name=bee") == ["b", "x"]
    assert await found("name=b*", sort=sort("name=desc", **FILES)) == ["x", "b"]
    assert await found("fileid=x") == ["x"]
    assert await found("xid=/dirs/g/files/x") == ["x"]
    assert await found("meta.xref") == ["x", "y"]
    assert await found("name=null") == ["y"]
    assert await found("versions.name=bee") == ["b", "x"]
    for order in ("name", "size", "modifiedat"):
        in_order = await pages(connection, "/dirs/g", "files", sort=sort(order, **FILES))
        assert in_order == ["y", "b", "x", "z"]
    of_versions = await pages(connection, "/dirs/g/files/x", "versions")
    assert of_versions == ["1"]
    visible = await find_visible(connection, Xid(), filters("dirs.files.versions.name=bee"))
    assert visible.ids("/dirs/g/files/x/versions") == {"1"}


async def test_a_version_is_found_among_those_of_its_resource(
    connection: Connection, database: Database
) -> None:
    xid = "/dirs/g/files/f"
    vids = ["1", "2", "10", "v"]
    versions = [entity(f"{xid}/versions/{vid}", {"name": f"v{vid}"}) for vid in vids]
    await plant(database, [entity("/dirs/g"), resource(xid, "2"), *versions])
    for text, order, expected in (
        ("", "", ["1", "10", "2", "v"]),
        ("", "versionid=desc", ["v", "2", "10", "1"]),
        ("isdefault=false", "name", ["1", "10", "v"]),
        ("versionid=1*", "", ["1", "10"]),
        ("name=V10", "", ["10"]),
    ):
        found = await pages(
            connection,
            xid,
            "versions",
            filters=filters(text, **VERSIONS) if text else None,
            sort=sort(order, **VERSIONS) if order else None,
        )
        assert found == expected, text
