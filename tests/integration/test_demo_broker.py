"""The broker of the demo: Apache Kafka's own jars in a process of it."""

from __future__ import annotations

import base64
import uuid
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from catalog.demo import kafkabroker
from tests.brokers.kafkajars import NoJars, kafka_jars

pytestmark = pytest.mark.slow


async def test_the_broker_starts_whatever_its_random_id_begins_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        kafka_jars()
    except NoJars as why:
        pytest.skip(f"Kafka's jars are missing: {why}")
    hyphen = uuid.UUID(bytes=base64.urlsafe_b64decode("-2SajVHGSX6v9mCl8H5rrQ=="))
    monkeypatch.setattr(uuid, "uuid4", lambda: hyphen)

    async with kafkabroker.open_broker(None, tmp_path / "kafka") as address:
        client = AIOKafkaAdminClient(bootstrap_servers=address)
        await client.start()
        try:
            assert await client.list_topics() == []
        finally:
            await client.close()
