"""Runs a demo, and cleans up afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from catalog.client import ClientError
from catalog.commands.console import escaped
from catalog.demo.federation import Federation, NodeFailed, free_ports, open_federation
from catalog.demo.proof import prove_by_digests, prove_by_spark
from catalog.demo.screen import Screen, Unexpected
from catalog.demo.staticserver import StaticServer, open_static_server
from catalog.demo.steps import documents_of, merged, run_steps
from catalog.demo.topologies import (
    HUB,
    REGIONS,
    WIDE,
    WIDE_WITHOUT_KAFKA,
    Demo,
    Source,
    settings_of,
)
from catalog.store.connections import EmbeddedPostgresError

INTERRUPTED = 130


def run_demo(*, report: Path, stay: bool) -> int:
    """Run the demo of four nodes.

    Args:
        report: the directory for Spark's report.
        stay: keep the nodes running in the end, until Ctrl-C.

    Returns:
        the exit code: 0, or 1 if a step failed.
    """
    return _run(REGIONS, None, lambda demo: prove_by_spark(demo, report), stay=stay)


def run_wide_demo(*, kafka: str | None, stay: bool) -> int:
    """Run the demo of the wide topology.

    Args:
        kafka: the host and port of a broker; without a broker, every node pushes.
        stay: keep the nodes running in the end, until Ctrl-C.

    Returns:
        the exit code: 0, or 1 if a step failed.
    """
    return _run(WIDE if kafka else WIDE_WITHOUT_KAFKA, kafka, prove_by_digests, stay=stay)


def _run(
    sources: tuple[Source, ...],
    kafka: str | None,
    prove: Callable[[Demo], Awaitable[None]],
    *,
    stay: bool,
) -> int:
    screen = Screen()
    try:
        return asyncio.run(_run_steps(screen, sources, kafka, prove, stay=stay))
    except (KeyboardInterrupt, asyncio.CancelledError):
        screen.say("\nStopped early. No process runs on, and no files are left.")
        return INTERRUPTED


async def _run_steps(
    screen: Screen,
    sources: tuple[Source, ...],
    kafka: str | None,
    prove: Callable[[Demo], Awaitable[None]],
    *,
    stay: bool,
) -> int:
    task = asyncio.current_task()
    assert task is not None
    # A cancelled task leaves its contexts, which stop the nodes and remove the files.
    for name in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(name, task.cancel)
    try:
        async with (
            open_federation(settings_of(sources)) as federation,
            _open_demo(screen, federation, sources, kafka) as demo,
        ):
            try:
                await run_steps(demo)
                await prove(demo)
                if stay:
                    await _stay(demo)
            except (Unexpected, NodeFailed, ClientError) as failure:
                _show_failure(screen, federation, failure)
                return 1
    except (EmbeddedPostgresError, NodeFailed) as error:
        screen.console.print(f"[bold red]The demo could not begin.[/] {escaped(str(error))}")
        return 1
    return 0


@contextlib.asynccontextmanager
async def _open_demo(
    screen: Screen, federation: Federation, sources: tuple[Source, ...], kafka: str | None
) -> AsyncIterator[Demo]:
    """A demo with the foreign servers that its sources need."""
    async with contextlib.AsyncExitStack() as stack:
        found: dict[Source, StaticServer | None] = {}
        # The broker may have topics of earlier demos.
        topic = f"kafka://{kafka}/concord-demo-{secrets.token_hex(4)}" if kafka else ""
        for source in sources:
            found[source] = None
            if source.is_foreign:
                [port] = free_ports(1)
                server = open_static_server(source.name, merged(documents_of(source)), port)
                found[source] = await stack.enter_async_context(server)
        yield Demo(federation=federation, screen=screen, sources=found, topic=topic)


async def _stay(demo: Demo) -> None:
    screen, members = demo.screen, demo.federation.members
    screen.say("\nThe nodes stay up. Try these, and end with Ctrl-C:")
    width = max(map(len, members))
    for name, member in members.items():
        screen.say(f"  {name:<{width}} {member.url}")
    hub = members[HUB].url
    screen.say(f"\n  concord link list --url {hub}")
    screen.say(f"  concord events --url {hub}")
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    await stop.wait()
    screen.say("Stopping the nodes and removing their databases.")


def _show_failure(screen: Screen, federation: Federation, failure: Exception) -> None:
    screen.console.print("\n[bold red]The demo failed.[/]", escaped(str(failure)))
    for name, tail in federation.log_tails():
        screen.console.print(f"\n[bold]The end of the log of {name}:[/]")
        screen.console.print(tail, markup=False)
