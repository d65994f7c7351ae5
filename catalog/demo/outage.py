"""The fifth step of the demo: the hub is killed, and catches up after its restart."""

from __future__ import annotations

from typing import Any

from catalog.client import Refused
from catalog.demo.convergence import holdings, wait_until_equal
from catalog.demo.federation import NAMES
from catalog.demo.output import Unexpected, expect
from catalog.demo.setup import ALERT, ENDPOINT, FOLLOWERS, Demo

_CLOSURES = "/messagegroups/DE.Autobahn.amqp"
_TIDES = "/messagegroups/DE.Example.Tides"
_AVRO = "/schemagroups/Microsoft.OpenData.US.NOAA.avro"
_ALL_CLEAR = "/messagegroups/NWS.Alerts/messages/NWS.Alerts.AllClear"


async def survive_outage(demo: Demo) -> None:
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
