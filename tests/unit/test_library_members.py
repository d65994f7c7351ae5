"""The private members of libraries that bounds need: pyproject.toml admits no other editions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import nats.aio.client
import paho.mqtt.client
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection, ScramAuthenticator
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.producer.sender import Sender


@pytest.mark.parametrize(
    ("method", "name"),
    [
        (AIOKafkaClient.bootstrap, "create_conn"),
        (AIOKafkaClient._get_conn, "create_conn"),
        (AIOKafkaClient._metadata_update, "MetadataRequest"),
        (Fetcher._proc_fetch_request, "MemoryRecords"),
    ],
)
def test_a_method_uses_the_global_name_that_is_replaced(
    method: Callable[..., object], name: str
) -> None:
    assert name in method.__code__.co_names


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (AIOKafkaConnection, ("_read", "_handle_frame", "authenticator_scram")),
        (ScramAuthenticator, ("create_salted_password",)),
        (Sender, ("close",)),
        (paho.mqtt.client.Client, ("_sock_recv", "_packet_handle")),
        (nats.aio.client.Client(), ("_transport", "_server_info")),
    ],
)
def test_a_member_is_there(owner: object, names: tuple[str, ...]) -> None:
    assert [name for name in names if not hasattr(owner, name)] == []


async def test_clients_of_kafka_have_their_members() -> None:
    consumer, producer = AIOKafkaConsumer(), AIOKafkaProducer()
    admin = AIOKafkaAdminClient()
    for client in (consumer._client, producer.client, admin._client):
        assert hasattr(client, "_sync_task")
        assert hasattr(client, "_md_update_fut")
    assert hasattr(producer, "_sender")
    assert hasattr(producer, "_closed")
    await asyncio.gather(consumer.stop(), producer.stop(), admin.close())
