"""Wherever a walk fails, and however, nothing is deleted that the server has."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from catalog.client import ClientError
from tests.integration.conftest import Node
from tests.integration.federation import start_member
from tests.integration.foreignserver import ForeignServer, fill, foreign_server
from tests.integration.walking import Walker, assert_equal, entities_of, replicas, walking

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUIET = settings(
    max_examples=25,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    deadline=None,
)
FAULTS = ["404", "429", "500", "absent", "circle", "counts", "cut", "empty", "text"]
WAYS: list[dict[str, Any]] = [
    {"flags": ["inline", "doc", "binary"]},
    {"flags": ["inline", "binary"], "pagination": True},
    {"flags": []},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    # The deletions of all examples count together.
    async with start_member(shared_database_url, link_delete_count=10_000) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def foreign() -> AsyncIterator[ForeignServer]:
    async with foreign_server() as server:
        fill(server, groups=2)
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def walker(node: Node, foreign: ForeignServer) -> AsyncIterator[Walker]:
    async with walking(node, foreign) as found:
        yield found


@QUIET
@given(
    way=st.sampled_from(WAYS),
    fault=st.sampled_from(FAULTS),
    at=st.integers(0, 12) | st.integers(0, 60),
    is_there=st.booleans(),
)
async def test_a_walk_that_fails_deletes_nothing_that_is_there(
    walker: Walker, foreign: ForeignServer, way: dict[str, Any], fault: str, at: int, is_there: bool
) -> None:
    foreign.capabilities, message = way, "/messagegroups/m0/messages/y1"
    if is_there:
        foreign.put_version(message, "1", name="again")
    elif message in entities_of(foreign):
        foreign.delete(message)
    before = await replicas(walker.node, foreign.url)
    await walker.begin_anew()
    foreign.number, foreign.fault, foreign.fault_at = 0, fault, at
    with contextlib.suppress(ClientError):
        await walker.walk()
    foreign.fault_at = -1
    after = await replicas(walker.node, foreign.url)
    assert set(before) & set(entities_of(foreign)) <= set(after)
    await walker.begin_anew()
    await walker.walk()
    await assert_equal(walker.node, foreign)
    assert await walker.conflicts() == {}
