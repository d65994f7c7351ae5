"""The server that the cases are sent to is a node of our own."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests.conftest import copying
from tests.integration.conftest import start_node
from xregistry_conformance.harness import Server

START_SECONDS = 60
# `test_conformance.py` has its cases.
collect_ignore = ["xregistry_conformance"]


@pytest.fixture(scope="session")
def server(postgres_url: str, template: str) -> Iterator[Server]:
    with own_node(postgres_url, template) as url:
        yield Server(url)


@contextlib.contextmanager
def own_node(postgres_url: str, template: str) -> Iterator[str]:
    """The URL of a fresh node, which runs in a thread of its own."""
    started: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(postgres_url, template, started)))
    thread.start()
    url, loop, stop = started.result(START_SECONDS)
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(START_SECONDS)


async def _serve(postgres_url: str, template: str, started: Future[object]) -> None:
    name = f"{template}_{secrets.token_hex(4)}"
    stop = asyncio.Event()
    try:
        await _execute(postgres_url, copying(template, name))
        dsn = urlsplit(postgres_url)._replace(path=f"/{name}").geturl()
        async with start_node(dsn) as node:
            started.set_result((node.url, asyncio.get_running_loop(), stop))
            await stop.wait()
        await _execute(postgres_url, f'DROP DATABASE "{name}" WITH (FORCE)')
    except BaseException as error:
        if not started.done():
            started.set_exception(error)
        raise


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
