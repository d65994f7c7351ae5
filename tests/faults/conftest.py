"""A PostgreSQL server of their own for the runs of these tests, since they kill it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.brokers.kafka import KafkaBroker, NoKafka, running_kafka
from tests.faults.databases import RunDatabases


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def databases(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunDatabases]:
    async with RunDatabases.start(tmp_path_factory.mktemp("postgresql")) as started:
        yield started


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker of their own, since these tests kill it."""
    try:
        with running_kafka(tmp_path_factory.mktemp("kafka")) as broker:
            yield broker
    except NoKafka as why:
        pytest.skip(str(why))
