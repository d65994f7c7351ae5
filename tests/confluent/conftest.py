"""A node whose Confluent API all tests of this folder share, and topics for each of them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from tests.brokers.kafka import KafkaBroker
from tests.confluent.topics import Topic, opened_registry
from tests.e2e.nodes import node_at


@pytest.fixture(scope="session")
def registry_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What users write as `schema.registry.url`."""
    directory = tmp_path_factory.mktemp("registry")
    directory.chmod(0o711)  # the embedded server runs under another account if root runs tests
    node = node_at(directory)
    with asyncio.Runner() as runner:
        try:
            runner.run(node.start())
            yield f"{node.url}/confluent"
        finally:
            runner.run(node.end(signal.SIGTERM))


@pytest.fixture
def registry(registry_url: str) -> Iterator[SchemaRegistryClient]:
    """Confluent's client, which remembers nothing of former tests."""
    with opened_registry(registry_url) as client:
        yield client


@pytest.fixture
def topic(kafka: KafkaBroker, request: pytest.FixtureRequest) -> Topic:
    """A topic that is named after the test."""
    return Topic.create(kafka.address, request.node.name)
