"""Starts servers in separate processes: nodes, and the bare servers of the baselines."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

NODE_COMMAND: Sequence[str] = (sys.executable, "-m", "catalog.cli", "serve")
BARE_COMMAND: Sequence[str] = (sys.executable, "-m", "benchmarks.bare")

_START_SECONDS = 60
_STOP_SECONDS = 20


class StartError(Exception):
    """A server ended or did not listen in time; the message has the end of its log."""


@contextlib.asynccontextmanager
async def node(directory: Path, name: str, **settings: str) -> AsyncIterator[str]:
    """Run a node with its own embedded PostgreSQL; yield its URL.

    Args:
        directory: the parent of its data directory and its log.
        name: the name of the node, unique in this run.
        settings: further settings of the node, as `CONCORD_*` without the prefix.
    """
    async with node_process(directory, name, **settings) as (url, _):
        yield url


@contextlib.asynccontextmanager
async def node_process(
    directory: Path, name: str, **settings: str
) -> AsyncIterator[tuple[str, int]]:
    """As `node`; yield its URL and the id of its process."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    chosen = {
        "PORT": str(port),
        "DATA_DIR": str(directory / name),
        "PUBLIC_URL": url,
        "LOG_LEVEL": "warning",
        **settings,
    }
    environment = {f"CONCORD_{key}": value for key, value in chosen.items()}
    async with _running(NODE_COMMAND, environment, directory / f"{name}.log", port) as pid:
        yield url, pid


@contextlib.asynccontextmanager
async def bare(directory: Path, name: str, *arguments: str) -> AsyncIterator[str]:
    """Run a bare server (see `benchmarks.bare`); yield its URL."""
    async with server([*BARE_COMMAND, *arguments], directory, name) as (url, _):
        yield url


@contextlib.asynccontextmanager
async def server(
    command: Sequence[str], directory: Path, name: str
) -> AsyncIterator[tuple[str, int]]:
    """Run a server that takes `--port`; yield its URL and the port."""
    port = free_port()
    log = directory / f"{name}.log"
    async with _running([*command, "--port", str(port)], {}, log, port):
        yield f"http://127.0.0.1:{port}", port


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.asynccontextmanager
async def _running(
    command: Sequence[str], settings: Mapping[str, str], log: Path, port: int
) -> AsyncIterator[int]:
    """Run a server until it listens; yield the id of its process."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("CONCORD_")}
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            env={**inherited, **settings},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        await _listening(process, log, port)
        yield process.pid
    finally:
        await _stop(process)


async def _listening(process: asyncio.subprocess.Process, log: Path, port: int) -> None:
    for _ in range(_START_SECONDS * 20):
        if process.returncode is not None:
            break
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.05)
    raise StartError(f"A server did not start:\n{_end_of(log)}")


def _end_of(log: Path) -> str:
    return log.read_bytes()[-2000:].decode(errors="replace")


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
