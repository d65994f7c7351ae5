"""Verifies the signatures and the content of the catalog, part by part."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from aiohttp import web

from catalog.context import CONTEXT, Context
from catalog.http.route import Route
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.operations.signing import (
    CHECK_SIGNATURES,
    Finding,
    PartQuery,
    SignatureAudit,
    SignatureFault,
)
from catalog.store.database import Connection
from replication.deciding.keytrust import is_consistent
from replication.deciding.trust import SignedCopy, Trust
from replication.store import digests
from replication.store.trustedkeys import load_histories, load_trusted

_AT_ONCE = 1000
_MOST_FAULTS = 20
_TOMBSTONES = "deleted:"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Copies with the digests of their content, and the position of the next part."""

    copies: Sequence[tuple[SignedCopy, bytes]]
    after: str | None


async def get_signatures(request: web.Request, query: PartQuery) -> SignatureAudit:
    """Verify the signatures and the content of a part of the catalog.

    The answer counts the copies by authority and finding: `verified`, `unsigned`, `unknown` (no key
    of the authority is known), `false` (no valid signature by a known key) and `damaged`. `after`
    is the position of the next part. `pinned` has the authorities with trusted keys; the keys of
    the remaining authorities come from histories of the authorities or of relays.
    """
    context = request[CONTEXT]
    async with context.database.acquire() as connection:
        part = await _read(connection, query.after)
        authorities = {copy.authority for copy, _ in part.copies}
        pinned = Trust.of(await load_trusted(connection, authorities))
        trust = await _believed(context, connection, authorities, pinned)
    # Verification releases the interpreter lock, so the event loop runs on beside the thread.
    counts, faults = await asyncio.to_thread(_audit, part.copies, trust)
    return SignatureAudit(
        counts=counts, pinned=sorted(pinned.keys), faults=faults, after=part.after
    )


async def _read(connection: Connection, after: str) -> _Part:
    if not after.startswith(_TOMBSTONES):
        found = await digests.page_computed(connection, after, _AT_ONCE)
        return _Part(copies=found, after=found[-1][0].xid if found else _TOMBSTONES)
    authority, _, xid = after.removeprefix(_TOMBSTONES).partition("\n")
    ends = await digests.page_ends(connection, Origin(authority, xid), _AT_ONCE)
    last = f"{_TOMBSTONES}{ends[-1].authority}\n{ends[-1].origin}" if ends else None
    return _Part(copies=[(end, end.digest) for end in ends], after=last)


async def _believed(
    context: Context, connection: Connection, authorities: Collection[str], pinned: Trust
) -> Trust:
    """The trusted keys, and the known keys of authorities without trusted keys."""
    keys: dict[str, Mapping[str, bytes]] = dict(pinned.keys)
    for authority, history in (await load_histories(connection, authorities)).items():
        is_own = authority == context.database.node.authority
        if authority not in keys and (is_own or is_consistent(history)):
            keys[authority] = {
                entry.public.id: b"" if entry.revokedat else entry.public.key
                for entry in history.keys
            }
    return Trust(keys=keys)


def _audit(
    copies: Sequence[tuple[SignedCopy, bytes]], trust: Trust
) -> tuple[dict[str, dict[Finding, int]], list[SignatureFault]]:
    counts: defaultdict[str, Counter[Finding]] = defaultdict(Counter)
    faults: list[SignatureFault] = []
    for copy, computed in copies:
        outcome, detail = _check(copy, computed, trust)
        counts[copy.authority][outcome] += 1
        if outcome in ("false", "damaged") and len(faults) < _MOST_FAULTS:
            faults.append(SignatureFault(authority=copy.authority, xid=copy.xid, detail=detail))
    return {authority: dict(count) for authority, count in counts.items()}, faults


def _check(copy: Entity | Tombstone, computed: bytes, trust: Trust) -> tuple[Finding, str]:
    if computed != copy.digest:
        return "damaged", "its content is not what its digest stands for"
    if copy.signature is None:
        return "unsigned", ""
    if not trust.is_pinned(copy.authority):
        return "unknown", ""
    fault = trust.fault_of(copy)
    return ("false", fault) if fault else ("verified", "")


routes: Sequence[Route] = (Route(CHECK_SIGNATURES, get_signatures),)
