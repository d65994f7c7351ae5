"""Recoveries and handovers show credentials to catalogs that know their callers."""

from __future__ import annotations

from pathlib import Path

from tests.integration.commandline import concord
from tests.integration.conftest import Node
from tests.integration.federation import (
    carries,
    databases,
    eventually,
    link,
    own_rows,
    running,
    start_member,
    write_some,
)
from tests.integration.test_link_tokens import as_admin, token
from tests.integration.test_recovery import recovery_is, start_as

HANDOVERS = "/replication/handovers"


async def test_a_group_is_handed_over_between_nodes_that_ask(
    postgres_url: str, template: str
) -> None:
    async with (
        databases(postgres_url, template, 2) as [first, second],
        start_member(first, open=False) as giver,
        start_member(second, open=False) as taker,
    ):
        await as_admin(giver, "PUT", "/messagegroups/g", {})
        wanted = {"group": "/messagegroups/g", "from": giver.url}
        refused = await as_admin(taker, "POST", HANDOVERS, wanted)
        assert (refused.status, refused.error) == (409, "handover_refused")
        shown = {"credential": {"token": await token(giver, "replicator")}}
        assert (await as_admin(taker, "POST", HANDOVERS, wanted | shown)).status == 201
        # The giver shows what its link to the taker shows.
        text = await token(taker, "replicator")
        body = {"source": taker.url, "mode": "pull", "token": text}
        assert (await as_admin(giver, "POST", "/replication/links", body)).status == 201
        offer = {"group": "/messagegroups/g", "to": taker.url}
        assert (await as_admin(giver, "POST", HANDOVERS, offer)).status == 201
        async with running(giver, taker):
            for node in (giver, taker):
                await eventually(lambda node=node: is_handed_over(node), 60)  # type: ignore[misc]
        async with taker.database.acquire() as connection:
            assert await connection.fetchval("SELECT count(sealed) FROM handovers") == 0


async def is_handed_over(node: Node) -> bool:
    async with node.database.acquire() as connection:
        return bool(await connection.fetchval("SELECT every(state = 'done') FROM handovers"))


async def test_a_node_recovers_from_a_replica_that_asks(
    postgres_url: str, template: str, tmp_path: Path
) -> None:
    async with (
        databases(postgres_url, template, 3) as [first, second, third],
        start_member(second) as replica,
    ):
        async with start_as(first) as lost:
            await write_some(lost, "g")
            await link(replica, lost, id="from")
            before = await own_rows(lost)
            async with running(replica):
                await eventually(lambda: carries(replica, lost))
        async with start_member(second, open=False) as asking, start_as(third) as fresh:
            tokens = tmp_path / "tokens"
            tokens.write_text(f"{asking.url} {await token(asking, 'replicator')}\n")
            tokens.chmod(0o600)
            refused = await concord(fresh, "recover", "--from", asking.url)
            assert (refused.exit_code, "answered 401" in refused.output) == (1, True)
            begun = await concord(
                *(fresh, "recover", "--from", asking.url, "--tokens", str(tokens), "--detach")
            )
            assert begun.exit_code in (0, 1), begun.output
            async with running(fresh):
                await recovery_is(fresh, "done")
            assert await own_rows(fresh) == before
            async with fresh.database.acquire() as connection:
                assert await connection.fetchval("SELECT count(sealed) FROM recovery_sources") == 0
