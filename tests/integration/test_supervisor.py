"""Deliveries and links stop at once and cleanly, even when one of them fails meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from structlog.testing import capture_logs

from catalog.context import Context
from catalog.model.errors import ServerBusy
from catalog.subscriptions.delivery.dispatcher import run_deliveries
from catalog.subscriptions.delivery.subscriptiondelivery import Delivery
from replication.links.linkrunner import LinkRunner
from replication.scheduler import run_links
from tests.integration.conftest import Node
from tests.integration.federation import start_member

Loop = Callable[[Context], Coroutine[Any, Any, None]]

LOOPS = [
    pytest.param(run_deliveries, Delivery, id="deliveries"),
    pytest.param(run_links, LinkRunner, id="links"),
]


@pytest.fixture
async def node(database_url: str) -> AsyncIterator[Node]:
    """A node with one subscription and one link."""
    async with start_member(database_url, allow_private_addresses=True) as node:
        sink = {"sink": "http://127.0.0.1:9/", "protocol": "HTTP"}
        assert (await node.send("POST", "/subscriptions", sink)).status == 201
        source = {"source": "http://127.0.0.1:9"}
        assert (await node.send("POST", "/replication/links?force", source)).status == 201
        yield node


@pytest.mark.parametrize(("loop", "child"), LOOPS)
async def test_a_child_that_fails_while_its_loop_is_shut_down_does_not_keep_it_alive(
    loop: Loop, child: type, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = asyncio.Event()

    async def fail_when_cancelled(_: object) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("this child failed at the end")

    monkeypatch.setattr(child, "run", fail_when_cancelled)
    with capture_logs() as logged:
        task = asyncio.create_task(loop(node.context))
        async with asyncio.timeout(10):
            await started.wait()
        task.cancel()
        await asyncio.wait([task], timeout=5)
        assert task.done()
        assert task.cancelled()
    assert [entry for entry in logged if is_about(entry, "this child failed at the end")]


@pytest.mark.parametrize(("loop", "child"), LOOPS)
async def test_a_child_that_fails_is_logged_and_started_again(
    loop: Loop, child: type, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = asyncio.Queue[None]()

    async def fail(_: object) -> None:
        starts.put_nowait(None)
        raise RuntimeError("this child failed")

    monkeypatch.setattr(child, "run", fail)
    with capture_logs() as logged:
        task = asyncio.create_task(loop(node.context))
        async with asyncio.timeout(20):
            await starts.get()
            await starts.get()
        task.cancel()
        await asyncio.wait([task], timeout=5)
        assert task.cancelled()
    assert [entry for entry in logged if is_about(entry, "this child failed")]


def is_about(entry: Any, text: str) -> bool:
    """Whether a line of the log has an error with this text."""
    error = entry.get("exc_info")
    return isinstance(error, BaseException) and text in leaves(error)


def leaves(error: BaseException) -> list[str]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in leaves(each)]
    return [str(error)]


async def test_a_loop_that_met_a_failure_of_the_database_while_it_was_cancelled_ends(
    node: Node,
) -> None:
    """Its `finally` saves what it can, so the failure takes the place of the cancellation."""
    database, started = node.context.database, asyncio.Event()

    async def save_in_the_end() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ServerBusy("/")

    async def loop() -> None:
        while True:
            try:
                await save_in_the_end()
            except ServerBusy:
                await database.recovered()

    task = asyncio.create_task(loop())
    await started.wait()
    task.cancel()
    await asyncio.wait([task], timeout=5)
    assert task.cancelled()
