"""How many entities a page's links say that the collection has."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.integration.conftest import Node, start_node

COUNT = re.compile(r"rel=next;count=(\d+)")
GROUPS = "/messagegroups"
MESSAGES = f"{GROUPS}/g/messages"
VERSIONS = f"{MESSAGES}/m0/versions"
SEED: dict[str, Any] = {
    "messagegroups": {
        "g": {
            "messages": {
                "m0": {"versions": {str(number): {} for number in range(1, 5)}},
                **{f"m{number}": {} for number in range(1, 5)},
            }
        },
        **{f"h{number}": {} for number in range(4)},
        "x": {"messages": {"x": {"meta": {"xref": f"{MESSAGES}/m0"}}, "y": {}}},
    }
}
COLLECTIONS = (GROUPS, MESSAGES, VERSIONS, f"{GROUPS}/x/messages/x/versions")
WRITES: list[tuple[str, str, Any]] = [
    ("PUT", f"{GROUPS}/new", {}),
    ("DELETE", f"{GROUPS}/h0", None),
    ("PUT", f"{MESSAGES}/new", {}),
    ("DELETE", f"{MESSAGES}/m1", None),
    ("PUT", f"{VERSIONS}/5", {}),
    ("DELETE", f"{VERSIONS}/1", None),
    ("PATCH", f"{MESSAGES}/m2", {"name": "new"}),
    ("POST", "/", {"messagegroups": {"g": {"messages": {"a": {}, "b": {}}}, "i": {}}}),
    ("POST", f"{GROUPS}/x/messages", {"z": {}}),
]


async def counts(node: Node) -> dict[str, int]:
    """What each collection's pages say, which has to be the same in every order."""
    found = {}
    for collection in COLLECTIONS:
        said = set()
        for order in ("", "&sort=name", "&sort=modifiedat=desc", "&sort=epoch"):
            answer = await node.send("GET", f"{collection}?limit=1{order}")
            [count] = COUNT.findall(",".join(answer.headers.getall("Link")))
            said.add(int(count))
        [found[collection]] = said
    return found


async def sizes(node: Node) -> dict[str, int]:
    return {collection: len(await node.get(collection)) for collection in COLLECTIONS}


async def test_the_count_is_right_after_any_write_of_any_process(database_url: str) -> None:
    """Even where answers may be old: a client adds pages up to it."""
    async with (
        start_node(database_url) as writer,
        start_node(database_url, cache_staleness_seconds=3600) as reader,
    ):
        assert (await writer.send("POST", "/", SEED)).status == 200
        assert await counts(reader) == await counts(writer) == await sizes(writer)
        for method, path, body in WRITES:
            answer = await writer.send(method, path, body)
            assert answer.status in (200, 201, 204), answer.body
            expected = await sizes(writer)
            assert await counts(writer) == expected, path
            # Without this wish, the whole answer would be an old one.
            for collection in COLLECTIONS:
                page = await reader.send(
                    "GET", f"{collection}?limit=1&sort=createdat", Cache_Control="no-cache"
                )
                [count] = COUNT.findall(",".join(page.headers.getall("Link")))
                assert int(count) == expected[collection], (path, collection)


async def test_a_whole_collection_is_counted_again_only_after_a_write_in_it(node: Node) -> None:
    assert (await node.send("POST", "/", SEED)).status == 200
    for _ in range(3):
        before = await counts(node)
    async with node.database.acquire() as connection:
        await connection.execute(f"DELETE FROM entities WHERE xid ~ '^{MESSAGES}/m4'")

    async def count(order: str) -> int:
        answer = await node.send("GET", f"{MESSAGES}?limit=1&sort={order}")
        [found] = COUNT.findall(",".join(answer.headers.getall("Link")))
        return int(found)

    assert await count("messageid=desc") == before[MESSAGES], "nobody has heard of it"
    await node.put(f"{GROUPS}/x/messages/y", {"name": "new"})
    assert await count("description") == before[MESSAGES]
    await node.put(f"{MESSAGES}/m3", {"name": "new"})
    assert await count("description=desc") == before[MESSAGES] - 1


@pytest.mark.parametrize("order", ["", "&sort=name"])
async def test_the_last_page_leads_to_the_first_with_the_count_of_all(
    node: Node, order: str
) -> None:
    assert (await node.send("POST", "/", SEED)).status == 200
    first = await node.send("GET", f"{MESSAGES}?limit=4{order}")
    [following] = re.findall(
        r"<https?://[^/]+(/[^>]+)>;rel=next", str(first.headers.getall("Link"))
    )
    last = await node.send("GET", following)
    assert len(last.json) == 1
    links = ",".join(last.headers.getall("Link"))
    assert "rel=next" not in links
    assert "rel=first;count=5" in links
