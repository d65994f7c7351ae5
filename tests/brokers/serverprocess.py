"""A server that tests start, kill and start again at the same ports."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.conftest import has_engine

_START_SECONDS = 60


class Runner(Protocol):
    """The way in which a server runs.

    `directory` is where the server finds the files of the test's directory, and `host` the
    address that it listens on.
    """

    directory: Path
    host: str

    async def start(self) -> None: ...
    async def kill(self) -> None: ...


@dataclass
class Program:
    """A program of this machine."""

    path: str
    arguments: Sequence[str]
    directory: Path
    host: str = "127.0.0.1"
    environment: Mapping[str, str] | None = None  # that of this process unless given
    _process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with (self.directory / "server.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                self.path,
                *self.arguments,
                cwd=self.directory,
                env=self.environment,
                stdout=log,
                stderr=log,
            )

    async def kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


@dataclass
class Container:
    """A container of a Docker engine, with the test's directory mounted."""

    image: str
    command: str
    ports: Sequence[int]
    mounted: Path
    directory: Path = Path("/concord")
    host: str = "0.0.0.0"
    _container: Any = field(default=None, init=False)

    async def start(self) -> None:
        if self._container is not None:
            await asyncio.to_thread(self._container.get_wrapped_container().start)
            return
        # Imported here, as it looks for an engine at once.
        from testcontainers.core.container import DockerContainer

        container = DockerContainer(self.image).with_command(self.command)
        container.with_volume_mapping(str(self.mounted), str(self.directory), "rw")
        for port in self.ports:
            container.with_bind_ports(port, port)
        self._container = container
        await asyncio.to_thread(container.start)

    async def kill(self) -> None:
        await asyncio.to_thread(self._container.get_wrapped_container().kill)


def find_runner(
    program: str, arguments: str, image: str, ports: Sequence[int], directory: Path, package: str
) -> Runner:
    """A container where a Docker engine answers, else the program, else the test is skipped.

    Args:
        arguments: those of the program, with `{directory}` for the place of its files.
    """
    if has_engine():
        mounted = Container(image, "", ports, directory)
        mounted.command = f"{program} {arguments.format(directory=mounted.directory)}"
        return mounted
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        pytest.skip(f"{program} is missing: install it with apt-get install {package}")
    return Program(path, arguments.format(directory=directory).split(), directory)


async def until_listening(port: int) -> None:
    """Wait until a server accepts connections on a port of loopback.

    Raises:
        TimeoutError: no server has done so for a minute.
    """
    try:
        async with asyncio.timeout(_START_SECONDS):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.02)  # between two attempts
                else:
                    writer.close()
                    return
    except TimeoutError:
        raise TimeoutError(f"no server listens on port {port}") from None
