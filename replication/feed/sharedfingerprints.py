"""The coarsest fingerprints of a catalog, read once for all the comparisons of a short time.

Hundreds of links may compare with one catalog, or belong to it. Where the catalogs agree, a
comparison needs nothing else; where they do not, finer fingerprints are read from the present.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from catalog.context import Context
from catalog.model.caller import node_caller
from catalog.store.changes import Head, read_head
from catalog.store.database import Database
from replication.store import digests
from replication.store.digests import Bucket
from replication.store.loghistory import read_cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFingerprints:
    """The fingerprints of each authority at the cursor, read at the time `at` of the event loop."""

    at: float
    head: Head
    cursor: str
    by_authority: Mapping[str, Mapping[int, Bucket]]

    def merged(self, authorities: Sequence[str] | None) -> list[Bucket]:
        """The buckets of authorities, as `digests.read_merged`; `None` stands for all."""
        named = self.by_authority if authorities is None else {*authorities}
        found: dict[int, Bucket] = {}
        for authority in named:
            for number, bucket in self.by_authority.get(authority, {}).items():
                held = found.get(number)
                found[number] = bucket if held is None else held.plus(bucket)
        return [found[number] for number in sorted(found)]


@dataclass(slots=True)
class _Latest:
    found: SharedFingerprints | None = None
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


async def shared_fingerprints(context: Context, max_age: float) -> SharedFingerprints:
    """The fingerprints of the whole catalog, at most `max_age` seconds old."""
    shared, loop = context.database.shared, asyncio.get_running_loop()
    latest = shared.part(_Latest, _Latest)
    async with latest.reading:
        found = latest.found
        if found is None or loop.time() - found.at > max_age:
            at, database = loop.time(), Database(shared, node_caller())
            async with database.snapshot(database.pools.streams) as connection:
                head = await read_head(connection)
                cursor = await read_cursor(connection, database.node.instance, head.now)
                by_authority = await digests.read_merged_by_authority(connection)
            found = latest.found = SharedFingerprints(
                at=at, head=head, cursor=str(cursor), by_authority=by_authority
            )
        return found
