"""Verifies the signatures of copies in a thread, while the event loop and the database do others.

Decisions verify by themselves. What was verified ahead is remembered, and costs them nothing.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from catalog.entitysignature import is_copy_signed
from catalog.store.database import Connection, Database
from catalog.store.trustedkeys import load_trusted
from replication.copychecks import Incoming, MalformedCopy
from replication.trust import SignedCopy, Trust

AHEAD = 64
"""The number of copies that are worth a thread's while."""
# Verifying holds no interpreter, so this takes another core. With more threads, one source would
# take all.
_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="signatures")
# The trust that was read last, of each authority that any was read of.
_seen: weakref.WeakKeyDictionary[Database, dict[str, Trust]] = weakref.WeakKeyDictionary()


async def read_trust(
    database: Database, connection: Connection, authorities: Collection[str]
) -> Trust:
    """The keys that are trusted now, of some authorities."""
    trust = Trust.of(await load_trusted(connection, authorities)) if authorities else Trust()
    seen = _seen.setdefault(database, {})
    for authority in authorities:
        seen[authority] = trust
    return trust


def begin_ahead(database: Database, copies: Sequence[Incoming]) -> None:
    """Begin to verify copies that are going to be applied soon."""
    if found := _to_verify(database, copies):
        _thread.submit(_verify, found)


async def verify_ahead(database: Database, copies: Sequence[SignedCopy]) -> None:
    """Verify copies, those among them that were begun before."""
    authorities = {copy.authority for copy in copies}
    if not authorities <= _seen.get(database, {}).keys():
        async with database.pool.acquire(timeout=30) as connection:
            await read_trust(database, connection, authorities)
    if (found := _to_verify(database, copies)) and len(found) > 1:
        await asyncio.get_running_loop().run_in_executor(_thread, _verify, found)


async def verify_all(trust: Trust, copies: Sequence[SignedCopy]) -> None:
    """Verify copies that are held to some keys, whatever this node trusts."""
    if found := list(trust.to_verify(copies)):
        await asyncio.get_running_loop().run_in_executor(_thread, _verify, found)


def _to_verify(database: Database, copies: Iterable[Incoming]) -> list[tuple[bytes, bytes, bytes]]:
    seen = _seen.get(database, {})
    return [
        wanted
        for copy in copies
        if not isinstance(copy, MalformedCopy) and (trust := seen.get(copy.authority))
        for wanted in trust.to_verify([copy])
    ]


def _verify(wanted: Iterable[tuple[bytes, bytes, bytes]]) -> None:
    for each in wanted:
        is_copy_signed(*each)
