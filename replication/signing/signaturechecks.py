"""Verifies the signatures of copies beside the event loop, in a process.

Decisions verify signatures, too, but find the results of earlier verifications in a cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import filterfalse

import structlog

from catalog.keys.entitysignature import (
    SignatureOfCopy,
    is_copy_signed,
    is_remembered,
    remember,
)
from catalog.store.database import Connection, Database
from replication.deciding.copychecks import Copy, Incoming, MalformedCopy
from replication.deciding.trust import Trust
from replication.signing.signatureprocess import MOST_AT_ONCE, SignatureProcess, fits
from replication.store.trustedkeys import load_trusted

_log = structlog.get_logger(__name__)

AHEAD = 128
"""The number of copies that are worth beginning ahead."""
# Fewer signatures are verified sooner than a process starts.
_MANY = 32
# The thread waits for the process, which uses one core; one source must not use every core.
_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="signatures")
_process = SignatureProcess()


class _SeenTrust(dict[str, Trust]):
    """The trust of each authority as last read."""


async def read_trust(
    database: Database, connection: Connection, authorities: Collection[str]
) -> Trust:
    """Read the trusted keys of authorities, and note them for verification ahead."""
    trust = Trust.of(await load_trusted(connection, authorities)) if authorities else Trust()
    seen = database.shared.part(_SeenTrust, _SeenTrust)
    for authority in authorities:
        seen[authority] = trust
    return trust


def begin_ahead(database: Database, copies: Sequence[Incoming]) -> None:
    """Begin to verify copies before the batch that applies them."""
    if found := _to_verify(database, copies):
        _thread.submit(_verify, found)


async def verify_ahead(database: Database, copies: Sequence[Copy]) -> None:
    """Verify copies, after the copies whose verification began earlier."""
    authorities = {copy.authority for copy in copies}
    if not authorities <= database.shared.part(_SeenTrust, _SeenTrust).keys():
        async with database.acquire() as connection:
            await read_trust(database, connection, authorities)
    # The decision itself verifies a single signature.
    if (found := _to_verify(database, copies)) and len(found) > 1:
        await asyncio.get_running_loop().run_in_executor(_thread, _verify, found)


async def verify_all(trust: Trust, copies: Sequence[Copy]) -> None:
    """Verify copies against given keys, independent of the trust of this node."""
    if found := list(trust.to_verify(copies)):
        await asyncio.get_running_loop().run_in_executor(_thread, _verify, found)


def _to_verify(database: Database, copies: Iterable[Incoming]) -> list[SignatureOfCopy]:
    seen = database.shared.part(_SeenTrust, _SeenTrust)
    return [
        wanted
        for copy in copies
        if not isinstance(copy, MalformedCopy) and (trust := seen.get(copy.authority))
        for wanted in trust.to_verify([copy])
        if not is_remembered(wanted)
    ]


def _verify(wanted: Iterable[SignatureOfCopy]) -> None:
    unknown = [each for each in wanted if not is_remembered(each)]
    # A record of another length would shift every later record of the request.
    new, others = list(filter(fits, unknown)), list(filterfalse(fits, unknown))
    try:
        while len(new) >= _MANY:
            part = new[:MOST_AT_ONCE]
            remember(zip(part, _process.verify(part), strict=True))
            del new[:MOST_AT_ONCE]
    except OSError as error:
        _log.warning("signatures are verified in the node", why=str(error))
    for each in (*new, *others):
        is_copy_signed(*each)
