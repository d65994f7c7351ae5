"""Compares the entities of hub and edge in the wide topology with the sources' entities."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from catalog.client import Client, DigestRow
from catalog.demo.federation import Federation
from catalog.demo.output import Unexpected
from catalog.demo.staticserver import StaticServer
from catalog.demo.widelinks import EDGE, HUB, Source

_CONVERGE_SECONDS = 180
_PAUSE_SECONDS = 0.1

Rows = Mapping[str, DigestRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAgreement:
    """The counts of a source's `expected` and `deleted` origins, and the `wrong` ones by node."""

    source: Source
    expected: int
    deleted: int
    wrong: Mapping[str, list[str]]


async def compare(
    federation: Federation, sources: Mapping[Source, StaticServer | None], *, verify: bool = False
) -> list[SourceAgreement]:
    """Compare the digests of hub and edge with the digests of the sources.

    A foreign server has no digests: the hub is compared with the server's paths, and the edge with
    the hub.

    Args:
        sources: the sources; a foreign source with its server, a node with `None`.
        verify: compute the digests anew from the content.
    """
    hub = await _held(federation.client(HUB), verify=verify)
    edge = await _held(federation.client(EDGE), verify=verify)
    found = []
    for source, server in sources.items():
        authority = source.authority if server is None else server.url
        here = {HUB: hub.get(authority, {}), EDGE: edge.get(authority, {})}
        if server is None:
            node = await _held(federation.client(source.name), verify=verify)
            there = node.get(authority, {})
            wrong = {name: _differences(there, rows) for name, rows in here.items()}
        else:
            there, paths = here[HUB], {*server.xids()}
            live = {origin for origin, row in there.items() if not row.is_deleted}
            wrong = {HUB: sorted(paths ^ live), EDGE: _differences(there, here[EDGE])}
        found.append(
            SourceAgreement(
                source=source,
                expected=len(there),
                deleted=sum(row.is_deleted for row in there.values()),
                wrong=wrong,
            )
        )
    return found


async def wait_until_equal(
    federation: Federation, sources: Mapping[Source, StaticServer | None]
) -> tuple[list[SourceAgreement], float]:
    """Wait until hub and edge hold exactly the entities that the sources control.

    Returns:
        the agreement with each source, and the seconds until hub and edge agreed.

    Raises:
        Unexpected: hub or edge differs for longer than three minutes.
    """
    began = time.monotonic()
    while True:
        found = await compare(federation, sources)
        wrong = [
            (each.source.name, name, origins)
            for each in found
            for name, origins in each.wrong.items()
            if origins
        ]
        took = time.monotonic() - began
        if not wrong:
            return found, took
        if took > _CONVERGE_SECONDS:
            source, name, origins = wrong[0]
            raise Unexpected(
                f"{name} to hold what {source} has",
                f"{len(origins)} origins differ, the first is {origins[0]}",
            )
        await asyncio.sleep(_PAUSE_SECONDS)


async def _held(client: Client, *, verify: bool) -> dict[str, dict[str, DigestRow]]:
    """The rows of a node by authority and origin."""
    found: dict[str, dict[str, DigestRow]] = {}
    for row in await client.digest_rows(verify=verify):
        # Every node has a registry entity of its own.
        if row.xid != "/":
            found.setdefault(row.authority, {})[row.origin] = row
    return found


def _differences(there: Rows, here: Rows) -> list[str]:
    origins = there.keys() | here.keys()
    return sorted(origin for origin in origins if there.get(origin) != here.get(origin))
