"""A real NATS server, with JetStream for what is tested."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.brokers.certificates import write_certificates
from tests.brokers.serverprocess import Runner, find_runner, until_listening
from tests.e2e.nodes import free_port

VARIABLE = "CONCORD_TEST_NATS_URL"
IMAGE = "nats:2"


class NatsServerProgram:
    """The server of one test.

    Args:
        directory: has its files.
        options: what is added to its configuration.
    """

    def __init__(self, directory: Path, options: Mapping[str, Any]) -> None:
        self._directory = directory
        self._options = options
        self._runner: Runner | None = None
        self._given = None if options else os.environ.get(VARIABLE)
        given = urlsplit(self._given or "nats://127.0.0.1")
        self.host = given.hostname or ""
        self.port = (given.port or 4222) if self._given else free_port()

    @property
    def url(self) -> str:
        return f"nats://{self.host}:{self.port}"

    async def start(self) -> None:
        if self._given:
            return
        if self._runner is None:
            self._runner = find_runner(
                "nats-server",
                "-c {directory}/nats.json",
                IMAGE,
                [self.port],
                self._directory,
                "nats-server",
            )
            configuration = {
                "listen": f"{self._runner.host}:{self.port}",
                "max_payload": 20_000,
                **self._options,
            }
            if "cluster" not in configuration:
                configuration["jetstream"] = {"store_dir": str(self._runner.directory)}
            text = json.dumps(configuration).replace("DIRECTORY", str(self._runner.directory))
            (self._directory / "nats.json").write_text(text)
        await self._runner.start()
        await until_listening(self.port)

    async def kill(self) -> None:
        if self._given:
            pytest.skip(f"needs a server that can be killed: unset {VARIABLE}")
        assert self._runner is not None
        await self._runner.kill()


@contextlib.asynccontextmanager
async def run_nats(directory: Path, **options: Any) -> AsyncIterator[NatsServerProgram]:
    """A server that has started, and that is killed in the end."""
    server = NatsServerProgram(directory, options)
    await server.start()
    try:
        yield server
    finally:
        if options or not os.environ.get(VARIABLE):
            await server.kill()


def tls_options(directory: Path) -> tuple[dict[str, Any], str]:
    """The options of a server with a certificate, and the certificate's authority in PEM."""
    authority = write_certificates(directory)
    files = {"cert_file": "DIRECTORY/server.pem", "key_file": "DIRECTORY/server.key"}
    return {"tls": files}, authority
