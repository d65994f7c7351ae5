"""Thousands of readers that wait for changes do not slow down those who make them."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator

import pytest

from tests.e2e.nodes import NodeProcess
from tests.hostile.bystander import bystander
from tests.hostile.conftest import StartNode
from tests.hostile.longpolls import long_polls


@pytest.fixture(autouse=True)
def _descriptors() -> Iterator[None]:
    """As many as this test, the node and the readers may open."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


async def test_a_thousand_readers_wait_for_each_write(victim: NodeProcess) -> None:
    """Without bounds, 3,000 of them left 2 PUTs in 20 seconds, and GETs took 15 seconds."""
    async with (
        long_polls(victim.url, 1000, addresses=10) as polls,
        bystander(victim.url) as seen,
    ):
        await asyncio.sleep(5)  # the time in which changes are made
    assert set(polls.statuses) == {"200"}, polls
    assert polls.brought > 100, "the readers get the changes"
    seen.assert_served(seconds=2.0)


async def test_readers_that_wait_are_told_their_limit(start_victim: StartNode) -> None:
    async with (
        start_victim(CONCORD_LONG_POLLS="100") as node,
        long_polls(node.url, 30, addresses=1) as polls,
    ):
        await asyncio.sleep(2)  # the time in which they ask again
    assert polls.statuses["429"] >= 20, polls
