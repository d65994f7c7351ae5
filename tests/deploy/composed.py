"""The services of compose.yaml, started as processes of this machine.

There is no engine here: a service is its command with its variables, where the name of each other
service is replaced by the address of the process that stands for it, and what is mounted by where
it is. For Keycloak stands a provider with the same realm, clients, secrets and certificate.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from tests.brokers.oidcprovider import script_in
from tests.brokers.serverprocess import until_listening
from tests.deploy.files import DEPLOY, ROOT, read_yaml
from tests.deploy.prometheus import INTERVAL, Prometheus, answering
from tests.e2e.nodes import NodeProcess, free_port

COMPOSE = ROOT / "compose.yaml"
_REALM = Path(__file__).with_name("realm.mjs")
NODES = ("hub", "east", "west")
# What the image of a node runs: `concord` with the command of the service.
_PROGRAMS = Path(sys.executable).parent
_VARIABLE = re.compile(r"\$\{(\w+):\?([^}]+)\}")
# Directories of containers that volumes are mounted at.
_MOUNTED = re.compile(r"(?<![\w/])/(?=(?:certificates|prometheus|etc/prometheus)(?:/|$))")
# Of Spark's seconds of work, Java's second compiler would take some.
_FASTER = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1"}


def services() -> dict[str, dict[str, Any]]:
    """The services, with the secrets that secrets.sh has made in place of variables."""
    found: dict[str, dict[str, Any]] = _filled(read_yaml(COMPOSE)["services"], secrets())
    return found


@cache
def secrets() -> Mapping[str, str]:
    """The variables of a file that secrets.sh has made beside a copy of compose.yaml."""
    with TemporaryDirectory() as directory:
        copy_of_secrets(Path(directory))
        lines = Path(directory, ".env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def copy_of_secrets(directory: Path) -> None:
    """Run a copy of secrets.sh in a directory that has compose.yaml."""
    shutil.copy(COMPOSE, directory)
    script = directory / "deploy" / "compose" / "secrets.sh"
    script.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(DEPLOY / "compose" / "secrets.sh", script)
    subprocess.run(["sh", str(script)], check=True, capture_output=True)


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: variables[found[1]], value)
    if isinstance(value, list):
        return [_filled(each, variables) for each in value]
    if isinstance(value, dict):
        return {name: _filled(each, variables) for name, each in value.items()}
    return value


def _mounted(service: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is mounted, and where."""
    for each in service.get("volumes", ()):
        source, target = each.split(":")[:2]
        yield source, target


@dataclass(slots=True)
class Composed:
    """The addresses of the services on this machine."""

    directory: Path
    database_url: str
    ports: Mapping[str, int] = field(default_factory=lambda: {name: free_port() for name in NODES})
    provider_port: int = field(default_factory=free_port)

    def here(self, text: str) -> str:
        """A text of compose.yaml with the addresses and directories of here."""
        text = text.replace("https://keycloak:8443", f"https://localhost:{self.provider_port}")
        text = _MOUNTED.sub(f"{self.directory}/", text)
        for name, port in self.ports.items():
            text = text.replace(f"http://{name}:8080", f"http://127.0.0.1:{port}")
            text = text.replace(f"{name}:8080", f"127.0.0.1:{port}")
        if text.startswith("postgresql://"):
            return urlsplit(self.database_url)._replace(path=urlsplit(text).path).geturl()
        return text

    def environment(self, service: Mapping[str, Any]) -> dict[str, str]:
        """The variables of a service, and those of this machine that find programs."""
        given = {name: self.here(value) for name, value in service.get("environment", {}).items()}
        own = {
            "HOME": str(self.directory),
            "PATH": f"{_PROGRAMS}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.directory),
        }
        return own | _FASTER | given

    def node(self, name: str, token: str) -> NodeProcess:
        """A node that is not started yet, whose clients show a token."""
        service = services()[name]
        assert service["command"] == ["serve"], "that is what NodeProcess runs"
        data = self.directory / name
        data.mkdir()
        return NodeProcess(
            port=self.ports[name],
            environment={
                **self.environment(service),
                # The image listens on all addresses, at a port of its own.
                "CONCORD_HOST": "127.0.0.1",
                "CONCORD_PORT": str(self.ports[name]),
                "CONCORD_DATA_DIR": str(data),
            },
            log=data / "node.log",
            token=token,
        )

    @contextlib.asynccontextmanager
    async def provider(self) -> AsyncIterator[None]:
        """What stands for Keycloak, after the service that makes its certificate."""
        (self.directory / "certificates").mkdir()
        async with self.script("certificates") as making:
            assert await making.wait() == 0, (self.directory / "certificates.log").read_text()
        directory = self.directory / "provider"
        directory.mkdir()
        environment = self.environment(services()["keycloak"])
        certificate, key = (
            environment[f"KC_HTTPS_CERTIFICATE_{kind}FILE"] for kind in ("", "KEY_")
        )
        [realm] = [
            source
            for source, target in _mounted(services()["keycloak"])
            if target.startswith("/opt/keycloak/data/import/")
        ]
        arguments = (str(self.provider_port), str(ROOT / realm), certificate, key)
        process = await script_in(directory, _REALM, *arguments)
        process.environment = environment
        await process.start()
        try:
            await until_listening(self.provider_port)
            yield
        finally:
            await process.kill()

    async def token(self, name: str) -> str:
        """The token that a service gets by its variables."""
        [source] = [source for source, _ in _mounted(services()[name]) if "token" in source]
        getting = await asyncio.create_subprocess_exec(
            sys.executable,
            str(ROOT / source),
            env=self.environment(services()[name]),
            stdout=asyncio.subprocess.PIPE,
        )
        printed, _ = await getting.communicate()
        assert getting.returncode == 0
        return printed.decode().strip()

    def _mount(self, service: Mapping[str, Any]) -> None:
        """Make the files and directories of a service, with the addresses of here."""
        for source, target in _mounted(service):
            place = Path(self.here(target))
            if source.startswith("./"):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(self.here((ROOT / source).read_text().replace("15s", INTERVAL)))
            else:
                place.mkdir(exist_ok=True)

    @contextlib.asynccontextmanager
    async def prometheus(self) -> AsyncIterator[Prometheus]:
        """The service that scrapes the nodes, which does it sooner."""
        service = services()["prometheus"]
        self._mount(service)
        port = free_port()
        [command] = service["command"]
        arguments = [*service["entrypoint"], f"{command} --web.listen-address=127.0.0.1:{port}"]
        arguments = [self.here(each.replace("$$", "$")) for each in arguments]
        with (self.directory / "prometheus.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *arguments, env=self.environment(service), stdout=log, stderr=log
            )
        async with answering(process, f"http://127.0.0.1:{port}") as prometheus:
            yield prometheus

    @contextlib.asynccontextmanager
    async def script(self, name: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """A service whose entry point is a script, which ends with the context."""
        service = services()[name]
        shell, mounted = service["entrypoint"]
        [source] = [source for source, target in _mounted(service) if target == mounted]
        with (self.directory / f"{name}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                shell,
                str(ROOT / source),
                *map(self.here, service["command"]),
                cwd=self.directory,
                env=self.environment(service),
                stdout=log,
                stderr=log,
                # What it has started ends with it, as in a container.
                start_new_session=True,
            )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
