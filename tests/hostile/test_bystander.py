"""A node that nobody attacks serves a client well: what attacks are compared with."""

from __future__ import annotations

import asyncio

from tests.e2e.nodes import NodeProcess
from tests.hostile.bystander import bystander


async def test_a_node_at_rest_serves_a_client(victim: NodeProcess) -> None:
    async with bystander(victim.url) as seen:
        await asyncio.sleep(1)  # the time in which nothing happens
    seen.assert_served()
