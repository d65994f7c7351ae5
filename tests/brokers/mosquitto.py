"""A real MQTT server: mosquitto, with listeners for what is tested."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.brokers.certificates import write_certificates
from tests.brokers.serverprocess import Runner, find_runner, until_listening
from tests.e2e.nodes import free_port

VARIABLE = "CONCORD_TEST_MQTT_URL"
IMAGE = "eclipse-mosquitto:2"
USER, PASSWORD = "concord", "a secret"

# Everything is written down at once, so that what was acknowledged outlives a kill.
_CONFIGURATION = """\
user root
persistence true
persistence_location {directory}/
autosave_on_changes true
autosave_interval 1
max_inflight_messages 0
max_queued_messages 0
max_packet_size {packet_bytes}
per_listener_settings true

listener {port} {host}
allow_anonymous true

listener {guarded_port} {host}
allow_anonymous false
password_file {directory}/passwords
acl_file {directory}/acl

listener {tls_port} {host}
allow_anonymous true
certfile {directory}/server.pem
keyfile {directory}/server.key
"""


class Mosquitto:
    """The server of one test."""

    packet_bytes = 20_000

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._runner: Runner | None = None
        self._given = os.environ.get(VARIABLE)
        given = urlsplit(self._given or "mqtt://127.0.0.1")
        self.host = given.hostname or ""
        self.port = (given.port or 1883) if self._given else free_port()
        self.guarded_port, self.tls_port = free_port(), free_port()
        self.authority = write_certificates(directory)

    @property
    def url(self) -> str:
        return f"mqtt://{self.host}:{self.port}"

    @property
    def guarded_url(self) -> str:
        """The address at which `USER` may publish to topics that begin with `allowed/`."""
        self._needs_own("asks for passwords")
        return f"mqtt://{self.host}:{self.guarded_port}"

    @property
    def tls_url(self) -> str:
        self._needs_own("has a certificate of the test")
        return f"mqtts://localhost:{self.tls_port}"

    async def start(self) -> None:
        if self._given:
            return
        ports = self.port, self.guarded_port, self.tls_port
        if self._runner is None:
            self._runner = find_runner(
                "mosquitto",
                "-c {directory}/mosquitto.conf",
                IMAGE,
                ports,
                self._directory,
                "mosquitto",
            )
            self._configure(self._runner)
        await self._runner.start()
        for port in ports:
            await until_listening(port)

    async def kill(self) -> None:
        self._needs_own("can be killed")
        assert self._runner is not None
        await self._runner.kill()

    def _needs_own(self, what: str) -> None:
        if self._given:
            pytest.skip(f"needs a server that {what}: unset {VARIABLE}")

    def _configure(self, runner: Runner) -> None:
        text = _CONFIGURATION.format(
            directory=runner.directory,
            host=runner.host,
            port=self.port,
            guarded_port=self.guarded_port,
            tls_port=self.tls_port,
            packet_bytes=self.packet_bytes,
        )
        (self._directory / "mosquitto.conf").write_text(text)
        (self._directory / "passwords").write_text(f"{USER}:{_hashed(PASSWORD)}\n")
        (self._directory / "acl").write_text(f"user {USER}\ntopic write allowed/#\n")


def _hashed(password: str) -> str:
    """A password as mosquitto's password files have it."""
    salt, rounds = os.urandom(12), 101
    found = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, rounds)
    return f"$7${rounds}${base64.b64encode(salt).decode()}${base64.b64encode(found).decode()}"


@contextlib.asynccontextmanager
async def run_mosquitto(directory: Path) -> AsyncIterator[Mosquitto]:
    """A server that has started, and that is killed in the end."""
    server = Mosquitto(directory)
    await server.start()
    try:
        yield server
    finally:
        if not os.environ.get(VARIABLE):
            await server.kill()
