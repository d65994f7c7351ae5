"""The nodes of the demo: a process and a database for each node, in one PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from catalog.client import Client
from catalog.store.embeddedpostgres import start_embedded
from catalog.store.postgresaccount import temporary_directory

_START_SECONDS = 60
_STOP_SECONDS = 15
# Below the ports of outgoing connections, which could take the port of a node that is down.
_PORTS = range(20_000, 32_000)


class NodeFailed(Exception):
    """The process of a node did not start to answer, or ended by itself."""


@dataclass(slots=True, kw_only=True)
class Member:
    """A node of the federation; `process` is `None` while the node does not run.

    `settings` are the node's additions to the settings of every node.
    """

    name: str
    port: int
    dsn: str
    log: Path
    client: Client
    settings: Mapping[str, str]
    process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass(slots=True, kw_only=True)
class Federation:
    """The nodes by name, and the directory of their databases and logs."""

    directory: Path
    members: dict[str, Member] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    async def start(self, *names: str) -> None:
        """Start the named nodes, and wait until each node answers.

        Raises:
            NodeFailed: a node does not answer within a minute.
        """
        for name in names:
            await self._launch(self.members[name])
        for name in names:
            await _wait_until_ready(self.members[name])

    async def kill(self, name: str) -> None:
        """Kill the process of a node."""
        member = self.members[name]
        if member.process is not None:
            with contextlib.suppress(ProcessLookupError):  # The process ended by itself.
                member.process.kill()
            await member.process.wait()
            member.process = None

    async def stop(self) -> None:
        """Stop every node; a node that does not stop in time is killed."""
        # Every node gets the signal before the first wait, so that the nodes stop in parallel.
        for member in self.members.values():
            if member.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    member.process.send_signal(signal.SIGTERM)
        for member in self.members.values():
            if member.process is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_STOP_SECONDS):
                        await member.process.wait()
            await self.kill(member.name)

    def log_tails(self, lines: int = 12) -> Iterator[tuple[str, str]]:
        """The name and the last lines of the log of every node."""
        for member in self.members.values():
            with contextlib.suppress(OSError):
                text = member.log.read_text(errors="replace").splitlines()
                yield member.name, "\n".join(text[-lines:])

    async def _launch(self, member: Member) -> None:
        with member.log.open("ab") as log:
            member.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "catalog.cli", "serve", "--port", str(member.port)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={
                    **clean_environment(),
                    "CONCORD_HOST": "127.0.0.1",
                    "CONCORD_PUBLIC_URL": member.url,
                    "CONCORD_DATABASE_URL": member.dsn,
                    "CONCORD_REGISTRY_ID": member.name,
                    "CONCORD_AUTHORITY_NAME": f"The {member.name} catalog",
                    "CONCORD_AUTHORITY_REGION": member.name,
                    **member.settings,
                },
                start_new_session=True,  # The demo handles Ctrl-C.
            )


@contextlib.asynccontextmanager
async def open_federation(nodes: Mapping[str, Mapping[str, str]]) -> AsyncIterator[Federation]:
    """The nodes, not started yet; databases and logs are removed at the end of the context.

    Args:
        nodes: additions to the settings of every node, by the name of the node.
    """
    async with contextlib.AsyncExitStack() as stack:
        directory = stack.enter_context(temporary_directory("concord-demo-"))
        federation = Federation(directory=directory)
        for (name, settings), port in zip(nodes.items(), free_ports(len(nodes)), strict=True):
            server = await start_embedded(directory / "postgresql", database=name)
            stack.push_async_callback(server.stop)
            client = await stack.enter_async_context(Client.open(f"http://127.0.0.1:{port}"))
            federation.members[name] = Member(
                name=name,
                port=port,
                dsn=server.dsn,
                log=directory / f"{name}.log",
                client=client,
                settings=settings,
            )
        # Registered last, so that the nodes stop before their databases.
        stack.push_async_callback(federation.stop)
        yield federation


def clean_environment() -> dict[str, str]:
    """The environment without the settings of Concord, which the demo sets itself."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CONCORD_")}


async def _wait_until_ready(member: Member) -> None:
    try:
        async with asyncio.timeout(_START_SECONDS):
            while not await member.client.is_ready():
                if member.process is None or member.process.returncode is not None:
                    raise NodeFailed(f"The node {member.name} ended before it answered.")
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise NodeFailed(
            f"The node {member.name} did not answer within {_START_SECONDS} s."
        ) from None


def free_ports(count: int) -> list[int]:
    """Unused ports of this machine.

    Raises:
        NodeFailed: too few ports are free.
    """
    found = [port for port in random.sample(_PORTS, 200) if _is_free(port)]
    if len(found) < count:
        raise NodeFailed(f"No {count} ports of this machine between 20000 and 32000 are free.")
    return found[:count]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
