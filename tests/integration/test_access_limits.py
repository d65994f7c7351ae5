"""A caller that sends too much, or guesses, has to wait; others do not."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import orjson

from catalog.access.authentication import AUTHENTICATION
from catalog.access.owntokens import make_token
from catalog.load.limiter import Rate
from catalog.model.roles import Grant
from catalog.monitoring.health import routes as watching
from replication.feed.feedrequests import pages_of
from replication.routes import routes as replication_routes
from tests.integration.conftest import Answer, Node, start_node

# One request in 1,000 seconds: what a slow machine cannot refill.
SLOW = {"requests_per_second": 0.001, "address_requests_per_second": 0.001}


async def token(node: Node, role: str = "reader") -> str:
    async with node.database.transaction() as connection:
        grants = (Grant(role),)  # type: ignore[arg-type]
        return (await make_token(connection, name="t", grants=grants, expiresat=None))[1]


async def get(node: Node, path: str, token: str | None = None, **headers: str) -> Answer:
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return await node.send("GET", path, **headers)


async def test_each_caller_has_a_rate_and_is_told_what_is_left(database_url: str) -> None:
    limited = start_node(database_url, routes=watching, open=False, **SLOW)
    async with limited as node:
        one, other = await token(node), await token(node)
        served = await get(node, "/", one)
        assert served.status == 200
        assert served.headers["RateLimit"] == '"caller";r=0;t=1000'
        refused = await get(node, "/", one)
        assert (refused.status, refused.error) == (429, "too_many_requests")
        assert refused.headers["RateLimit-Policy"] == '"caller";q=1;w=1000'
        assert refused.headers["RateLimit"].startswith('"caller";r=0;t=')
        assert 900 < int(refused.headers["Retry-After"]) <= 1000
        assert refused.json["args"]["setting"] == "CONCORD_REQUESTS_PER_SECOND"
        assert (await get(node, "/nowhere", one)).status == 429, "on every path"
        assert (await get(node, "/", other)).status == 200
        # Whoever is refused counts, and wrong credentials are their address's.
        assert (await get(node, "/")).status == 401
        assert (await get(node, "/", "concord_" + "A" * 43)).status == 429
        assert (await get(node, "/")).json["args"]["whose"] == "An address"
        assert (await node.send("POST", "/notifications", {})).status == 429
        assert (await get(node, "/", await token(node))).status == 200
        for _ in range(5):
            assert (await get(node, "/health/live")).status == 200


async def test_networks_of_ipv6_are_one_address_and_proxies_are_not(database_url: str) -> None:
    trusted = {"trusted_proxies": "127.0.0.0/8", "anonymous_role": "reader"}
    async with start_node(database_url, **trusted, **SLOW) as node:

        async def status(address: str) -> int:
            return (await get(node, "/", X_Forwarded_For=address)).status

        assert [await status(f"2001:db8::{n}") for n in range(1, 3)] == [200, 429]
        assert await status("2001:db8:0:1::1") == 200
        assert [await status("192.0.2.1") for _ in range(2)] == [200, 429]
        assert await status("192.0.2.2") == 200


async def test_an_open_node_has_no_rate_unless_it_is_set(database_url: str) -> None:
    async with start_node(database_url) as node:
        assert "RateLimit" not in (await get(node, "/")).headers
    async with start_node(database_url, **SLOW) as node:
        assert [(await get(node, "/")).status for _ in range(2)] == [200, 429]
    async with start_node(database_url, open=False) as node:
        told = (await get(node, "/", await token(node))).headers
        assert told["RateLimit-Policy"] == '"caller";q=5000;w=10'


async def test_who_guesses_waits_and_who_was_known_before_does_not(database_url: str) -> None:
    now = [0.0]
    async with start_node(database_url, open=False) as node:
        known = node.client.app[AUTHENTICATION]
        known.wrong = Rate(0.1, 4, longest_delay=60, clock=lambda: now[0])
        before, unseen = await token(node), await token(node)
        assert (await get(node, "/", before)).status == 200
        guesses = [f"concord_{n:043}" for n in range(6)]
        assert [(await get(node, "/", each)).status for each in guesses] == [401] * 4 + [429] * 2
        refused = await get(node, "/", guesses[0])
        assert (refused.error, refused.headers["Retry-After"]) == ("too_many_attempts", "10")
        assert (await get(node, "/", unseen)).status == 429, "nothing is checked in the pause"
        assert (await get(node, "/", before)).status == 200
        known.remembered.forget()
        assert (await get(node, "/", before)).status == 200, "although it is verified again"
        now[0] += 10
        assert (await get(node, "/", unseen)).status == 200
        assert (await get(node, "/", guesses[0])).status == 401
        assert (await get(node, "/", guesses[0])).headers["Retry-After"] == "10"
        assert (await get(node, "/", None)).status == 401, "who shows nothing guesses nothing"
        # One that is revoked is a wrong one.
        await end_all(node)
        known.remembered.forget()
        assert (await get(node, "/", before)).status == 401
        assert (await get(node, "/", before)).status == 429


async def end_all(node: Node) -> None:
    async with node.database.acquire() as connection:
        await connection.execute(
            "UPDATE access_tokens SET createdat = $1, expiresat = $1",
            datetime(2020, 1, 1, tzinfo=UTC),
        )


async def test_long_polls_count_for_the_caller_and_not_for_its_address(database_url: str) -> None:
    settings = {"long_polls": 10, "open": False}
    async with start_node(database_url, routes=replication_routes, **settings) as node:
        one, other = await token(node, "replicator"), await token(node, "replicator")
        writer = await token(node, "writer")
        await node.changes()
        snapshot = (await get(node, "/replication/snapshot", one)).body
        after = orjson.loads(snapshot.splitlines()[-1])["cursor"]
        path = f"/replication/changes?after={after}&wait=15"
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            waiting = [group.create_task(get(node, path, each)) for each in (one, other)]
            while pages_of(node.database.shared).waiting < 2:
                await asyncio.sleep(0.01)  # until both wait
            refused = await get(node, path, one)
            assert (refused.status, refused.error) == (429, "too_many_at_once")
            bearer = f"Bearer {writer}"
            await node.put("/messagegroups/g", Authorization=bearer)
        assert [each.result().status for each in waiting] == [200, 200]
