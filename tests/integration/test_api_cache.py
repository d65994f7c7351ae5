"""What a node remembers of its answers, and what makes it forget them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from multidict import CIMultiDict

from catalog.api.answercache import ANSWERS, AnswerCache, CachedAnswer
from catalog.model.change import Change
from tests.integration.conftest import Node, start_node

M = "/messagegroups/g/messages/m"
SEED: dict[str, Any] = {
    "messagegroups": {
        "g": {"messages": {"m": {"versions": {"1": {}, "2": {}}}, "n": {}}},
        "h": {"messages": {"m": {}}},
        "x": {"messages": {"x": {"meta": {"xref": M}}}},
    },
    "schemagroups": {"g": {"schemas": {"s": {"format": "Text/1", "schema": {"a": 1}}}}},
}
PATHS = [
    "/",
    "/?inline=*",
    "/messagegroups",
    "/messagegroups?inline=messages.meta",
    "/messagegroups?limit=1&sort=modifiedat=desc",
    "/messagegroups/g",
    "/messagegroups/g?inline=*&doc",
    "/messagegroups/g?filter=messages.description=new",
    "/messagegroups/g/messages",
    M,
    f"{M}?inline=*",
    f"{M}/meta",
    f"{M}/versions",
    f"{M}/versions?inline",
    f"{M}/versions/1",
    f"{M}/versions/2",
    "/messagegroups/g/messages/n",
    "/messagegroups/h",
    "/messagegroups/h/messages/m",
    "/messagegroups/x/messages/x",
    "/messagegroups/x/messages/x/versions",
    "/messagegroups/x?inline=*",
    "/messagegroups/x?inline=*&doc",
    "/schemagroups/g/schemas/s",
    "/schemagroups/g/schemas/s$details",
    "/export",
]
WRITES: list[tuple[str, str, Any]] = [
    ("PATCH", "/", {"name": "new"}),
    ("PATCH", "/messagegroups/g", {"name": "new"}),
    ("PUT", "/messagegroups/new", {}),
    ("PUT", "/messagegroups/g/messages/new", {}),
    ("PATCH", M, {"description": "new"}),
    ("PATCH", f"{M}/meta", {"labels": {"a": "b"}}),
    ("PATCH", f"{M}/meta", {"defaultversionid": "1", "defaultversionsticky": True}),
    ("PATCH", f"{M}/versions/1", {"description": "new"}),
    ("PUT", f"{M}/versions/3", {}),
    ("DELETE", f"{M}/versions/2", None),
    ("DELETE", M, None),
    ("DELETE", "/messagegroups/g", None),
    ("DELETE", "/messagegroups", None),
    ("PUT", "/messagegroups/x/messages/x/meta", {"xref": "/messagegroups/h/messages/m"}),
    ("PUT", "/messagegroups/x/messages/x/meta", {"xref": None}),
    ("POST", "/", {"schemagroups": {"g": {"schemas": {"s": {"format": "Text/1", "schema": {}}}}}}),
]


async def answers(node: Node, **headers: str) -> dict[str, Any]:
    found = {}
    for path in PATHS:
        answer = await node.send("GET", path, **headers)
        found[path] = (answer.status, answer.body, answer.headers.get("ETag"))
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def processes(shared_database_url: str) -> AsyncIterator[tuple[Node, Node]]:
    """Two processes on one database: one that writes, and one whose bound is no time at all."""
    async with (
        start_node(shared_database_url) as writer,
        start_node(shared_database_url, cache_staleness_seconds=0) as reader,
    ):
        yield writer, reader


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("write", WRITES, ids=lambda write: f"{write[0]} {write[1]}")
async def test_after_any_write_every_answer_is_as_if_nothing_were_remembered(
    processes: tuple[Node, Node], write: tuple[str, str, Any]
) -> None:
    writer, _ = processes
    for groups in ("messagegroups", "schemagroups"):
        assert (await writer.send("DELETE", f"/{groups}")).status == 204
    assert (await writer.send("POST", "/", SEED)).status == 200
    # The first confirmation forgets everything, since nobody knows what was before it.
    before = [[await answers(node) for _ in range(2)][1] for node in processes]
    assert [await answers(node) for node in processes] == before
    method, path, body = write
    answer = await writer.send(method, path, body)
    assert answer.status in (200, 201, 204), answer.body
    for node, old in zip(processes, before, strict=True):
        after = await answers(node)
        assert after == await answers(node, Cache_Control="no-cache")
        assert after != old


async def test_after_a_change_of_capabilities_nothing_is_remembered(seeded: Node) -> None:
    before = await answers(seeded)
    able = {"shortself": False, "flags": ["inline", "doc", "filter", "sort"]}
    assert (await seeded.send("PATCH", "/capabilities", able)).status == 200
    after = await answers(seeded)
    assert after == await answers(seeded, Cache_Control="no-cache")
    assert after != before


async def tamper(node: Node, xid: str, name: str) -> None:
    """Change what is stored so that nobody hears of it."""
    statement = """UPDATE entities
        SET attributes = attributes || jsonb_build_object('name', $2::text) WHERE xid = $1"""
    async with node.database.acquire() as connection:
        await connection.execute(statement, xid, name)


async def name_at(node: Node, path: str, **headers: str) -> Any:
    answer = await node.send("GET", path, **headers)
    assert answer.status == 200, answer.body
    return answer.json.get("name")


@pytest.fixture
async def seeded(node: Node) -> Node:
    answer = await node.send("POST", "/", SEED)
    assert answer.status == 200, answer.body
    return node


async def test_answers_are_remembered_until_the_client_wants_them_anew(seeded: Node) -> None:
    """RFC 9111, 5.2.1."""
    # The first confirmation forgets everything, since nobody knows what was before it.
    for _ in range(3):
        assert await name_at(seeded, "/messagegroups/g") is None
    await tamper(seeded, "/messagegroups/g", "new")
    assert await name_at(seeded, "/messagegroups/g") is None
    for wish in ("no-cache", "max-age=0", "No-Cache, no-transform", "no-store"):
        assert await name_at(seeded, "/messagegroups/g", Cache_Control=wish) == "new"


@pytest.mark.parametrize(
    ("write", "forgets"),
    [
        (("PATCH", "/messagegroups/g/messages/n", {"description": "d"}), set()),
        (("PATCH", M, {"description": "d"}), {M, f"{M}/versions/1", f"{M}/meta"}),
        (("PATCH", f"{M}/versions/1", {"description": "d"}), {M, f"{M}/versions/1", f"{M}/meta"}),
        (("PATCH", "/messagegroups/h/messages/m", {"name": "d"}), set()),
    ],
)
async def test_a_write_ends_no_answers_of_others(
    seeded: Node, write: tuple[str, str, Any], forgets: set[str]
) -> None:
    paths = (M, f"{M}/versions/1", f"{M}/meta", "/messagegroups/h")
    rows = (f"{M}/versions/2", f"{M}/versions/1", M, "/messagegroups/h")
    for _ in range(3):
        for path in paths:
            await name_at(seeded, path)
    for row in rows:
        await tamper(seeded, row, "tampered")
    method, path, body = write
    assert (await seeded.send(method, path, body)).status == 200
    names = {path: await name_at(seeded, path) for path in paths}
    expected = forgets | ({"/messagegroups/h"} if "/h/" in path else set())
    assert {path for path, name in names.items() if name == "tampered"} == expected


async def test_what_is_seen_through_a_cross_reference_is_not_remembered(seeded: Node) -> None:
    x = "/messagegroups/x/messages/x"
    for path in (x, f"{x}/versions/2", f"{x}/meta"):
        await name_at(seeded, path)
    await seeded.send("PATCH", M, {"name": "new"})
    await seeded.send("PATCH", f"{M}/meta", {"labels": {"l": "new"}})
    assert await name_at(seeded, x) == "new"
    assert await name_at(seeded, f"{x}/versions/2") == "new"
    assert (await seeded.get(f"{x}/meta"))["labels"] == {"l": "new"}
    assert (await seeded.get("/messagegroups/x?inline=*"))["messages"]["x"]["name"] == "new"


async def test_within_its_bound_another_process_need_not_have_heard(database_url: str) -> None:
    async with (
        start_node(database_url) as writer,
        start_node(database_url, cache_staleness_seconds=3600) as reader,
    ):
        await writer.put("/messagegroups/g", {"name": "old"})
        for _ in range(3):
            assert await name_at(reader, "/messagegroups/g") == "old"
        await writer.put("/messagegroups/g", {"name": "new"})
        assert await name_at(reader, "/messagegroups/g") == "old"
        assert await name_at(reader, "/messagegroups/g", Cache_Control="no-cache") == "new"
        await reader.put("/messagegroups/g/messages/m", {})
        assert await name_at(reader, "/messagegroups/g") == "new", "its own writes it knows"


async def test_a_transaction_that_was_open_all_the_time_is_not_missed(database_url: str) -> None:
    """The log's order is not that of commits: what commits late has an early place in it."""
    async with start_node(database_url, cache_staleness_seconds=0) as node:
        await node.put("/messagegroups/g", {"name": "old"})
        async with node.database.acquire() as connection:
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute(
                """INSERT INTO changes (interaction, at, xid, kind, action, authority, origin,
                    epoch, digest, changed)
                SELECT 'i', now(), xid, kind, 'updated', authority, origin, epoch, digest, '{}'
                FROM entities WHERE xid = '/messagegroups/g'"""
            )
            await connection.execute(
                """UPDATE entities SET attributes = attributes || '{"name": "new"}'
                WHERE xid = '/messagegroups/g'"""
            )
            await node.put("/messagegroups/h")
            for _ in range(3):
                assert await name_at(node, "/messagegroups/g") == "old"
            await transaction.commit()
        assert await name_at(node, "/messagegroups/g") == "new"


def change(xid: str, kind: Any, action: Any = "updated") -> Change:
    return Change(
        xid=xid,
        kind=kind,
        action=action,
        authority="urn:a",
        origin=xid,
        epoch=1,
        digest=b"",
        changed=(),
        deprecation=None,
    )


@pytest.mark.parametrize(
    ("changed", "place", "is_kept"),
    [
        (change(M, "resource"), M, False),
        (change(f"{M}/versions/1", "version"), M, False),
        (change(M, "resource"), "/messagegroups/g", False),
        (change(M, "resource"), "/", False),
        (change(M, "resource"), "/messagegroups/g/messages/n", True),
        (change("/messagegroups/g", "group"), M, True),
        (change("/messagegroups/g", "group", "deleted"), M, False),
    ],
)
async def test_an_answer_that_was_read_before_a_write_is_not_kept_after_it(
    node: Node, changed: Change, place: str, is_kept: bool
) -> None:
    cache = node.client.app[ANSWERS]
    assert isinstance(cache, AnswerCache)
    key = ("base", "path", 0)
    answer = CachedAnswer(place=place, status=200, headers=CIMultiDict(), body=b"{}")
    cache.put(key, answer, cache.ticket())
    await cache.get(key)  # The first confirmation.
    ticket = cache.ticket()
    cache.end_changed([changed])
    cache.put(key, answer, ticket)
    assert (await cache.get(key) is answer) == is_kept
    cache.put(key, answer, cache.ticket())
    assert await cache.get(key) is answer
