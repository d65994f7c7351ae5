"""Plays the demo from its first step to its last, and cleans up after it."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from catalog.client import ClientError
from catalog.client.sink import open_sink
from catalog.demo.absence import survive_absence
from catalog.demo.federation import NAMES, Federation, NodeFailed, open_federation
from catalog.demo.opening import (
    Demo,
    import_documents,
    link_nodes,
    show_convergence,
    show_counts,
    start_nodes,
)
from catalog.demo.repair import reconcile_damage
from catalog.demo.screen import Screen, Unexpected
from catalog.store.server import EmbeddedPostgresError

INTERRUPTED = 130


def run_demo(*, report: Path, stay: bool) -> int:
    """Play the demo.

    Args:
        report: the directory that Spark's report is kept in.
        stay: keep the nodes running in the end, until Ctrl-C.

    Returns:
        the exit code: 0, or 1 if something did not come out as it must.
    """
    screen = Screen()
    try:
        return asyncio.run(_play(screen, report, stay=stay))
    except (KeyboardInterrupt, asyncio.CancelledError):
        screen.say("\nStopped early. Nothing runs on, and nothing is left behind.")
        return INTERRUPTED


async def _play(screen: Screen, report: Path, *, stay: bool) -> int:
    this = asyncio.current_task()
    assert this is not None
    for name in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(name, this.cancel)
    try:
        async with open_federation() as federation:
            return await _attempt(Demo(federation=federation, screen=screen, report=report), stay)
    except (EmbeddedPostgresError, NodeFailed) as error:
        screen.console.print(f"[bold red]The demo could not begin.[/] {error}")
        return 1


async def _attempt(demo: Demo, stay: bool) -> int:
    try:
        await _run_steps(demo, stay)
    except (Unexpected, NodeFailed, ClientError) as failure:
        _show_failure(demo.screen, demo.federation, failure)
        return 1
    return 0


async def _run_steps(demo: Demo, stay: bool) -> None:
    await start_nodes(demo)
    async with open_sink(demo.subscriber.receive) as sink:
        await link_nodes(demo, sink)
        await import_documents(demo)
        await show_convergence(demo)
        await survive_absence(demo)
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
    demo.screen.say("Stopping the nodes; all that was theirs is removed.")


def _show_failure(screen: Screen, federation: Federation, failure: Exception) -> None:
    screen.console.print("\n[bold red]The demo failed.[/]", str(failure))
    for name, tail in federation.log_tails():
        screen.console.print(f"\n[bold]The end of the log of {name}:[/]")
        screen.console.print(tail, markup=False)
