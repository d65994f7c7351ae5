"""A node that delivers, for the tests of sinks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from catalog.subscriptions.delivery.dispatcher import run_deliveries
from tests.integration.conftest import Node, start_node


@pytest.fixture
async def node(database_url: str) -> AsyncIterator[Node]:
    async with start_node(
        database_url,
        allow_private_addresses=True,
        backoff_initial_seconds=0.05,
        backoff_cap_seconds=0.2,
    ) as node:
        delivering = asyncio.create_task(run_deliveries(node.context))
        yield node
        delivering.cancel()
        await asyncio.wait([delivering])
