"""RabbitMQ with AMQP 1.0: the one that the environment names, one in a container, or a process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import pytest

from tests.brokers.certificates import write_certificates
from tests.conftest import has_engine
from tests.e2e.nodes import free_port

VARIABLE = "CONCORD_TEST_AMQP_URL"
USER, PASSWORD = "concord", "only-for-tests"

# 3.x has AMQP 1.0 as a plug-in, with the same addresses as Debian's.
_IMAGE = "rabbitmq:3.13"
_START_SECONDS = 60.0
_ATTEMPTS = 3
_MISSING = (
    f"no AMQP 1.0 server: set {VARIABLE}, or start a Docker engine, or install the server with: "
    "apt-get install rabbitmq-server"
)


class _Server(Protocol):
    """A server that can be killed and started again."""

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RabbitMq:
    """A running server.

    Args:
        tls_port: the port for TLS; `None` where there is none.
        authority: who signed its certificate, as PEM.
        server: what the tests have started; `None` if the environment names it.
    """

    host: str
    port: int
    user: str
    password: str
    tls_port: int | None = None
    authority: str = ""
    server: _Server | None = None

    async def kill(self) -> None:
        """End it at once."""
        assert self.server is not None
        await asyncio.to_thread(self.server.kill)

    async def start(self) -> None:
        """Start it again, with the durable queues that it had."""
        assert self.server is not None
        await asyncio.to_thread(self.server.start)
        await asyncio.to_thread(_wait_for, self.host, self.port)


@contextlib.contextmanager
def run_rabbitmq(directory: Path) -> Iterator[RabbitMq]:
    """A server that keeps its state in a directory, or a skip that says what to install."""
    if url := os.environ.get(VARIABLE):
        parts = urlsplit(url)
        yield RabbitMq(
            host=parts.hostname or "127.0.0.1",
            port=parts.port or 5672,
            user=unquote(parts.username or "guest"),
            password=unquote(parts.password or "guest"),
        )
        return
    rabbitmq = _start_anew(directory)
    assert rabbitmq.server is not None
    try:
        yield rabbitmq
    finally:
        rabbitmq.server.stop()


def _start_anew(directory: Path) -> RabbitMq:
    """Start a server on free ports, with other ones if somebody took one of them meanwhile."""
    for attempt in range(_ATTEMPTS):
        place = directory / str(attempt)
        place.mkdir()
        port, tls_port = free_port(), free_port()
        authority = write_certificates(place)
        make = _Container if has_engine() else _Process
        server: _Server = make(place, port, tls_port)
        server.start()
        try:
            _wait_for("127.0.0.1", port)
        except AssertionError:
            server.stop()
            if attempt + 1 == _ATTEMPTS:
                raise
            continue
        return RabbitMq(
            host="127.0.0.1",
            port=port,
            user=USER,
            password=PASSWORD,
            tls_port=tls_port,
            authority=authority,
            server=server,
        )
    raise AssertionError("the last attempt returns or raises")


def _settings(port: int, tls_port: int, directory: Path) -> str:
    lines = {
        "listeners.tcp.1": port,
        "listeners.ssl.1": tls_port,
        "ssl_options.certfile": directory / "server.pem",
        "ssl_options.keyfile": directory / "server.key",
        "ssl_options.verify": "verify_none",
        "default_user": USER,
        "default_pass": PASSWORD,
        "loopback_users": "none",
        "vm_memory_high_watermark.absolute": "256MB",
        "disk_free_limit.absolute": "1MB",
    }
    return "".join(f"{name} = {value}\n" for name, value in lines.items())


def _write_files(directory: Path, settings: str) -> None:
    (directory / "rabbitmq.conf").write_text(settings)
    (directory / "plugins").write_text("[rabbitmq_amqp1_0].\n")


class _Process:
    """Debian's server, with a port mapper of its own for Erlang's nodes."""

    def __init__(self, directory: Path, port: int, tls_port: int) -> None:
        self._script = _find_script()
        self._log = directory / "rabbitmq.log"
        self._directory = directory
        self._epmd_port = free_port()
        self._environment = _environment(directory, self._epmd_port)
        self._processes: list[subprocess.Popen[bytes]] = []
        _write_files(directory, _settings(port, tls_port, directory))

    def start(self) -> None:
        with self._log.open("ab") as log:
            for command in (
                ["epmd", "-address", "127.0.0.1", "-port", str(self._epmd_port)],
                [self._script],
            ):
                self._processes.append(
                    subprocess.Popen(
                        command,
                        cwd=self._directory,
                        env={**self._environment},
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )
                if command[0] == "epmd":
                    _wait_for("127.0.0.1", self._epmd_port)

    def kill(self) -> None:
        for process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._processes.clear()

    stop = kill


def _find_script() -> str:
    # Debian's wrapper in PATH runs the server as another user, who has no directory of ours.
    script = shutil.which("rabbitmq-server", path="/usr/lib/rabbitmq/bin") or shutil.which(
        "rabbitmq-server"
    )
    if script is None or shutil.which("epmd") is None:
        pytest.skip(_MISSING)
    return script


def _environment(directory: Path, epmd_port: int) -> Mapping[str, str]:
    return {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(directory),  # where Erlang keeps its cookie
        "LANG": "C.UTF-8",
        "ERL_EPMD_PORT": str(epmd_port),
        "RABBITMQ_NODENAME": f"concord-{free_port()}@localhost",
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(directory / "data"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
        # One thread that runs Erlang: the machine is for others, too.
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1",
    }


class _Container:
    """A server in a container, whose ports on the host stay the same."""

    def __init__(self, directory: Path, port: int, tls_port: int) -> None:
        # Imported here, as it looks for an engine at once.
        from testcontainers.core.container import DockerContainer

        (directory / "server.key").chmod(0o644)
        _write_files(directory, _settings(5672, 5671, Path("/tests")))
        self._container: Any = (
            DockerContainer(_IMAGE)
            .with_bind_ports(5672, port)
            .with_bind_ports(5671, tls_port)
            .with_volume_mapping(str(directory), "/tests")
            .with_env("RABBITMQ_CONFIG_FILE", "/tests/rabbitmq.conf")
            .with_env("RABBITMQ_ENABLED_PLUGINS_FILE", "/tests/plugins")
        )
        self._is_made = False

    def start(self) -> None:
        if self._is_made:
            self._container.get_wrapped_container().start()
            return
        from docker.errors import DockerException

        try:
            self._container.start()
        except DockerException:
            pytest.skip(_MISSING)
        self._is_made = True

    def kill(self) -> None:
        self._container.get_wrapped_container().kill()

    def stop(self) -> None:
        self._container.stop()


def _wait_for(host: str, port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not _answers(host, port):
        assert time.monotonic() < deadline, f"no server answers at {host}:{port}"
        time.sleep(0.05)  # between two looks: nobody can be asked to tell


def _answers(host: str, port: int) -> bool:
    """Whether a server listens; the proxy of a container that does not yet closes at once."""
    try:
        with socket.create_connection((host, port), timeout=5) as probe:
            probe.settimeout(0.2)
            return bool(probe.recv(1))
    except TimeoutError:
        return True
    except OSError:
        return False
