"""A node takes its own entities back from its replicas."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from catalog.model.caller import Author, node_caller
from catalog.model.modelsource import default_model
from catalog.store import entities
from catalog.store.connections import DatabaseUnusable
from catalog.store.database import Database
from catalog.store.writes import Write, write
from replication.applying.apply import Batch, apply_batch
from replication.deciding.provenance import Policy
from replication.feed.feedlines import read_line
from tests.integration.commandline import concord
from tests.integration.conftest import Node
from tests.integration.federation import (
    Rows,
    carries,
    databases,
    digest_rows,
    eventually,
    execute,
    link,
    link_is,
    own_rows,
    running,
    start_member,
    write_some,
)
from tests.integration.meteredsource import metered

AUTHORITY = "urn:test:lost"
MESSAGE = "/messagegroups/g/messages/m0"
MESSAGEGROUPS = default_model().source["groups"]["messagegroups"]


@contextlib.asynccontextmanager
async def start_as(
    dsn: str, authority: str = AUTHORITY, *, awaits_recovery: bool = False
) -> AsyncIterator[Node]:
    """A node that is this authority."""
    source = default_model().source
    async with Database.open(
        dsn, node_caller(), modelsource=source, authority=authority, awaits_recovery=awaits_recovery
    ):
        pass
    async with start_member(dsn) as node:
        yield node


async def recover(node: Node, *sources: Node) -> None:
    """Begin a recovery."""
    body = {"sources": [source.url for source in sources]}
    answer = await node.send("POST", "/replication/recovery", body)
    assert answer.status == 202, answer.body


async def recovery_is(node: Node, state: str) -> Any:
    """Wait until a recovery is in a state."""

    async def is_there() -> bool:
        return bool((await node.get("/replication/recovery"))["state"] == state)

    await eventually(is_there)
    return await node.get("/replication/recovery")


async def write_history(node: Node) -> None:
    """Entities that changed, that were deleted, and that were deleted and created again."""
    for number in range(3):
        await node.put(MESSAGE, {"description": f"change {number}"})
    await node.put("/messagegroups/gone/messages/m")
    assert (await node.send("DELETE", "/messagegroups/gone")).status == 204
    await node.put("/messagegroups/g/messages/again")
    assert (await node.send("DELETE", "/messagegroups/g/messages/again")).status == 204
    await node.put("/messagegroups/g/messages/again", {"description": "second life"})


async def follow(target: Node, source: Node) -> None:
    await link(target, source, id="from")
    async with running(target):
        await eventually(lambda: carries(target, source))


async def copy_own(node: Node, backup: Node) -> None:
    """Let a backup of a node have what the node has now."""
    answer = await node.send("GET", "/replication/snapshot")
    *copies, _ = [read_line(line) for line in answer.body.splitlines()]
    policy = Policy(own=AUTHORITY, is_recovering=True)
    await execute(backup, "UPDATE node SET gate = 'closed'")
    await apply_batch(backup.context, Batch(copies=copies, policy=policy))
    await execute(backup, "UPDATE node SET gate = 'open'")


async def own_copies(replica: Node) -> Rows:
    """What a replica has of the authority."""
    return {o: row for o, row in (await digest_rows(replica)).items() if o[0] == AUTHORITY}


async def forge(node: Node, origin: str, *, raised: int = 0) -> None:
    """Let an entity here differ from its copies, at the same epoch or above it."""
    async with node.database.transaction() as connection:
        entity = (await entities.load(connection, [origin]))[origin]
        attributes = {**entity.attributes, "description": "forged"}
        forged = replace(entity, attributes=attributes, epoch=entity.epoch + raised).sealed()
        await write(
            connection,
            Write(
                author=Author(kind="node"), interaction="i", at=forged.modifiedat, entities=[forged]
            ),
        )


async def until_set_or_done(event: asyncio.Event, node: Node) -> None:
    """Wait until a replica was asked something, or the recovery has ended."""
    while not event.is_set():
        if (await node.get("/replication/recovery"))["state"] == "done":
            return
        await asyncio.sleep(0.01)  # between two looks


@pytest.fixture
async def urls(postgres_url: str, template: str) -> AsyncIterator[list[str]]:
    """Three databases."""
    async with databases(postgres_url, template, 3) as made:
        yield made


async def test_a_lost_node_comes_back_from_a_replica_and_goes_on_above_all_epochs(
    urls: list[str],
) -> None:
    async with start_member(urls[1]) as replica:
        async with start_as(urls[0]) as lost:
            await write_some(lost, "g")
            await write_history(lost)
            await follow(replica, lost)
            before = await own_rows(lost)
        async with start_as(urls[2]) as fresh, running(fresh):
            await recover(fresh, replica)
            done = await recovery_is(fresh, "done")
            assert await own_rows(fresh) == before
            assert (done["writes"], done["refused"], done["diverged"]) == ("open", 0, 0)
            assert done["taken"] == len(before)
            answer = await fresh.send("GET", "/schemagroups/g/schemas/s")
            assert answer.body == b'{"type": "object"}'
            for path in (MESSAGE, "/messagegroups/gone", "/messagegroups/gone/messages/m"):
                await fresh.put(path, {"description": "afterwards"})
            after = await own_rows(fresh)
            changed = {o for o in before if after[o] != before[o]}
            assert all(after[o][0] > before[o][0] for o in changed)
            assert (AUTHORITY, "/messagegroups/gone/messages/m/versions/1") in before
            body = {"source": fresh.url, "mode": "pull"}
            assert (await replica.send("PUT", "/replication/links/from", body)).status == 200
            async with running(replica):
                await eventually(lambda: carries(replica, fresh))
                await link_is(replica, "from", "current")
            assert (await replica.get("/replication/links/from"))["conflicts"] == 0


async def test_an_old_backup_is_brought_up_to_date_and_nothing_deleted_comes_back(
    urls: list[str],
) -> None:
    """The restored node has what was deleted since, and lacks what came; deletions win."""
    async with start_member(urls[1]) as replica:
        async with start_as(urls[0]) as node, start_as(urls[2]) as backup:
            await write_some(node, "g")
            await node.put("/messagegroups/dropped/messages/m")
            await copy_own(node, backup)
            await write_history(node)
            assert (await node.send("DELETE", "/messagegroups/dropped")).status == 204
            await follow(replica, node)
            before = await own_rows(node)
        async with start_as(urls[2]) as restored, running(restored):
            assert await own_rows(restored) != before
            await recover(restored, replica)
            await recovery_is(restored, "done")
            assert await own_rows(restored) == before
            answer = await restored.send("GET", "/messagegroups/dropped/messages/m")
            assert answer.status == 404
            # A second one finds nothing to do.
            await recover(restored, replica)
            done = await recovery_is(restored, "done")
            assert (done["taken"], done["kept"]) == (0, 0)


async def test_the_highest_epoch_of_all_replicas_is_taken_and_what_is_below_deleted_ones_goes(
    urls: list[str], other_database_url: str
) -> None:
    """One replica fell behind: it has a group that was deleted since, and others have not seen."""
    async with start_member(urls[1]) as ahead, start_member(urls[2]) as behind:
        async with start_as(urls[0]) as lost:
            await write_some(lost, "g")
            await lost.put("/messagegroups/gone/messages/m")
            await follow(behind, lost)
            await write_history(lost)
            await follow(ahead, lost)
            expected = await own_rows(lost)
        # The children's tombstones have not come yet.
        await execute(
            ahead,
            "DELETE FROM tombstones WHERE origin LIKE '/messagegroups/gone/%'",
        )
        async with start_as(other_database_url) as fresh, running(fresh):
            await recover(fresh, behind, ahead)
            done = await recovery_is(fresh, "done")
            found = await own_rows(fresh)
            gone = {o: row for o, row in found.items() if o[1].startswith("/messagegroups/gone/")}
            assert {o: r for o, r in found.items() if o not in gone} == {
                o: r for o, r in expected.items() if o not in gone
            }
            assert {deleted for _, deleted, _ in gone.values()} == {"true"}
            assert done["buried"] == len(gone) == 2
            old = await own_copies(behind)
            assert all(found[o][0] > old[o][0] for o in gone)


async def test_a_divergence_is_reported_and_the_copy_of_most_replicas_is_taken(
    urls: list[str],
) -> None:
    async with (
        start_member(urls[1]) as one,
        start_member(urls[2]) as two,
        start_as(urls[0]) as lost,
    ):
        await write_some(lost, "g")
        await follow(one, lost)
        await follow(two, lost)
        expected = await own_rows(lost)
        origin = f"{MESSAGE}/versions/1"
        await forge(lost, origin)
        async with running(lost):
            await recover(lost, one, two)
            done = await recovery_is(lost, "done")
        assert await own_rows(lost) == expected
        assert done["diverged"] == 1
        [finding] = (await lost.get("/replication/recovery/findings"))["findings"]
        assert (finding["origin"], finding["state"]) == (origin, "taken")
        assert "2 copies of this epoch differ" in finding["detail"]


async def test_a_node_that_recovers_can_be_read_and_takes_no_writes_even_after_a_restart(
    urls: list[str],
) -> None:
    """Its links run nowhere, so that the recovery stays where it is."""
    async with start_member(urls[1]) as replica, start_as(urls[0]) as node:
        await write_some(node, "g")
        await follow(replica, node)
        await recover(node, replica)
        assert (await node.send("GET", MESSAGE)).status == 200
    async with start_member(urls[1]) as replica, start_as(urls[0]) as node:
        for method, path, body in (
            ("PUT", MESSAGE, {}),
            ("POST", "/messagegroups/g/messages", {"n": {}}),
            ("DELETE", "/messagegroups/g", None),
            ("PATCH", "/", {"description": "changed"}),
            ("PUT", "/modelsource", {"groups": {}}),
        ):
            answer = await node.send(method, path, body)
            assert (answer.status, answer.error) == (503, "catalog_recovering"), path
            assert int(answer.headers["Retry-After"]) > 0
        assert (await node.send("DELETE", "/replication/recovery")).json["writes"] == "open"
        assert (await node.send("PUT", MESSAGE, {})).status == 200
        answer = await node.send("DELETE", "/replication/recovery")
        assert (answer.status, answer.error) == (409, "conflict")


async def test_a_recovery_that_is_cut_off_anywhere_goes_on_and_ends_the_same(
    urls: list[str],
) -> None:
    """The process is lost after each request to the replica, at another point each time."""
    async with start_member(urls[1]) as replica:
        async with start_as(urls[0]) as lost:
            await write_some(lost, "g")
            await write_history(lost)
            await follow(replica, lost)
            before = await own_rows(lost)
        async with start_as(urls[2]) as fresh, metered(replica) as way:
            asked = asyncio.Event()

            async def notice() -> None:
                asked.set()

            way.meanwhile = notice
            body = {"sources": [way.url]}
            answer = await fresh.send("POST", "/replication/recovery", body)
            assert answer.status == 202, answer.body
            for pause in range(6):
                asked.clear()
                async with running(fresh):
                    await asyncio.wait_for(until_set_or_done(asked, fresh), 20)
                    for _ in range(10 * pause):
                        await asyncio.sleep(0)  # let it come a little further each time
            way.meanwhile = None
            async with running(fresh):
                await recovery_is(fresh, "done")
            assert await own_rows(fresh) == before


async def test_what_is_there_of_a_resource_comes_back_and_the_rest_is_reported(
    urls: list[str],
) -> None:
    """The only follower was not interested in the default version."""
    async with start_member(urls[1]) as replica:
        async with start_as(urls[0]) as lost:
            for id in ("1", "2"):
                await lost.put(f"{MESSAGE}/versions/{id}", {"description": id})
            await link(replica, lost, id="from", scope=[f"{MESSAGE}/versions/1"])
            async with running(replica):
                await link_is(replica, "from", "current")
        async with start_as(urls[2]) as fresh, running(fresh):
            await recover(fresh, replica)
            assert (await recovery_is(fresh, "done"))["partial"] == 1
            [finding] = (await fresh.get("/replication/recovery/findings"))["findings"]
            assert (finding["origin"], finding["state"]) == (MESSAGE, "partial")
            assert (await fresh.get(MESSAGE))["versionscount"] == 1
            await fresh.put(f"{MESSAGE}/versions/2", {"description": "again"})
            assert (await fresh.get(MESSAGE))["description"] == "again"


async def test_what_the_model_has_no_type_for_waits_for_the_operator(urls: list[str]) -> None:
    async with start_member(urls[1]) as replica:
        async with start_as(urls[0]) as lost:
            await write_some(lost, "g")
            await follow(replica, lost)
            before = await own_rows(lost)
        async with start_as(urls[2]) as fresh, running(fresh):
            model = await fresh.get("/modelsource")
            await fresh.put("/modelsource", {"groups": {"messagegroups": MESSAGEGROUPS}})
            await recover(fresh, replica)
            blocked = await recovery_is(fresh, "blocked")
            assert (blocked["writes"], blocked["refused"]) == ("model", 3)
            findings = (await fresh.get("/replication/recovery/findings"))["findings"]
            assert "the model here has no type for schemagroups" in findings[0]["detail"]
            assert (await fresh.send("PUT", MESSAGE, {})).status == 503
            await fresh.put("/modelsource", model)
            assert (await fresh.send("PATCH", "/replication/recovery", {})).status == 200
            await recovery_is(fresh, "done")
            assert await own_rows(fresh) == before


async def test_an_epoch_beyond_belief_is_not_taken_and_a_recovery_can_begin_again_without_the_liar(
    urls: list[str], other_database_url: str
) -> None:
    async with start_member(urls[1]) as honest, start_member(other_database_url) as liar:
        async with start_as(urls[0]) as lost:
            await write_some(lost, "g")
            await follow(honest, lost)
            await follow(liar, lost)
            before = await own_rows(lost)
        origin = f"{MESSAGE}/versions/1"
        await forge(liar, origin, raised=2**52 + 2**33)
        async with start_as(urls[2]) as fresh, running(fresh):
            await recover(fresh, honest, liar)
            assert (await recovery_is(fresh, "blocked"))["refused"] == 1
            [finding] = (await fresh.get("/replication/recovery/findings"))["findings"]
            assert "its epoch 4503608217305089 is more than" in finding["detail"]
            await recover(fresh, honest)
            done = await recovery_is(fresh, "done")
            assert (done["refused"], await own_rows(fresh)) == (0, before)


async def test_what_cannot_be_taken_is_deleted_everywhere_if_the_operator_says_so(
    urls: list[str],
) -> None:
    """The replica's copy is spoilt, so nobody has it any more."""
    async with start_member(urls[1]) as replica:
        async with start_as(urls[0]) as lost:
            await write_some(lost, "g")
            await follow(replica, lost)
        spoilt = "/messagegroups/g/messages/m1/versions/1"
        statement = 'UPDATE entities SET attributes = \'{"name": "x"}\' WHERE xid = $1'
        await execute(replica, statement, spoilt)
        async with start_as(urls[2]) as fresh, running(fresh):
            blocked = await concord(fresh, "recover", "--from", replica.url)
            assert (blocked.exit_code, spoilt in blocked.output) == (1, True), blocked.output
            [finding] = (await fresh.get("/replication/recovery/findings"))["findings"]
            assert finding["detail"] == "no replica sends the copy that it announced"
            unconfirmed = await concord(fresh, "recover", "resume", "--bury")
            assert unconfirmed.exit_code == 2, unconfirmed.output
            assert (await recovery_is(fresh, "blocked"))["buried"] == 0
            buried = await concord(fresh, "recover", "resume", "--bury", "--yes")
            assert buried.exit_code == 0, buried.output
            assert (await recovery_is(fresh, "done"))["buried"] == 1
            epoch, is_deleted, _ = (await own_rows(fresh))[AUTHORITY, spoilt]
            held = (await own_copies(replica))[AUTHORITY, spoilt][0]
            assert (epoch, is_deleted) == (held + 1, "true")


async def test_a_fresh_node_may_wait_for_its_recovery_and_tells_no_follower_that_it_is_empty(
    urls: list[str],
) -> None:
    """A follower that was reset would drop the last copies that there are."""
    async with start_member(urls[1]) as replica:
        async with start_as(urls[0]) as lost:
            await write_some(lost, "g")
            await follow(replica, lost)
            before = await own_rows(lost)
        async with start_as(urls[2], awaits_recovery=True) as fresh:
            refused = await fresh.send("PUT", "/messagegroups/g", {})
            assert (refused.status, refused.error) == (503, "catalog_recovering")
            status = await concord(fresh, "recover", "show")
            assert (status.exit_code, "takes no writes until" in status.output) == (1, True)
            for path in ("snapshot", "digests?bits=8", "digests?format=csv&ranges=0-65536"):
                answer = await fresh.send("GET", f"/replication/{path}")
                assert (answer.status, answer.error) == (503, "catalog_recovering")
                other = f"/replication/{path}{'&' if '?' in path else '?'}authority=urn:other"
                assert (await fresh.send("GET", other)).status == 200
            body = {"source": fresh.url, "mode": "pull"}
            assert (await replica.send("PUT", "/replication/links/from", body)).status == 200
            reset = await replica.send("POST", "/replication/links/from/reset", {})
            assert reset.status == 200
            async with running(replica, fresh):
                await link_is(replica, "from", "waiting")
                assert await own_copies(replica) == before
                done = await concord(fresh, "recover", "--from", replica.url, "--with-model")
                assert done.exit_code == 0, done.output
                assert await own_rows(fresh) == before
                await link_is(replica, "from", "current")
                assert await own_copies(replica) == before
        async with start_as(urls[2], awaits_recovery=True) as again:
            assert (await again.send("PUT", "/messagegroups/new", {})).status == 201
        with pytest.raises(DatabaseUnusable, match="it is that of the authority urn:test:lost"):
            async with start_as(urls[2], "urn:test:another"):
                pass


async def test_only_replicas_of_this_authority_are_recovered_from(urls: list[str]) -> None:
    async with (
        start_member(urls[1]) as stranger,
        start_as(urls[0]) as node,
        start_as(urls[2]) as twin,
    ):
        await write_some(stranger, "s")
        for sources, name, told in (
            ([stranger.url], "replica_unusable", "nothing there is of urn:test:lost"),
            ([twin.url], "replica_unusable", "it claims the authority of this node"),
            ([node.url], "invalid_attribute", "it is this node itself"),
            ([], "invalid_attribute", "sources"),
            (["ftp://x"], "invalid_attribute", "http or https"),
        ):
            answer = await node.send("POST", "/replication/recovery", {"sources": sources})
            assert (answer.status, answer.error) == (400, name)
            assert told in answer.json["title"]
        assert (await node.send("GET", "/replication/recovery")).status == 404
        assert (await node.send("PUT", "/messagegroups/g", {})).status == 201
