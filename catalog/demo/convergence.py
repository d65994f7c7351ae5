"""The fourth step of the demo: the nodes agree, by the digests of the public APIs."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Mapping

from catalog.client import Client, DigestRow
from catalog.commands.events import event_line
from catalog.demo.federation import NAMES, Federation
from catalog.demo.output import Unexpected, expect
from catalog.demo.setup import ALERT, ENDPOINT, FOLLOWERS, REGIONS, SCHEMA, WATER_LEVEL, Demo

Holdings = Mapping[tuple[str, str], DigestRow]

_CONVERGE_SECONDS = 60
_PAUSE_SECONDS = 0.1


async def show_convergence(demo: Demo) -> None:
    demo.screen.step("Everything is everywhere")
    held, took = await wait_until_equal(demo.federation, *FOLLOWERS)
    demo.screen.done(
        f"hub and edge hold all of it, {took:.1f} s after the last import: the same epoch and "
        f"digest for each of {len(held):,} entities"
    )
    await show_counts(demo)
    await _show_some(demo)
    await _show_arrival(demo)
    await _show_events(demo, held)


async def show_counts(demo: Demo) -> None:
    """Show the number of entities at each node, counted by the API of the node."""
    rows = []
    for name in NAMES:
        root = await demo.federation.client(name).entity("/")
        held = (await holdings(demo.federation.client(name))).values()
        live = Counter(row.authority for row in held if not row.is_deleted)
        owners = (str(live[demo.federation[region].url]) for region in REGIONS)
        groups = sum(count for key, count in root.items() if key.endswith("count"))
        deleted = sum(row.is_deleted for row in held)
        rows.append((name, str(groups), str(live.total()), *owners, str(deleted)))
    demo.screen.table(
        "node", "groups", "live entities", "of eu's", "of us's", "deleted ones remembered",
        rows=rows,
    )  # fmt: skip


async def _show_some(demo: Demo) -> None:
    names = {demo.federation[name].url: name for name in NAMES}
    hub, edge = [await holdings(demo.federation.client(name)) for name in FOLLOWERS]
    rows = []
    for xid in (ALERT, ENDPOINT, SCHEMA, WATER_LEVEL):
        mine = next(row for row in hub.values() if row.xid == xid)
        theirs = edge[mine.authority, mine.origin]
        replica = await demo.federation.client("edge").entity(xid)
        expect(
            replica.get("authority") == mine.authority,
            f"edge to say that {names[mine.authority]} controls {xid}",
            str(replica.get("authority")),
        )
        rows.append((_named(xid), names[mine.authority], _short(mine), _short(theirs)))
    demo.screen.say("Some of them, as hub and edge show them:")
    demo.screen.table("entity", "of", "epoch, digest at hub", "at edge", rows=rows)


def _named(xid: str) -> str:
    """The end of an xid, short enough for a table."""
    collection, id = xid.split("/")[-2:]
    return f"{collection}/{id if len(id) < 22 else '…' + id[-21:]}"


def _short(row: DigestRow) -> str:
    return f"{row.epoch}, {row.digest[:12]}"


async def _show_arrival(demo: Demo) -> None:
    took = [
        await measure_arrival(demo.federation, ALERT, f"A weather warning, wording {number}.")
        for number in range(1, 6)
    ]
    demo.screen.done(
        f"a change at eu was readable at edge, two links away, in {took[-1] * 1000:.0f} ms "
        f"(median of five: {statistics.median(took) * 1000:.0f} ms)"
    )


async def _show_events(demo: Demo, held: Holdings) -> None:
    count = await demo.subscriber.wait_for({row.xid for row in held.values()})
    demo.screen.done(f"the subscriber received {count:,} events; the last of them:")
    for event in demo.subscriber.events[-3:]:
        demo.screen.say(f"  {event_line(event)}")


async def holdings(client: Client) -> Holdings:
    """The digest rows of a node by authority and origin, including rows of deleted entities."""
    return {(row.authority, row.origin): row for row in await client.digest_rows()}


async def expected_holdings(federation: Federation) -> Holdings:
    """The rows that every follower should have: the entities that eu and us control."""
    found: dict[tuple[str, str], DigestRow] = {}
    for name in REGIONS:
        held = await holdings(federation.client(name))
        found |= {origin: row for origin, row in held.items() if origin[0] == federation[name].url}
    return found


def differences(expected: Holdings, held: Holdings) -> list[tuple[str, str]]:
    """The authorities and origins of entities with a different state."""
    origins = expected.keys() | held.keys()
    return sorted(o for o in origins if _state(expected.get(o)) != _state(held.get(o)))


def _state(row: DigestRow | None) -> tuple[int, bool, str] | None:
    return row and (row.epoch, row.is_deleted, row.digest)


async def wait_until_equal(federation: Federation, *names: str) -> tuple[Holdings, float]:
    """Wait until the named nodes have exactly the entities that eu and us control.

    Returns:
        the common rows, and the seconds until every node had them.

    Raises:
        Unexpected: the nodes differ for longer than a minute.
    """
    # The rows of eu and us are read once: the demo writes nothing during the wait.
    expected = await expected_holdings(federation)
    began = time.monotonic()
    for name in names:
        while lacking := differences(expected, await holdings(federation.client(name))):
            if time.monotonic() - began > _CONVERGE_SECONDS:
                raise Unexpected(
                    f"{name} to hold the same {len(expected)} origins as eu and us",
                    f"{len(lacking)} of them differ, the first at {lacking[0][1]}",
                )
            await asyncio.sleep(_PAUSE_SECONDS)
    return expected, time.monotonic() - began


async def measure_arrival(federation: Federation, xid: str, description: str) -> float:
    """Change an entity at eu; return the seconds until edge shows the change.

    Raises:
        Unexpected: edge does not show the change within ten seconds.
    """
    began = time.monotonic()
    await federation.client("eu").update(xid, {"description": description})
    while (await federation.client("edge").entity(xid)).get("description") != description:
        if time.monotonic() - began > 10:
            raise Unexpected(f"edge to show a change of {xid} within 10 s", "the old state")
        await asyncio.sleep(0.002)
    return time.monotonic() - began
