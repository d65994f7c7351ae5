"""A replica is damaged by SQL, Spark finds it and mends it, and finds nothing more."""

from __future__ import annotations

import asyncio
import sys

from catalog.demo.convergence import wait_until_equal
from catalog.demo.damage import CONTENT_CHANGED, ENTITY_REMOVED, EPOCH_LOWERED, damage
from catalog.demo.federation import NAMES, clean_environment
from catalog.demo.opening import ALERT, FOLLOWERS, SCHEMA, WATER_LEVEL, Demo
from catalog.demo.screen import expect


async def reconcile_damage(demo: Demo) -> None:
    demo.screen.step("Damage, proof and repair by Spark")
    await _damage(demo)
    demo.screen.say("\nSpark compares all four catalogs in full, and repairs what it finds:\n")
    found = await _reconcile(demo, "--repair", "--report", str(demo.report))
    expect(found == 1, "the comparison to find differences (exit code 1)", f"exit code {found}")
    held, _ = await wait_until_equal(demo.federation, *FOLLOWERS)
    demo.screen.done(f"repaired: hub and edge agree with eu and us on all {len(held):,} entities")
    mended = (await demo.federation.client("hub").entity(WATER_LEVEL)).get("description")
    expect(mended != "Nobody meant this.", "hub to show the true description", str(mended))
    demo.screen.say("\nA second full comparison:\n")
    found = await _reconcile(demo)
    expect(found == 0, "the second comparison to find nothing (exit code 0)", f"exit code {found}")
    demo.screen.done("the second comparison finds nothing")
    demo.screen.say(f"The report of the first: {demo.report / 'report.html'}")


async def _damage(demo: Demo) -> None:
    """Three kinds of damage, each by SQL, so that no node knows of it."""
    hub, edge = demo.federation["hub"].dsn, demo.federation["edge"].dsn
    version = f"{WATER_LEVEL}/versions/1"
    rows = [
        await damage(hub, CONTENT_CHANGED, version),
        await damage(edge, ENTITY_REMOVED, SCHEMA),
        await damage(hub, EPOCH_LOWERED, f"{ALERT}/versions/1"),
    ]
    expect(all(rows), "each damage to meet a row", f"{rows} rows")
    demo.screen.say("By SQL, behind the nodes' backs:")
    demo.screen.say(f"  at hub, the content of {version} was changed, not its digest")
    demo.screen.say(f"  at edge, {SCHEMA} was removed without a trace ({rows[1]} rows)")
    demo.screen.say(f"  at hub, the epoch of {ALERT}/versions/1 was lowered")


async def _reconcile(demo: Demo, *options: str) -> int:
    """Run `concord reconcile` over all four nodes, its output shown as it comes."""
    catalogs = [f"--catalog={name}={demo.federation[name].url}" for name in NAMES]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "catalog.cli", "reconcile", *catalogs, *options),
        stdin=asyncio.subprocess.DEVNULL,
        cwd=demo.federation.directory,
        env=clean_environment(),
    )
    try:
        async with asyncio.timeout(120):
            return await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
