"""A PostgreSQL server of their own for the runs of these tests, since they kill it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.faults.databases import RunDatabases


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def databases(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunDatabases]:
    async with RunDatabases.start(tmp_path_factory.mktemp("postgresql")) as started:
        yield started
