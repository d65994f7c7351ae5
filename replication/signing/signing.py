"""Signs the entities of this authority, and verifies the signatures of the catalog on request.

While a key signs, a write is signed in its own transaction; a loop signs older entities.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import structlog
from aiohttp import web

from catalog.context import CONTEXT, Context
from catalog.http.route import Route
from catalog.keys.entitysignature import EntitySigner, new_seed
from catalog.load.workthread import aside
from catalog.model.authoritykey import MOST_KEYS, KeyEntry, KeyHistory
from catalog.model.concorderrors import LimitReached, UnresolvedConflict
from catalog.model.entity import Origin
from catalog.model.errors import ServerBusy
from catalog.operations import signing
from catalog.operations.peers import ShownKey
from catalog.store import authoritykeys as store
from catalog.store.database import Connection, wait_for
from catalog.store.leadership import take_over
from catalog.store.locks import Touched, lock_and_load
from catalog.store.writes import Write, write
from replication.deciding.batch import change_of
from replication.deciding.copychecks import Copy
from replication.deciding.trust import Trust, is_consistent, keys_of
from replication.store import digests
from replication.store.trustedkeys import load_histories, load_trusted, save_history

_log = structlog.get_logger(__name__)

_SIGNED_AT_ONCE = 500
_VERIFIED_AT_ONCE = 1000
_MOST_FAULTS = 20
# The pause lets client writes run between batches.
_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 30.0
_SHORTEST_PAUSE_SECONDS = 1.0
# The position of a tombstone has this prefix; positions of entities are paths and come first.
_TOMBSTONES = "deleted:"


async def get_signing(request: web.Request) -> signing.Signing:
    """Show whether this authority signs, and its keys."""
    async with request[CONTEXT].database.acquire() as connection:
        return await _show(request[CONTEXT], connection)


async def put_signing(request: web.Request, wanted: signing.SigningSwitch) -> signing.Signing:
    """Begin to sign, by the last key or a first key, or end signing."""
    context = request[CONTEXT]
    async with context.database.transaction() as connection:
        # The exclusive lock waits for running writes, so that every later write sees the switch.
        await lock_and_load(connection, Touched(catalog_exclusive=True))
        state = await store.read_signing(connection)
        if wanted.on and state.number is None:
            await _begin(context, connection, request.path)
        elif not wanted.on:
            await store.sign_by(connection, None)
        shown = await _show(context, connection)
    context.database.signal.set()
    return shown


async def rotate_key(request: web.Request, wanted: signing.KeyRotation) -> signing.Signing:
    """Let a new key sign from now on; the old key endorses the new key.

    With `revoke`, signatures of the old key become invalid, and its entities are signed anew.
    """
    context = request[CONTEXT]
    async with context.database.transaction() as connection:
        await lock_and_load(connection, Touched(catalog_exclusive=True))
        state = await store.read_signing(connection)
        if state.number is None:
            fault = "nothing is signed; `concord signing set on` begins with it"
            raise UnresolvedConflict(request.path, error_detail=fault)
        former = await context.signers.get(connection, state.number)
        made = await _make_key(context, connection, former, request.path)
        now = datetime.now(UTC)
        await store.retire_own_key(connection, state.number, now, revokes=wanted.revoke)
        await _sign_by(connection, made)
        shown = await _show(context, connection)
    # Not before the commit: until then, a write in another transaction may sign by the old key.
    context.signers.forget(state.number)
    context.database.signal.set()
    return shown


async def run_signing(context: Context) -> None:
    """Sign older entities, for ever, in one process of the node at a time."""
    while True:
        ticket = context.database.signal.ticket()
        try:
            has_more = await sign_once(context)
        except (ServerBusy, TimeoutError):
            await context.database.recovered()
            continue
        if not has_more:
            await wait_for(ticket, _LONGEST_PAUSE_SECONDS)
        await asyncio.sleep(_PAUSE_SECONDS if has_more else _SHORTEST_PAUSE_SECONDS)


async def sign_once(context: Context) -> bool:
    """Sign a batch of entities without a valid signature; say whether more may remain."""
    async with context.database.acquire() as connection:
        state = await store.read_signing(connection)
        if state.number is None or state.after is None:
            return False
        async with take_over(connection, "signing") as is_alone:
            return is_alone and await _sign_batch(context)


async def _sign_batch(context: Context) -> bool:
    authority = context.database.node.authority
    async with context.database.transaction() as connection:
        # The state may have changed since `sign_once` read it outside this transaction.
        state = await store.read_signing(connection)
        signer = await context.signers.get(connection, state.number)
        if signer is None or state.after is None:
            return False
        keys = await store.load_keys_of_own(connection)
        revoked = [entry.public.id for entry in keys if entry.revokedat is not None]
        is_of_ends = state.after.startswith(_TOMBSTONES)
        find = store.lock_unsigned_tombstones if is_of_ends else store.lock_unsigned
        after = state.after.removeprefix(_TOMBSTONES)
        found: Sequence[Copy] = await find(connection, authority, after, revoked, _SIGNED_AT_ONCE)
        next_after = None if is_of_ends else _TOMBSTONES
        if found:
            next_after = _TOMBSTONES + found[-1].origin if is_of_ends else found[-1].xid
        signed = await aside(len(found), lambda: [signer.signed(each) for each in found])
        changes = [change_of(each, "signed") for each in signed]
        made = Write(
            interaction=uuid.uuid4().hex,
            at=datetime.now(UTC),
            author=context.caller.author,
            signed=signed,
            changes=changes,
        )
        # The place is committed with the signatures, so a crash signs nothing twice.
        await write(connection, made)
        await store.note_signed(connection, next_after)
    if changes:
        context.database.signal.set(changes)
    return next_after is not None


async def _begin(context: Context, connection: Connection, subject: str) -> None:
    """Sign by the last key, if its secret can be read, otherwise by a new key."""
    keys = await store.load_keys_of_own(connection)
    last = keys[-1].public.number if keys else None
    signer = await context.signers.get(connection, last)
    if signer is None:
        signer = await _make_key(context, connection, None, subject)
        if last is not None:
            await store.retire_own_key(connection, last, datetime.now(UTC), revokes=False)
    await _sign_by(connection, signer)


async def _make_key(
    context: Context, connection: Connection, former: EntitySigner | None, subject: str
) -> EntitySigner:
    """Make and store a key, endorsed by the former key if that can still sign."""
    keys = await store.load_keys_of_own(connection)
    if len(keys) >= MOST_KEYS:
        raise LimitReached(subject, limit=str(MOST_KEYS), things="keys", setting="fixed")
    seed, authority = new_seed(), context.database.node.authority
    signer = EntitySigner.of(authority, keys[-1].public.number + 1 if keys else 1, seed)
    entry = KeyEntry(public=signer.public, createdat=datetime.now(UTC))
    if former is not None:
        entry = replace(entry, endorsement=former.sign(entry.endorsed(authority)))
    await store.add_own_key(connection, context.keys, entry, seed)
    _log.info("a key was made", key=str(signer.public))
    return signer


async def _sign_by(connection: Connection, signer: EntitySigner) -> None:
    """Sign every entity by a key from now on, and publish the history of this authority's keys."""
    await store.sign_by(connection, signer.public.number)
    await store.note_signed(connection, "")
    keys = await store.load_keys_of_own(connection)
    history = KeyHistory(authority=signer.authority, keys=keys, at=datetime.now(UTC))
    await save_history(connection, replace(history, signature=signer.sign(history.signed())))


async def _show(context: Context, connection: Connection) -> signing.Signing:
    state = await store.read_signing(connection)
    keys = await store.load_keys_of_own(connection)
    current = [entry for entry in keys if entry.public.number == state.number]
    return signing.Signing(
        authority=context.database.node.authority,
        on=state.number is not None,
        key=str(current[0].public) if current else None,
        complete=state.number is not None and state.after is None,
        keys=[ShownKey.model_validate(entry.as_json()) for entry in keys],
    )


async def get_signatures(request: web.Request, query: signing.PartQuery) -> signing.SignatureAudit:
    """Verify the signatures and the content of a part of the catalog.

    The answer counts the copies by authority and finding: `verified`, `unsigned`, `unknown` (no key
    of the authority is known), `false` (no valid signature by a known key) and `damaged`. `after`
    is the position of the next part. `pinned` has the authorities with trusted keys; the keys of
    the remaining authorities come from histories of the authorities or of relays.
    """
    context = request[CONTEXT]
    async with context.database.acquire() as connection:
        copies, after = await _read_part(connection, query.after)
        authorities = {copy.authority for copy, _ in copies}
        pinned = Trust.of(await load_trusted(connection, authorities))
        trust = await _believed(context, connection, authorities, pinned)
    # Verification releases the interpreter lock, so the event loop runs on beside the thread.
    counts, faults = await asyncio.to_thread(_audit, copies, trust)
    return signing.SignatureAudit(
        counts=counts, pinned=sorted(pinned.keys), faults=faults, after=after
    )


async def _read_part(
    connection: Connection, after: str
) -> tuple[Sequence[tuple[Copy, bytes]], str | None]:
    """Copies with the digests of their content, and the position of the next part."""
    if not after.startswith(_TOMBSTONES):
        found = await digests.page_computed(connection, after, _VERIFIED_AT_ONCE)
        return found, found[-1][0].xid if found else _TOMBSTONES
    authority, _, xid = after.removeprefix(_TOMBSTONES).partition("\n")
    ends = await digests.page_ends(connection, Origin(authority, xid), _VERIFIED_AT_ONCE)
    last = f"{_TOMBSTONES}{ends[-1].authority}\n{ends[-1].origin}" if ends else None
    return [(end, end.digest) for end in ends], last


async def _believed(
    context: Context, connection: Connection, authorities: Collection[str], pinned: Trust
) -> Trust:
    """The trusted keys, and the known keys of authorities without trusted keys."""
    keys: dict[str, Mapping[str, bytes]] = dict(pinned.keys)
    for authority, history in (await load_histories(connection, authorities)).items():
        is_own = authority == context.database.node.authority
        if authority not in keys and (is_own or is_consistent(history)):
            keys[authority] = keys_of(history.keys)
    return Trust(keys=keys)


def _audit(
    copies: Sequence[tuple[Copy, bytes]], trust: Trust
) -> tuple[dict[str, dict[signing.Finding, int]], list[signing.SignatureFault]]:
    counts: defaultdict[str, Counter[signing.Finding]] = defaultdict(Counter)
    faults: list[signing.SignatureFault] = []
    for copy, computed in copies:
        outcome, detail = _check(copy, computed, trust)
        counts[copy.authority][outcome] += 1
        if outcome in ("false", "damaged") and len(faults) < _MOST_FAULTS:
            faults.append(
                signing.SignatureFault(authority=copy.authority, xid=copy.xid, detail=detail)
            )
    return {authority: dict(count) for authority, count in counts.items()}, faults


def _check(copy: Copy, computed: bytes, trust: Trust) -> tuple[signing.Finding, str]:
    if computed != copy.digest:
        return "damaged", "its content is not what its digest stands for"
    if copy.signature is None:
        return "unsigned", ""
    if not trust.is_pinned(copy.authority):
        return "unknown", ""
    fault = trust.fault_of(copy)
    return ("false", fault) if fault else ("verified", "")


routes: Sequence[Route] = (
    Route(signing.GET_SIGNING, get_signing),
    Route(signing.SET_SIGNING, put_signing),
    Route(signing.ROTATE_KEY, rotate_key),
    Route(signing.CHECK_SIGNATURES, get_signatures),
)
