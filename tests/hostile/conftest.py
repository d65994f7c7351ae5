"""A node in a process of its own, whose memory can be measured, for attacks."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from tests.e2e.nodes import NodeProcess, node_at, running

StartNode = Callable[..., contextlib.AbstractAsyncContextManager[NodeProcess]]


@pytest.fixture
def start_victim(tmp_path: Path, database_url: str) -> StartNode:
    """Starts the node that is attacked, with the given settings and a database of its own.

    `descriptors` is how many files it may open.
    """

    @contextlib.asynccontextmanager
    async def start(
        *, descriptors: int | None = None, **settings: str
    ) -> AsyncIterator[NodeProcess]:
        node = node_at(tmp_path, CONCORD_DATABASE_URL=database_url, **settings)
        node.descriptors = descriptors
        async with running(node):
            yield node

    return start


@pytest.fixture
async def victim(start_victim: StartNode) -> AsyncIterator[NodeProcess]:
    """The node that is attacked, with the settings that a node has by default."""
    async with start_victim() as node:
        yield node


def memory_of(node: NodeProcess) -> int:
    """The resident bytes of a node's process, without those that check documents."""
    assert node.process is not None
    return int(psutil.Process(node.process.pid).memory_info().rss)


def peak_memory_of(node: NodeProcess) -> int:
    """The most bytes that a node's process has ever had resident (proc(5), `VmHWM`)."""
    assert node.process is not None
    status = Path(f"/proc/{node.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
