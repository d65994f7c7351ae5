"""The server that the cases are sent to is a node of our own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from catalog.subscriptions.delivery.dispatcher import run_deliveries
from replication.routes import routes
from tests.conftest import copying
from tests.integration.conftest import start_node
from tests.integration.webhooksink import own_address
from xregistry_conformance.cases import Case
from xregistry_conformance.harness import Server
from xregistry_conformance.receiver import Receiver

START_SECONDS = 60
# The receiver is at a private address, and an event that it refuses comes again soon.
SETTINGS: dict[str, Any] = {
    "allow_private_addresses": True,
    "backoff_initial_seconds": 0.1,
    "backoff_cap_seconds": 1.0,
}
# Runs the command, and names what it has imported of Concord.
PROGRAM = """
import sys
from xregistry_conformance.command import main
status = main(sys.argv[1:])
print("imported:", *{name for name in sys.modules if name.split(".")[0] in ("catalog", "tests")})
sys.exit(status)
"""
CASES = "test_conformance.py"
# Its cases are those of `CASES`.
collect_ignore = ["xregistry_conformance"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases of older drafts: `test_drafts.py` runs them."""
    drafts = [item for item in items if item.path.name == CASES and _is_draft(item)]
    config.hook.pytest_deselected(items=drafts)
    items[:] = [item for item in items if item not in {*drafts}]


def _is_draft(item: pytest.Item) -> bool:
    case = getattr(item, "callspec", None) and item.callspec.params.get("case")
    return isinstance(case, Case) and case.is_draft


@pytest.fixture(scope="session")
def server(postgres_url: str, template: str) -> Iterator[Server]:
    with own_node(postgres_url, template) as url:
        yield Server(url, handshake=not own_address().startswith("127."))


@pytest.fixture(scope="session")
def receiver() -> Iterator[Receiver]:
    """At an address that a node asks for its consent, if this machine has one."""
    with Receiver.open(f"http://{own_address()}") as receiver:
        yield receiver


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
        async with start_node(dsn, routes=routes, **SETTINGS) as node:
            delivering = asyncio.create_task(run_deliveries(node.context))
            started.set_result((node.url, asyncio.get_running_loop(), stop))
            await stop.wait()
            delivering.cancel()
            await asyncio.wait([delivering])
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


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the content of the wheel."""
    directory = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    subprocess.run(
        [*build, "--directory", str(directory)],
        cwd=Path(__file__).parent,
        check=True,
        capture_output=True,
    )
    [wheel] = directory.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(directory)
    return directory


def run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=installed,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )
