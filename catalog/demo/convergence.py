"""Whether the nodes agree, by the digests that their public APIs show."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from catalog.client import Client, DigestRow
from catalog.demo.federation import Federation
from catalog.demo.screen import Unexpected

Holdings = Mapping[tuple[str, str], DigestRow]

_CONVERGE_SECONDS = 60
_PAUSE_SECONDS = 0.1


async def holdings(client: Client) -> Holdings:
    """What a node holds, by origin, deleted entities too."""
    return {(row.authority, row.origin): row for row in await client.digest_rows()}


async def expected_holdings(federation: Federation) -> Holdings:
    """What every follower is to hold: all that eu and us control."""
    found: dict[tuple[str, str], DigestRow] = {}
    for name in ("eu", "us"):
        held = await holdings(federation.client(name))
        found |= {origin: row for origin, row in held.items() if origin[0] == federation[name].url}
    return found


def differences(expected: Holdings, held: Holdings) -> list[tuple[str, str]]:
    """The origins that are not the same in both."""
    origins = expected.keys() | held.keys()
    return sorted(origin for origin in origins if not _same(expected.get(origin), held.get(origin)))


def _same(one: DigestRow | None, other: DigestRow | None) -> bool:
    if one is None or other is None:
        return False
    return (one.epoch, one.is_deleted, one.digest) == (other.epoch, other.is_deleted, other.digest)


async def wait_until_equal(federation: Federation, *names: str) -> tuple[Holdings, float]:
    """Wait until these nodes hold exactly what eu and us control.

    Returns:
        what all of them hold, and the seconds that it took.

    Raises:
        Unexpected: they do not, within a minute.
    """
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
    """Change one entity at eu; the seconds until edge shows the change, measured here.

    Raises:
        Unexpected: edge does not show it within ten seconds.
    """
    began = time.monotonic()
    await federation.client("eu").update(xid, {"description": description})
    while (await federation.client("edge").entity(xid)).get("description") != description:
        if time.monotonic() - began > 10:
            raise Unexpected(f"edge to show a change of {xid} within 10 s", "the old state")
        await asyncio.sleep(0.002)  # between two looks, which are what is measured
    return time.monotonic() - began
