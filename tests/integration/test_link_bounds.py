"""Batches of links make room for other writes, and for nobody where nobody waits."""

from __future__ import annotations

import asyncio

from catalog.store.locks import Touched, is_awaited, lock_and_load
from replication.peers.linkbounds import LinkGate
from tests.integration.conftest import Node
from tests.integration.federation import eventually

_TAKEN = 0.05


async def test_a_transaction_knows_whether_another_waits_for_it(node: Node) -> None:
    everything = Touched(catalog_exclusive=True)
    async with node.database.transaction() as connection:
        await lock_and_load(connection, everything)
        assert not await is_awaited(connection)
        writing = asyncio.create_task(node.put("/messagegroups/g"))
        async with asyncio.timeout(10):
            await eventually(lambda: is_awaited(connection))
    assert (await writing)["messagegroupid"] == "g"


async def _seconds_of_a_turn(*, has_delayed: bool) -> float:
    gate, loop = LinkGate(0.25), asyncio.get_running_loop()
    begun = loop.time()
    async with gate.turn(is_bulk=True) as turn:
        await asyncio.sleep(_TAKEN)  # the time that the batch takes
        turn.has_delayed = has_delayed
    return loop.time() - begun


async def test_links_pause_only_after_a_batch_that_others_waited_for() -> None:
    assert await _seconds_of_a_turn(has_delayed=True) >= 3.9 * _TAKEN
    fastest = min([await _seconds_of_a_turn(has_delayed=False) for _ in range(3)])
    assert fastest < 3.9 * _TAKEN


async def test_bulk_batches_come_one_at_a_time_and_others_a_few() -> None:
    gate = LinkGate(0.5)
    for is_bulk, most in ((True, 1), (False, 3)):
        running = [0]

        async def take(is_bulk: bool = is_bulk, running: list[int] = running) -> None:
            async with gate.turn(is_bulk=is_bulk):
                running.append(running[-1] + 1)
                await asyncio.sleep(0)  # the others have a turn
                running.append(running[-1] - 1)

        await asyncio.gather(*(take() for _ in range(8)))
        assert max(running) == most
