"""The status of links: how far they are behind, what they brought, and what went wrong."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from catalog.model.linkterms import Mode
from catalog.store.links import LinkDefinition, create, remember
from catalog.store.links import get as get_stored
from replication.deciding.decide import Verdict
from replication.links.linkanswers import advice_about
from tests.integration.conftest import Node
from tests.integration.federation import (
    carries,
    eventually,
    lines,
    link,
    link_is,
    members,
    running,
    write_some,
)
from tests.integration.meteredsource import MeteredSource, follow, metered
from tests.integration.test_access_tokens import concord

CHANGES, SNAPSHOT = "/replication/changes", "/replication/snapshot"


@pytest.fixture
async def pair(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, Node]]:
    """Two fresh nodes that do not know each other."""
    async with members(postgres_url, template, 2) as [target, source]:
        yield target, source


async def shown(node: Node, id: str = "from") -> dict[str, Any]:
    found: dict[str, Any] = await node.get(f"/replication/links/{id}")
    return found


class Halt:
    """Halts the answers of a source from the `number`-th request for a path on."""

    def __init__(self, source: MeteredSource, path: str, number: int) -> None:
        self._source, self._path, self._number = source, path, number
        self.is_reached, self.is_over = asyncio.Event(), asyncio.Event()
        source.meanwhile = self._wait

    async def _wait(self) -> None:
        if self._source.requests[self._path] >= self._number:
            self.is_reached.set()
            await self.is_over.wait()


async def test_a_link_tells_how_far_its_copy_is_and_how_many_changes_are_left(
    pair: tuple[Node, Node],
) -> None:
    target, source = pair
    await write_some(source, "g", messages=4)
    async with metered(source) as way:
        copying = Halt(way, SNAPSHOT, 1)
        await follow(target, way)
        async with running(target):
            await copying.is_reached.wait()
            link_ = await shown(target)
            entities = (await source.get("/replication?count"))["entities"]
            assert link_["progress"] == {"copies": 0, "of": entities}
            copying.is_over.set()
            await link_is(target, "from", "current")
        copied = await shown(target)
        assert (copied.get("behind"), copied.get("progress")) == (0, None)
        # The handshake and the page that found nothing more are counted with a later batch.
        assert 0.5 * way.bytes < copied["bytes"] <= way.bytes
        assert 0 < copied["rate"] <= entities / 60 + 0.1

        for number in range(4):
            await source.put(f"/messagegroups/g/messages/m{number}", {"description": "changed"})
        # What is held back by transactions in other databases is left, but not read.
        left = len(await source.changes())
        way.page = 1
        following = Halt(way, CHANGES, way.requests[CHANGES] + 3)
        async with running(target):
            await following.is_reached.wait()
            behind = await shown(target)
            assert behind["state"] == "behind"
            assert 0 < behind["behind"] < left
            following.is_over.set()
            await link_is(target, "from", "current")
            await eventually(lambda: carries(target, source))
        after = await shown(target)
        assert after["behind"] == 0
        assert after["succeededat"] == max(after["currentat"], after["appliedat"])


async def test_only_those_who_ask_are_told_how_many_changes_are_left(
    pair: tuple[Node, Node],
) -> None:
    _, source = pair
    await write_some(source, "g")
    [*_, end] = await lines(source, SNAPSHOT)
    for number in range(3):
        await source.put(f"/messagegroups/h{number}")
    await source.changes()
    page = f"{CHANGES}?after={end['cursor']}&limit=1"
    [*_, last] = await lines(source, page)
    assert last.keys() == {"cursor"}
    [*_, last] = await lines(source, f"{page}&behind")
    assert last["behind"] >= 2
    [*_, last] = await lines(source, f"{CHANGES}?after={last['cursor']}&behind")
    assert last["behind"] == 0


async def test_a_link_counts_its_errors_by_class(pair: tuple[Node, Node]) -> None:
    target, source = pair
    await write_some(source, "g")
    async with metered(source) as way:
        await follow(target, way)
        later = {"Retry-After": "0"}
        way.refusals = [(503, {}), (403, {}), (429, later), (302, {"Location": "/"}), (500, {})]
        async with running(target):
            await link_is(target, "from", "current")
    assert await carries(target, source)
    link_ = await shown(target)
    least = {"faulty": 2, "forbidden": 1, "too_many": 1, "unusable": 1}
    assert {name: min(link_["errors"].get(name, 0), number) for name, number in least.items()} == (
        least
    )
    # Nothing listens any more.
    async with running(target):
        await link_is(target, "from", "waiting")
    assert (await shown(target))["errors"]["unreachable"] >= 1
    assert (await shown(target)).get("behind") is None


async def test_a_source_that_wants_fewer_requests_gets_fewer_and_all_arrives(
    pair: tuple[Node, Node],
) -> None:
    target, source = pair
    await source.put("/messagegroups/g")
    async with metered(source) as way:
        await follow(target, way)
        async with running(target):
            await link_is(target, "from", "current")
        for number in range(30):
            await source.put(f"/messagegroups/g/messages/m{number}")
        way.page, way.most_per_second = 1, 20
        way.forget()
        async with running(target):
            await eventually(lambda: carries(target, source))
            await link_is(target, "from", "current")
        assert way.slowed < way.requests[CHANGES] / 3
    link_ = await shown(target)
    assert (link_["failures"], link_.get("error")) == (0, None)


async def test_a_conflict_tells_its_advice(pair: tuple[Node, Node]) -> None:
    target, source = pair
    for node in pair:
        await node.put("/messagegroups/g")
    await link(target, source, id="from")
    async with running(target):
        await link_is(target, "from", "current")
    [conflict] = (await target.get("/replication/links/from/conflicts"))["conflicts"]
    assert conflict["verdict"] == "collided"
    assert "--prefix" in conflict["advice"]


@pytest.mark.parametrize("mode", ["accept", "push", "write", "walk"])
async def test_a_link_takes_the_commands_of_the_advice_of_its_conflicts(
    pair: tuple[Node, Node], mode: Mode
) -> None:
    node, _ = pair
    ends = {"target" if mode in ("push", "write") else "source": "http://127.0.0.1:1"}
    definition = LinkDefinition(mode=mode, **({} if mode == "accept" else ends))
    async with node.database.transaction() as connection:
        created = await create(connection, "eu", definition, "urn:other")
    assert created is not None
    advice = " ".join(advice_about(each.value, created, "/messagegroups/g") for each in Verdict)
    # Other commands of the advice are for the operator of the target.
    told = {*re.findall(r"`concord (link [^`]*)`", advice)}
    for command in (each for each in told if created.id in each.split()):
        words = command.replace("NAME-", "eu-").replace("PATH", "/messagegroups").split()
        taken = await concord(*words, CONCORD_URL=node.url)
        assert taken.exit_code == 0, taken.output


async def test_a_link_that_is_being_removed_says_so_to_who_adds_another(
    pair: tuple[Node, Node],
) -> None:
    node, _ = pair
    body = {"id": "eu", "source": "http://127.0.0.1:1", "mode": "pull", "authority": "urn:other"}
    assert (await node.send("POST", "/replication/links?force", body)).status == 201
    assert (await node.send("DELETE", "/replication/links/eu?drop")).status == 202

    again = await node.send("POST", "/replication/links?force", body)

    assert again.status == 400
    assert b"is being removed with its replicas" in again.body


async def test_the_history_of_a_link_is_bounded_by_number_and_by_age(node: Node) -> None:
    async with node.database.transaction() as connection:
        created = await create(connection, "eu", LinkDefinition(source="http://127.0.0.1:1"))
        assert created is not None
        now = created.currentat or (await connection.fetchval("SELECT now()"))
        for number in range(30):
            await remember(connection, created, now, "event", str(number))
        kept = await get_stored(connection, "eu")
        assert kept is not None
        assert [each["detail"] for each in kept.history] == [str(n) for n in range(29, 9, -1)]
        later = await connection.fetchval("SELECT now() + interval '91 days'")
        await remember(connection, created, later, "event", "later")
        kept = await get_stored(connection, "eu")
        assert kept is not None
        assert [each["detail"] for each in kept.history] == ["later"]
