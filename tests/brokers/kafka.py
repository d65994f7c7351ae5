"""A Kafka broker for tests: the one that the environment names, else one in a container where a
Docker engine answers, else Apache Kafka's own jars."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import signal
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError
from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka_event
from cloudevents.core.v1.event import CloudEvent

from tests.brokers.kafkajars import VERSION, NoJars, java, kafka_jars
from tests.brokers.tlsfiles import write_keystore
from tests.conftest import has_engine
from tests.e2e.nodes import free_port

# It would tell of each attempt to connect to a broker that is starting.
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)

VARIABLE = "CONCORD_TEST_KAFKA"
IMAGE = f"apache/kafka:{VERSION}"
USER, PASSWORD = "bob", "s3cret-of-bob"
# One JVM of 256 MB takes about 280 MB.
_FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_START_SECONDS = 90
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_TOKEN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
# The listeners, each with its security; the last one is for the controller alone. That at
# `ELSEWHERE` tells its clients to go on at another address.
_LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "ELSEWHERE": "PLAINTEXT",
    "SASL": "SASL_PLAINTEXT",
    "TLS": "SSL",
    "TOKENS": "SASL_SSL",
    "CONTROLLER": "PLAINTEXT",
}
ELSEWHERE = "127.0.0.2"


class NoKafka(Exception):
    """No broker can be had; the text says what to install."""


class _Server(Protocol):
    """Something that runs a broker in a directory."""

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def freeze(self, is_frozen: bool) -> None: ...

    def close(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class KafkaBroker:
    """A running broker, and clients of it that are not the node's.

    Args:
        address: the host and port where clients need no credential.
        sasl: where they prove a password, by PLAIN or SCRAM.
        tls: where they use TLS.
        tokens: where they use TLS and a token.
        elsewhere: where they are told to go on at `ELSEWHERE`.
        authority: the certificate in PEM that signs the broker's.
    """

    address: str
    sasl: str = ""
    tls: str = ""
    tokens: str = ""
    elsewhere: str = ""
    authority: str = ""
    server: _Server | None = field(default=None, repr=False)

    def subscription(self, topic: str, contentmode: str) -> dict[str, Any]:
        """The body that subscribes to all changes of groups, sent to a topic."""
        return {
            "protocol": "KAFKA",
            "sink": f"kafka://{self.address}/{topic}",
            "protocolsettings": {"contentmode": contentmode},
            "filters": [{"prefix": {"type": "io.xregistry.group."}}],
        }

    async def read(self, topic: str, count: int) -> Sequence[CloudEvent]:
        """All events that a topic has got so far, at least `count`, as the SDK reads them."""
        records = await self.records(topic, count)
        return [
            from_kafka_event(KafkaMessage(dict(each.headers), each.key, each.value))
            for each in records
        ]

    async def records(self, topic: str, count: int) -> list[Any]:
        """All records of a topic, at least `count`, by partition and offset."""
        found: list[Any] = []
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=self.address, auto_offset_reset="earliest"
        )
        async with asyncio.timeout(60), consumer:
            while len(found) < count or await _has_more(consumer):
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    found += records
        return sorted(found, key=lambda each: (each.partition, each.offset))

    async def create_topic(self, name: str, **config: str) -> None:
        """Create a topic of four partitions with settings of its own."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.address)
        await admin.start()
        try:
            settings = {key.replace("_", "."): value for key, value in config.items()}
            topic = NewTopic(name, num_partitions=4, replication_factor=1, topic_configs=settings)
            await admin.create_topics([topic])
        finally:
            await admin.close()

    async def kill(self) -> None:
        """End the broker at once, as `kill -9` does."""
        assert self.server is not None, "it is the test's own"
        await asyncio.to_thread(self.server.kill)

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """Keep the broker from answering for a while; it does not notice."""
        assert self.server is not None, "it is the test's own"
        await asyncio.to_thread(self.server.freeze, True)
        try:
            yield
        finally:
            await asyncio.to_thread(self.server.freeze, False)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with all that is in it."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.address)
        await admin.start()
        try:
            await admin.delete_topics([name])
        finally:
            await admin.close()

    async def start(self) -> None:
        """Start the broker again at the same ports."""
        assert self.server is not None, "it is the test's own"
        await asyncio.to_thread(self.server.start)
        await self.until_ready()

    async def until_ready(self) -> None:
        """Wait until the broker gives a producer its number."""
        async with asyncio.timeout(_START_SECONDS):
            while True:
                probe = AIOKafkaProducer(bootstrap_servers=self.address, enable_idempotence=True)
                try:
                    await probe.start()
                except (KafkaError, OSError):
                    await asyncio.sleep(0.1)  # before the next attempt to connect
                else:
                    return
                finally:
                    await probe.stop()


async def _has_more(consumer: AIOKafkaConsumer) -> bool:
    ends = await consumer.end_offsets(consumer.assignment())
    return any([await consumer.position(each) < end for each, end in ends.items()])


@contextmanager
def running_kafka(directory: Path) -> Iterator[KafkaBroker]:
    """A broker whose data is in a directory.

    Raises:
        NoKafka: there is none, and none can be started.
    """
    if given := os.environ.get(VARIABLE):
        yield KafkaBroker(address=given)
        return
    ports = {name: free_port() for name in _LISTENERS}
    authority = write_keystore(directory / "keystore.pem")
    server = _container(directory, ports) or _process(directory, ports)
    broker = KafkaBroker(
        **{
            name: f"127.0.0.1:{ports[listener]}"
            for name, listener in (
                ("address", "PLAINTEXT"),
                ("elsewhere", "ELSEWHERE"),
                ("sasl", "SASL"),
                ("tls", "TLS"),
                ("tokens", "TOKENS"),
            )
        },
        authority=authority,
        server=server,
    )
    try:
        asyncio.run(broker.start())
        yield broker
    finally:
        server.close()


def _process(directory: Path, ports: dict[str, int]) -> _Process:
    try:
        command = [java(), *_FLAGS, "-cp", f"{kafka_jars()}/*"]
    except NoJars as why:
        raise NoKafka(
            f"No Kafka broker: {why}. Set {VARIABLE}=HOST:PORT, or start a Docker engine, or "
            'install the package with its extra "spark" and be online once.'
        ) from None
    properties = _write_properties(directory, ports, directory, listens_at="127.0.0.1")
    return _Process(command, properties)


class _Process:
    """Kafka's own jars in a process."""

    def __init__(self, command: list[str], properties: Path) -> None:
        self._command = command
        self._properties = properties
        self._running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if not (self._properties.parent / "data").exists():
            subprocess.run(
                [*self._command, *_format(str(self._properties))],
                check=True,
                capture_output=True,
            )
        with (self._properties.parent / "broker.log").open("ab") as log:
            self._running = subprocess.Popen(
                [*self._command, "kafka.Kafka", str(self._properties)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def kill(self) -> None:
        assert self._running is not None, "it was started"
        self._running.kill()
        self._running.wait()

    def freeze(self, is_frozen: bool) -> None:
        assert self._running is not None, "it was started"
        if not is_frozen:
            self._running.send_signal(signal.SIGCONT)
            return
        self._running.send_signal(signal.SIGSTOP)
        # Threads that have yet to stop would still answer a request or two.
        os.waitid(os.P_PID, self._running.pid, os.WSTOPPED)

    def close(self) -> None:
        if self._running is not None:
            self.kill()


def _container(directory: Path, ports: dict[str, int]) -> _Container | None:
    """A broker in a container; `None` where no engine answers or has the image."""
    if not has_engine():
        return None
    # Imported here, as it looks for an engine at once.
    from docker.errors import DockerException
    from testcontainers.core.container import DockerContainer

    _write_properties(directory, ports, Path("/config"), listens_at="")
    begin = f"/opt/kafka/bin/kafka-storage.sh {' '.join(_format('/config/server.properties')[1:])}"
    serve = "exec /opt/kafka/bin/kafka-server-start.sh /config/server.properties"
    container = (
        DockerContainer(IMAGE, user="0", entrypoint=["sh", "-c"])
        .with_command([f"[ -e /config/data ] || {begin}; {serve}"])
        .with_volume_mapping(str(directory), "/config", "rw")
        .with_env("KAFKA_HEAP_OPTS", _FLAGS[0])
    )
    for port in ports.values():
        container.with_bind_ports(port, port)
    try:
        container.start()
    except DockerException:
        return None
    return _Container(container)


class _Container:
    """The same broker in a container, which keeps its data when it is killed."""

    def __init__(self, container: Any) -> None:
        self._container = container

    def start(self) -> None:
        self._container.get_wrapped_container().start()

    def kill(self) -> None:
        self._container.get_wrapped_container().kill()

    def freeze(self, is_frozen: bool) -> None:
        container = self._container.get_wrapped_container()
        container.pause() if is_frozen else container.unpause()

    def close(self) -> None:
        self._container.stop()


def _format(properties: str) -> list[str]:
    """The arguments that make the broker's directory, with a user for SCRAM."""
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    users = [
        argument
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for argument in ("--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]")
    ]
    # One argument: an id that begins with a hyphen is an option if it stands alone.
    arguments = ["--standalone", f"--cluster-id={cluster}", "--config", properties]
    return ["kafka.tools.StorageTool", "format", *arguments, *users]


def _write_properties(
    directory: Path, ports: dict[str, int], seen_at: Path, *, listens_at: str
) -> Path:
    """Write the broker's settings.

    Args:
        directory: where they are written to.
        ports: the port of each listener.
        seen_at: where the broker has the directory.
        listens_at: its address, or nothing for all addresses of its machine.
    """
    listens = dict.fromkeys(ports, listens_at) | {"ELSEWHERE": ""}
    advertised = dict.fromkeys(ports, "127.0.0.1") | {"ELSEWHERE": ELSEWHERE}
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{ports['CONTROLLER']}",
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(f"{name}://{listens[name]}:{port}" for name, port in ports.items()),
        "advertised.listeners": ",".join(
            f"{name}://{advertised[name]}:{port}" for name, port in ports.items()
        ),
        "listener.security.protocol.map": ",".join(f"{n}:{s}" for n, s in _LISTENERS.items()),
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl.plain.sasl.jaas.config": (
            f'{_PLAIN_MODULE} required user_{USER}="{PASSWORD}";'
        ),
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{_SCRAM_MODULE} required;",
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{_SCRAM_MODULE} required;",
        "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.tokens.oauthbearer.sasl.jaas.config": f"{_TOKEN_MODULE} required;",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": f"{seen_at}/keystore.pem",
        "num.partitions": "4",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "log.dirs": f"{seen_at}/data",
    }
    path = directory / "server.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return path
