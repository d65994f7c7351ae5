"""Whatever bytes come as a credential, nobody is let in and nothing fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog.access.authentication import AUTHENTICATION
from catalog.load.limiter import Rate
from tests.integration.conftest import Node, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

VALUES = st.binary(max_size=300) | st.binary(max_size=90).map(lambda b: b"Bearer concord_" + b)
ENDS = st.sampled_from([b"\r\n", b"\n", b"\r\n\r\n", b"\r\n ", b"\r\nAuthorization: ", b"\0"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    unlimited = {"address_requests_per_second": 0}
    async with start_node(shared_database_url, open=False, **unlimited) as running:
        running.client.app[AUTHENTICATION].wrong = Rate(1e6, 1e6)
        yield running


@settings(max_examples=100, suppress_health_check=[*HealthCheck])
@given(values=st.lists(VALUES | ENDS, max_size=4))
async def test_any_bytes_in_the_header_are_refused(node: Node, values: list[bytes]) -> None:
    reader, writer = await asyncio.open_connection(node.client.host, node.client.port)
    head = b"GET /messagegroups HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    writer.write(head + b"Authorization: " + b"".join(values) + b"\r\n\r\n")
    try:
        status = await reader.readline()
    finally:
        writer.close()
    assert status.split()[1] in (b"400", b"401"), status
