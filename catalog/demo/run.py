"""Runs the steps of the demo, and cleans up after them."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from catalog.client import ClientError
from catalog.client.subscriptions import open_sink
from catalog.commands.terminal import escaped
from catalog.demo.convergence import show_convergence, show_counts
from catalog.demo.damage import reconcile_damage
from catalog.demo.federation import NAMES, Federation, NodeFailed, open_federation
from catalog.demo.outage import survive_outage
from catalog.demo.output import Screen, Unexpected
from catalog.demo.setup import Demo, import_documents, link_nodes, start_nodes
from catalog.store.postgresprocess import EmbeddedPostgresError

INTERRUPTED = 130


def run_demo(*, report: Path, stay: bool) -> int:
    """Run the demo.

    Args:
        report: the directory for Spark's report.
        stay: keep the nodes running in the end, until Ctrl-C.

    Returns:
        the exit code: 0, or 1 if a step failed.
    """
    screen = Screen()
    try:
        return asyncio.run(_run(screen, report, stay=stay))
    except (KeyboardInterrupt, asyncio.CancelledError):
        screen.say("\nStopped early. No process runs on, and no files are left.")
        return INTERRUPTED


async def _run(screen: Screen, report: Path, *, stay: bool) -> int:
    task = asyncio.current_task()
    assert task is not None
    for name in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(name, task.cancel)
    try:
        async with open_federation() as federation:
            try:
                await _run_steps(Demo(federation=federation, screen=screen, report=report), stay)
            except (Unexpected, NodeFailed, ClientError) as failure:
                _show_failure(screen, federation, failure)
                return 1
    except (EmbeddedPostgresError, NodeFailed) as error:
        screen.console.print(f"[bold red]The demo could not begin.[/] {escaped(str(error))}")
        return 1
    return 0


async def _run_steps(demo: Demo, stay: bool) -> None:
    await start_nodes(demo)
    async with open_sink(demo.subscriber.receive) as sink:
        await link_nodes(demo, sink)
        await import_documents(demo)
        await show_convergence(demo)
        await survive_outage(demo)
        await reconcile_damage(demo)
        await _conclude(demo)
        if stay:
            await _stay(demo)


async def _conclude(demo: Demo) -> None:
    demo.screen.step("Summary")
    await show_counts(demo)
    demo.screen.done(
        f"Four catalogs agree on everything; the subscriber received "
        f"{len(demo.subscriber.events):,} events. It took {demo.screen.elapsed_seconds:.0f} s."
    )


async def _stay(demo: Demo) -> None:
    demo.screen.say("\nThe nodes stay up. Try these, and end with Ctrl-C:")
    for name in NAMES:
        demo.screen.say(f"  {name:<5} {demo.federation[name].url}")
    hub = demo.federation["hub"].url
    demo.screen.say(f"\n  concord link list --url {hub}")
    demo.screen.say(f"  concord subscription listen --url {hub}")
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    await stop.wait()
    demo.screen.say("Stopping the nodes and removing their databases.")


def _show_failure(screen: Screen, federation: Federation, failure: Exception) -> None:
    screen.console.print("\n[bold red]The demo failed.[/]", escaped(str(failure)))
    for name, tail in federation.log_tails():
        screen.console.print(f"\n[bold]The end of the log of {name}:[/]")
        screen.console.print(tail, markup=False)
