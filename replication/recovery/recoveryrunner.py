"""Runs the recovery of a node: reads the replicas, chooses and takes copies, and ends it.

Every step can be repeated, so after a crash a recovery continues from its stored state.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from datetime import UTC, datetime, timedelta
from functools import partial

import structlog

from catalog.client import Client, ClientError
from catalog.context import Context
from catalog.model.authoritykey import KeyHistory, PublicKey
from catalog.model.concorderrors import CatalogRecovering
from catalog.model.entity import Origin, Tombstone
from catalog.model.errors import ServerBusy
from catalog.model.xid import Xid
from catalog.operations.feed import Verdict
from catalog.operations.recovery import ChoiceState
from catalog.store import authoritykeys
from catalog.store.database import Connection, wait_for
from catalog.store.locks import Touched, lock_and_load
from catalog.supervisor import backoff_from
from replication.applying.apply import Batch, apply_batch
from replication.applying.deletionlimit import passes_limit
from replication.deciding.copychecks import Copy, MalformedCopy
from replication.deciding.decide import SETTLED
from replication.deciding.provenance import Policy
from replication.deciding.trust import Trust, is_consistent, is_endorsed, keys_of
from replication.feed.feedlines import FeedEnd, read_line
from replication.peers.keyhistories import fetch_histories
from replication.peers.linkbounds import Allowance
from replication.peers.linkerrors import cause_of
from replication.peers.peeraccess import access_of_row
from replication.recovery.replicasurvey import Replica, naming, survey
from replication.sources.copypages import COPIES_OF_ONE, pages_of
from replication.store import recoveries
from replication.store.linkconflicts import CopyFinding
from replication.transfer.linkrun import LinkResources, until_woken

_log = structlog.get_logger(__name__)

_AT_ONCE = 500
# With several pages at a time, a page is fetched while the preceding page is applied.
_PAGES = 8
_TAKEN = frozenset({Verdict.APPLY, Verdict.CURRENT})
_WITHHELD = "no replica sends the copy that it announced"
_BELOW_DELETED = "something above it was deleted"
_GIVEN_UP = "it could not be taken, and was given up"
_LOOK_SECONDS = 30.0
# A bound for replicas whose copies change at every request.
_MOST_ROUNDS = 20
# The gate is closed while a recovery works; an open gate shows that the recovery was ended.
_LOCKED = Touched(catalog_exclusive=True, refused_at=frozenset({"open", "model"}))


class RecoveryRunner:
    """Carries out a running recovery of the node.

    `wakeup` interrupts the current step or pause, and makes the runner read the recovery again.
    """

    def __init__(self, resources: LinkResources) -> None:
        self.wakeup = asyncio.Event()
        self._context = resources.context
        self._database = resources.context.database
        self._resources = resources
        self._random = resources.timing.random
        self._backoff = backoff_from(resources.context.settings)

    async def run(self) -> None:
        """Carry out recoveries, for ever."""
        while True:
            try:
                await self._run_once()
            except ServerBusy:
                await self._database.recovered()
            # An operator has ended or replaced the recovery.
            except (CatalogRecovering, recoveries.RecoveryReplaced):
                continue

    async def _run_once(self) -> None:
        # Cleared before the state is read, so that no later change gets lost.
        self.wakeup.clear()
        async with self._database.acquire() as connection:
            recovery = await recoveries.read(connection)
        if recovery is None or recovery.state not in recoveries.UNDER_WAY:
            if recovery is not None and recovery.state == "awaited":
                _log.warning("the node takes no writes", hint="concord recover --from URL")
            await wait_for(self.wakeup, _LOOK_SECONDS)
            return
        try:
            await until_woken(self._carry_on(recovery), self.wakeup)
        except ClientError as error:
            _log.warning("recovery interrupted", cause=cause_of(error))
            await self._fail(recovery, f"{error.message} {error.hint}".strip())
        except (ServerBusy, CatalogRecovering, recoveries.RecoveryReplaced):
            raise
        # The runner shares its task group with the links, so an unexpected error must not escape.
        except Exception as error:
            _log.exception("recovery failed")
            await self._fail(recovery, f"{type(error).__name__}: {error}")

    async def _carry_on(self, recovery: recoveries.Recovery) -> None:
        """Do the next part of the work, up to the next state."""
        if recovery.state == "reading":
            await self._read(recovery)
        elif recovery.state == "taking":
            await self._take(recovery)
        else:
            await bury_refused(self._context)
            await self._end(recovery)

    async def _read(self, recovery: recoveries.Recovery) -> None:
        for source in recovery.sources:
            if not source.isread:
                peer = await self._peer(source)
                await survey(Replica(context=self._context, peer=peer), source)
        async with self._database.transaction() as connection:
            await recoveries.move_on(connection, recovery, "taking", "closed")

    async def _take(self, recovery: recoveries.Recovery) -> None:
        peers = {source.number: await self._peer(source) for source in recovery.sources}
        keys = await find_keys(self._context, recovery, peers.values())
        valid = sorted(id for known in keys.keys.values() for id, key in known.items() if key)
        async with self._database.transaction() as connection:
            await recoveries.note_keys(connection, recovery, valid)
        # A copy that has changed or is in doubt is chosen anew: rounds follow until none is taken.
        for _ in range(_MOST_ROUNDS):
            if await self._choose(recovery):
                return
            taken = 0
            while number := await take_once(self._context, peers, keys):
                taken += number
            if not taken:
                break
        else:
            raise ClientError("Its replicas change whenever they are read.")
        await self._conclude(recovery)

    async def _choose(self, recovery: recoveries.Recovery) -> bool:
        """Choose copies; say whether the operator has to allow their deletions first."""
        authority = self._database.node.authority
        async with self._database.transaction() as connection:
            await recoveries.choose(connection, authority)
            found = await recoveries.removals(connection, authority)
            total, held = found.removed + found.about, found.held + found.removed
            is_allowed = not found.about or total <= recovery.allowed
            if is_allowed or not passes_limit(self._context.settings, total, held):
                return False
            question = (
                f"It is about to delete {total:,} of the {held:,} entities that are here, since "
                f"replicas say that they are deleted. If that is right, run `concord recover "
                f"resume --allow {total}`."
            )
            await recoveries.ask(connection, recovery, question)
        _log.warning("recovery asks", question=question)
        return True

    async def _conclude(self, recovery: recoveries.Recovery) -> None:
        """End a recovery that has taken every copy, or block it if copies were refused."""
        await bury_orphans(self._context)
        async with self._database.acquire() as connection:
            is_blocked = await recoveries.refused(connection, 1)
        if not is_blocked:
            await self._end(recovery)
            return
        async with self._database.transaction() as connection:
            await lock_and_load(connection, _LOCKED)
            await recoveries.move_on(connection, recovery, "blocked", "model")
        _log.warning("recovery blocked", hint="concord recover show")

    async def _end(self, recovery: recoveries.Recovery) -> None:
        async with self._database.transaction() as connection:
            await lock_and_load(connection, _LOCKED)
            await recoveries.note_partial(connection, self._database.node.authority)
            await recoveries.end(connection, recovery, "done", datetime.now(UTC))
        _log.info("recovered", sources=[source.url for source in recovery.sources])

    async def _fail(self, recovery: recoveries.Recovery, message: str) -> None:
        seconds = self._backoff.delay(recovery.failures + 1, self._random)
        at = datetime.now(UTC) + timedelta(seconds=seconds)
        async with self._database.acquire() as connection:
            await recoveries.fail(connection, recovery, message[:1000], at)
        await wait_for(self.wakeup, seconds)

    async def _peer(self, source: recoveries.RecoverySource) -> Client:
        url = source.url
        access = await access_of_row(self._context, url, source.sealed, "recovery_sources", url)
        return self._resources.client_of(url, access)


async def find_keys(
    context: Context, recovery: recoveries.Recovery, peers: Iterable[Client]
) -> Trust:
    """The keys of this authority that have to sign the copies of replicas.

    The backup of a signing authority has its keys, and an operator may have named keys; replicas
    know the later keys. A node without keys believes the keys that replicas show, if the replicas
    agree. If no key is known, no signature is needed.

    Raises:
        ClientError: a replica does not answer, or the replicas show different keys.
    """
    if recovery.is_unsigned_taken:
        return Trust()
    authority = context.database.node.authority
    keys = await _known_here(context, recovery)
    if keys is None:
        return Trust()
    shown: list[KeyHistory] = []
    for peer in peers:
        with naming(peer):
            found = await fetch_histories(peer, [authority])
        shown += filter(is_consistent, found)
    if not keys and shown:
        keys = _agreed(shown)
    for history in sorted(shown, key=lambda each: each.order):
        if is_endorsed(history, keys):
            revoked = {id: key for id, key in keys.items() if not key}
            keys |= keys_of(history.keys) | revoked
    return Trust(keys={authority: keys}) if keys else Trust()


async def _known_here(context: Context, recovery: recoveries.Recovery) -> dict[str, bytes] | None:
    """The node's former keys and the named keys.

    `None` if the node has keys but signing was off, and no key is named: then no signature is
    needed.
    """
    async with context.database.acquire() as connection:
        own = await authoritykeys.load_keys_of_own(connection)
        state = await authoritykeys.read_signing(connection)
    named = {key.id: key.key for key in map(PublicKey.parse, recovery.named)}
    if state.number is not None:
        return {**named, **keys_of(own)}
    return None if own and not named else named


def _agreed(shown: Collection[KeyHistory]) -> dict[str, bytes]:
    """The keys of the latest history, which every other history has to lead to."""
    latest = max(shown, key=lambda each: each.order)
    if not all(is_endorsed(latest, keys_of(each.keys)) for each in shown):
        keys = ", ".join(sorted({str(each.current) for each in shown}))
        raise ClientError(
            f"The replicas show keys of this authority that do not belong together: {keys}.",
            "Name the true one: concord recover --from URL --trust KEY.",
        )
    return keys_of(latest.keys)


async def take_once(context: Context, peers: Mapping[int, Client], keys: Trust) -> int:
    """Take the next wanted copies from the sources, by their numbers; return the number of copies.

    A copy that a replica announced but does not send is taken from a different replica. A copy that
    has changed at the replica, or lacks a required signature, is chosen anew.

    Raises:
        ClientError: a source does not answer.
        CatalogRecovering: the recovery has ended.
    """
    async with context.database.acquire() as connection:
        wanted = await recoveries.next_wanted(connection, _PAGES * _AT_ONCE)
    by_source: dict[int | None, list[recoveries.WantedCopy]] = defaultdict(list)
    for copy in wanted:
        by_source[copy.source].append(copy)
    for source, copies in by_source.items():
        if source is None:
            await _settle(context, [(copy.origin, "refused", _WITHHELD) for copy in copies])
        else:
            await _take_from(context, source, peers[source], keys, copies)
    return len(wanted)


async def bury_orphans(context: Context) -> None:
    """Delete the entities below deleted entities.

    A replica that missed a deletion still has the children of the deleted entity.
    """
    find = partial(recoveries.orphans, authority=context.database.node.authority, limit=_AT_ONCE)
    await _bury_all(context, find, _BELOW_DELETED)


async def bury_refused(context: Context) -> None:
    """Delete the entities that cannot be taken, at this node and thereby at every replica."""
    await _bury_all(context, partial(recoveries.refused, limit=_AT_ONCE), _GIVEN_UP)


async def _take_from(
    context: Context,
    source: int,
    peer: Client,
    keys: Trust,
    wanted: Sequence[recoveries.WantedCopy],
) -> None:
    own = context.database.node.authority
    announced = {copy.origin: copy for copy in wanted}
    sent: dict[str, Copy] = {}
    faults: dict[str, str] = {}

    lines = _fetch(peer, [Origin(own, origin) for origin in announced])
    pages = pages_of(context, lines, Allowance.of(context.settings, COPIES_OF_ONE * len(wanted)))
    with naming(peer):
        async with contextlib.aclosing(pages):
            async for page in pages:
                whole = {
                    copy.origin: copy
                    for copy in page.copies
                    if not isinstance(copy, MalformedCopy)
                    and (copy.authority == own and copy.origin in announced)
                    and (isinstance(copy, Tombstone) or copy.is_intact())
                }
                sent.update(whole)
                exact = [copy for copy in whole.values() if _is_same(copy, announced[copy.origin])]
                # Verification releases the interpreter lock.
                found = await asyncio.to_thread(_faults_of, exact, keys)
                faults.update(found)
                # After a crash between the two transactions, the copy is fetched and settled again.
                if proven := [copy for copy in exact if copy.origin not in found]:
                    batch = Batch(copies=proven, policy=_policy(context))
                    page.applied = applied = await apply_batch(context, batch)
                    await _settle(context, map(_outcome, applied.findings))
    changed = [copy for copy in sent.values() if not _is_same(copy, announced[copy.origin])]
    spoilt = announced.keys() - sent.keys()
    if changed or spoilt or faults:
        async with context.database.transaction() as connection:
            told = [
                recoveries.AnnouncedCopy(
                    origin=copy.origin,
                    epoch=copy.epoch,
                    is_deleted=isinstance(copy, Tombstone),
                    digest=copy.digest,
                )
                for copy in changed
            ]
            await recoveries.change_copies(connection, source, told)
            await recoveries.spoil_copies(connection, source, spoilt)
            if faults:
                await recoveries.doubt_copies(connection, source, list(faults.items()))


async def _fetch(peer: Client, origins: Sequence[Origin]) -> AsyncGenerator[bytes]:
    """The lines of origins, requested in parts, with the end of the last part only."""
    last = b""
    for start in range(0, len(origins), _AT_ONCE):
        part, last = origins[start : start + _AT_ONCE], b""
        async with contextlib.aclosing(peer.fetch_lines(part)) as lines:
            async for line in lines:
                # A line is held back until the next line shows that it does not end a part.
                if last:
                    yield last
                last = line
        if not last or not isinstance(read_line(last), FeedEnd):
            return
    yield last


def _faults_of(copies: Iterable[Copy], keys: Trust) -> dict[str, str]:
    """The reasons why copies are not proven to be of this authority, by origin."""
    return {copy.origin: fault for copy in copies if (fault := keys.fault_of(copy))}


async def _bury_all(
    context: Context, find: Callable[[Connection], Awaitable[Mapping[str, int]]], reason: str
) -> None:
    """Delete the entities that are found, with their epochs; a failed deletion is only noted."""
    while True:
        async with context.database.acquire() as connection:
            epochs = await find(connection)
        if not epochs:
            return
        tombstones = [
            Tombstone(
                xid=origin,
                kind=Xid.parse(origin).kind,
                authority=context.database.node.authority,
                origin=origin,
                epoch=epoch + 1,
                deletedat=datetime.now(UTC),
            )
            for origin, epoch in epochs.items()
        ]
        # Each is settled whatever its verdict, or the loop would find it for ever.
        applied = await apply_batch(context, Batch(copies=tombstones, policy=_policy(context)))
        outcomes: list[tuple[str, ChoiceState, str]] = []
        for finding in applied.findings:
            is_settled = finding.verdict in SETTLED
            detail = reason if is_settled else f"it is left out: {finding.detail}"
            outcomes.append((finding.origin.xid, "buried", detail))
        await _settle(context, outcomes)


async def _settle(context: Context, outcomes: Iterable[tuple[str, ChoiceState, str]]) -> None:
    async with context.database.transaction() as connection:
        await recoveries.settle(connection, outcomes)


def _policy(context: Context) -> Policy:
    """The policy for chosen copies, which also replace held entities of equal epochs."""
    own = context.database.node.authority
    return Policy(own=own, authorities=frozenset({own}), is_trusted=True, is_recovering=True)


def _is_same(copy: Copy, announced: recoveries.WantedCopy) -> bool:
    return (copy.epoch, copy.digest) == (announced.epoch, announced.digest)


def _outcome(finding: CopyFinding) -> tuple[str, ChoiceState, str]:
    if finding.verdict in SETTLED:
        return finding.origin.xid, "taken" if finding.verdict in _TAKEN else "kept", ""
    return finding.origin.xid, "refused", finding.detail or f"it was {finding.verdict.value}"
