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
from replication.deciding.copychecks import Copy
from replication.deciding.trust import Trust
from replication.signing.signatureprocess import MOST_AT_ONCE, SignatureProcess, fits
from replication.store.trustedkeys import load_trusted

_log = structlog.get_logger(__name__)

# Fewer signatures are verified sooner than a process starts.
_MANY = 32
# The thread waits for the process, which uses one core; one source must not use every core.
_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="signatures")
_process = SignatureProcess()


async def read_trust(connection: Connection, authorities: Collection[str]) -> Trust:
    """Read the trusted keys of authorities."""
    return Trust.of(await load_trusted(connection, authorities)) if authorities else Trust()


async def verify_ahead(database: Database, copies: Sequence[Copy]) -> None:
    """Verify copies before the transaction that decides about them, which holds locks."""
    signed = [copy for copy in copies if copy.signature is not None]
    if signed:
        async with database.acquire() as connection:
            trust = await read_trust(connection, {copy.authority for copy in signed})
        await verify_all(trust, signed)


async def verify_all(trust: Trust, copies: Sequence[Copy]) -> None:
    """Verify copies against given keys."""
    wanted = [each for each in trust.to_verify(copies) if not is_remembered(each)]
    # The decision itself verifies a single signature.
    if len(wanted) > 1:
        await asyncio.get_running_loop().run_in_executor(_thread, _verify, wanted)


def _verify(wanted: Iterable[SignatureOfCopy]) -> None:
    # A record of another length would shift every later record of the request.
    new, others = list(filter(fits, wanted)), list(filterfalse(fits, wanted))
    try:
        while len(new) >= _MANY:
            part = new[:MOST_AT_ONCE]
            remember(zip(part, _process.verify(part), strict=True))
            del new[:MOST_AT_ONCE]
    except OSError as error:
        _log.warning("signatures are verified in the node", why=str(error))
    for each in (*new, *others):
        is_copy_signed(*each)
