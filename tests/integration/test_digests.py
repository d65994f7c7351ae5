"""Digests over HTTP find every damage, and a repair mends it."""

from __future__ import annotations

import functools
import operator
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from catalog.model.digest import bucket, fingerprint
from tests.integration.conftest import Node
from tests.integration.federation import (
    carries,
    databases,
    digest_rows,
    eventually,
    execute,
    link,
    running,
    start_member,
    write_some,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]
DAMAGES = {
    "content": 'UPDATE entities SET attributes = attributes || \'{"name": "x"}\' '
    "WHERE xid = '/messagegroups/g'",
    "epoch": "UPDATE entities SET epoch = epoch - 1 WHERE xid = '/messagegroups/g'",
    "higher epoch": "UPDATE entities SET epoch = 99 WHERE xid = '/messagegroups/g'",
    "time": "UPDATE entities SET modifiedat = now() WHERE xid = '/messagegroups/g'",
    "document": "UPDATE documents SET body = 'broken'",
    "document hash": "UPDATE entities SET document_sha256 = sha256('x') "
    "WHERE document_sha256 IS NOT NULL",
    "lost document": "DELETE FROM documents",
    "digest": "UPDATE entities SET digest = sha256('x') WHERE xid = '/messagegroups/g'",
    "lost entities": "DELETE FROM entities WHERE xid LIKE '/messagegroups/g%'",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, Node]]:
    """A source and a target that carries all of it; the link is not running any more.

    A repair ends each damage. The tests from that of equal catalogs on write to the target.
    """
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_member(one) as source,
        start_member(two) as target,
    ):
        await write_some(source, "g")
        await write_some(source, "gone")
        await source.send("DELETE", "/messagegroups/gone")
        await link(target, source)
        async with running(target):
            await eventually(lambda: carries(target, source))
        yield source, target


async def test_buckets_are_the_xor_of_the_live_rows_without_the_registry(
    pair: tuple[Node, Node],
) -> None:
    _, target = pair
    answer = await target.send("GET", "/replication/digests")
    assert answer.headers["Concord-Cursor"]
    expected: dict[int, list[int]] = {}
    for (authority, origin), (_, deleted, digest) in (await digest_rows(target)).items():
        assert origin != "/"
        if deleted == "false":
            number = bucket(authority, origin)
            expected.setdefault(number, []).append(fingerprint(bytes.fromhex(digest)))
    assert answer.json == {
        "digestversion": 1,
        "buckets": [
            [number, len(prints), functools.reduce(operator.xor, prints)]
            for number, prints in sorted(expected.items())
        ],
    }


async def test_computed_rows_are_the_stored_ones_while_nothing_is_damaged(
    pair: tuple[Node, Node],
) -> None:
    for node in pair:
        stored, computed = await digest_rows(node), await digest_rows(node, verify=True)
        assert stored == computed
        assert {"true", "false"} == {deleted for _, deleted, _ in stored.values()}


async def test_ranges_of_buckets_add_up(pair: tuple[Node, Node]) -> None:
    _, target = pair
    for verify in ("true", "false"):
        path = f"/replication/digests?format=csv&verify={verify}"
        whole = (await target.send("GET", path)).body.splitlines()
        assert whole[0] == b"authority,origin,xid,epoch,deleted,digest,bucket,changedat,intact"
        parts = [
            line
            for start, stop in ((0, 20000), (20000, 50000), (50000, 65536))
            for line in (
                await target.send("GET", f"{path}&from={start}&to={stop}")
            ).body.splitlines()[1:]
        ]
        assert sorted(parts) == sorted(whole[1:])


@pytest.mark.parametrize("name", DAMAGES)
async def test_damage_is_found_by_computing_and_mended_by_a_repair(
    pair: tuple[Node, Node], name: str
) -> None:
    source, target = pair
    await execute(target, DAMAGES[name])
    sound, damaged = await digest_rows(source), await digest_rows(target, verify=True)
    if name == "digest":
        damaged = await digest_rows(target)
    wrong = [origin for origin in sound if damaged.get(origin) != sound[origin]]
    assert wrong
    body = {"origins": [{"authority": a, "origin": o} for a, o in wrong]}
    answer = await target.send("POST", "/replication/repair", body)
    assert answer.status == 200, answer.body
    assert answer.json["unresolved"] == []
    assert sum(answer.json["verdicts"].values()) == len(wrong)
    for verify in (True, False):
        assert await digest_rows(target, verify=verify) == sound
    shown = await target.send("GET", "/schemagroups/g/schemas/s")
    assert shown.body == b'{"type": "object"}'


async def test_equal_catalogs_have_equal_buckets(pair: tuple[Node, Node]) -> None:
    source, target = pair
    assert await source.get("/replication/digests") == await target.get("/replication/digests")
    await target.put("/messagegroups/own")
    assert await source.get("/replication/digests") != await target.get("/replication/digests")


async def test_a_repair_says_what_it_could_not_mend(pair: tuple[Node, Node]) -> None:
    source, target = pair
    await target.put("/messagegroups/own")
    theirs = source.database.node.authority
    origins = [
        {"authority": target.database.node.authority, "origin": "/messagegroups/own"},
        {"authority": theirs, "origin": "/messagegroups/never"},
        {"authority": "urn:stranger", "origin": "/messagegroups/g"},
    ]
    answer = await target.send("POST", "/replication/repair", {"origins": origins})
    reasons = {u["origin"] + u["authority"]: u["reason"] for u in answer.json["unresolved"]}
    assert len(answer.json["unresolved"]) == 3
    assert "does not have it" in reasons["/messagegroups/never" + theirs]
    assert "no link" in reasons["/messagegroups/gurn:stranger"]


async def test_a_repair_of_more_than_a_thousand_origins_is_refused(
    pair: tuple[Node, Node],
) -> None:
    origins = [{"authority": "a", "origin": f"/messagegroups/{n}"} for n in range(1001)]
    answer = await pair[1].send("POST", "/replication/repair", {"origins": origins})
    assert (answer.status, answer.error) == (400, "invalid_attribute")


async def merged(node: Node, **params: object) -> dict[str, Any]:
    query = "&".join(f"{name}={value}" for name, value in params.items())
    answer = await node.send("GET", f"/replication/digests?bits=8&ranges=0-65536&{query}")
    assert answer.status == 200, answer.body
    return {"buckets": answer.json["buckets"], "cursor": answer.headers["Concord-Cursor"]}


async def test_fingerprints_that_may_be_older_are_read_once(pair: tuple[Node, Node]) -> None:
    source, target = pair
    authorities = [node.database.node.authority for node in pair]
    for authority in authorities:
        fresh = await merged(target, authority=authority)
        assert await merged(target, authority=authority, maxage=60) == fresh
    both = f"{authorities[0]}&authority={authorities[1]}"
    fresh = await merged(target, authority=both)
    assert await merged(target, authority=both, maxage=60) == fresh
    assert await merged(target, maxage=60) == await merged(target)
    before = await merged(target, maxage=60)
    await target.put("/messagegroups/later", {})
    assert await merged(target, maxage=60) == before
    assert await merged(target) != before
    # Parts of authorities, and finer fingerprints, are always read from the present.
    scope = {"authority": authorities[1], "scope": "/messagegroups/later"}
    assert (await merged(target, maxage=60, **scope))["buckets"]
    assert (await source.send("GET", "/replication/digests?bits=8&maxage=61")).status == 400
