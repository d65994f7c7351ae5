"""Takes the chosen copies of the node's entities from its replicas."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from catalog.client import Client
from catalog.context import Context
from catalog.model.entity import Origin, Tombstone
from catalog.model.xid import Xid
from catalog.operations.feed import Verdict
from catalog.operations.recovery import ChoiceState
from replication.applying.apply import AppliedBatch, Batch, apply_batch
from replication.deciding.batch import CopyFinding
from replication.deciding.copychecks import Copy, Incoming, MalformedCopy
from replication.deciding.decide import SETTLED
from replication.deciding.provenance import Policy
from replication.deciding.trust import Trust
from replication.feed.feedlines import FeedEnd, read_line
from replication.peers.linkbounds import Allowance
from replication.sources.copypages import COPIES_OF_ONE, pages_of
from replication.sources.replicasurvey import naming
from replication.store import recoveries
from replication.store.recoveries import AnnouncedCopy, WantedCopy

_AT_ONCE = 500
# With several pages at a time, a page is fetched while the preceding page is applied.
_PAGES = 8
_TAKEN = frozenset({Verdict.APPLY, Verdict.CURRENT})
_WITHHELD = "no replica sends the copy that it announced"
_BELOW_DELETED = "something above it was deleted"
_GIVEN_UP = "it could not be taken, and was given up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """The sources by their numbers, and the keys for the signatures of copies."""

    peers: Mapping[int, Client]
    keys: Trust


async def take_once(context: Context, replicas: Replicas) -> int:
    """Take the next wanted copies; return their number.

    A copy that a replica announced but does not send is taken from a different replica. A copy that
    has changed at the replica, or lacks a required signature, is chosen anew.

    Raises:
        ClientError: a source does not answer.
        CatalogRecovering: the recovery has ended.
    """
    async with context.database.acquire() as connection:
        wanted = await recoveries.next_wanted(connection, _PAGES * _AT_ONCE)
    by_source: dict[int | None, list[WantedCopy]] = defaultdict(list)
    for copy in wanted:
        by_source[copy.source].append(copy)
    for source, copies in by_source.items():
        if source is None:
            await _settle(context, [(copy.origin, "refused", _WITHHELD) for copy in copies])
        else:
            await _take_from(context, replicas, source, copies)
    return len(wanted)


async def bury_orphans(context: Context) -> None:
    """Delete the entities below deleted entities.

    A replica that missed a deletion still has the children of the deleted entity.
    """
    while True:
        async with context.database.acquire() as connection:
            authority = context.database.node.authority
            orphans = await recoveries.orphans(connection, authority, _AT_ONCE)
        if not orphans:
            return
        await _bury(context, orphans, _BELOW_DELETED)


async def bury_refused(context: Context) -> None:
    """Delete the entities that cannot be taken, at this node and thereby at every replica."""
    while True:
        async with context.database.acquire() as connection:
            refused = await recoveries.refused(connection, _AT_ONCE)
        if not refused:
            return
        await _bury(context, refused, _GIVEN_UP)


async def _take_from(
    context: Context, replicas: Replicas, source: int, wanted: Sequence[WantedCopy]
) -> None:
    own, peer = context.database.node.authority, replicas.peers[source]
    announced = {copy.origin: copy for copy in wanted}
    sent: dict[str, Copy] = {}
    faults: dict[str, str] = {}

    lines = _fetch(peer, [Origin(own, origin) for origin in announced])
    pages = pages_of(context, lines, Allowance.of(context.settings, COPIES_OF_ONE * len(wanted)))
    with naming(peer):
        async with contextlib.aclosing(pages):
            async for page in pages:
                whole = {c.origin: c for c in _whole(page.copies, own) if c.origin in announced}
                sent.update(whole)
                exact = [copy for copy in whole.values() if _is_same(copy, announced[copy.origin])]
                # Verification releases the interpreter lock.
                found = await asyncio.to_thread(_faults_of, exact, replicas.keys)
                faults.update(found)
                if proven := [copy for copy in exact if copy.origin not in found]:
                    page.applied = await _apply(context, proven)
    changed = [copy for copy in sent.values() if not _is_same(copy, announced[copy.origin])]
    spoilt = announced.keys() - sent.keys()
    if changed or spoilt or faults:
        async with context.database.transaction() as connection:
            await recoveries.change_copies(connection, source, [_announced(c) for c in changed])
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


async def _apply(context: Context, copies: Sequence[Copy]) -> AppliedBatch:
    applied = await apply_batch(context, Batch(copies=copies, policy=_policy(context)))
    await _settle(context, [_outcome(finding) for finding in applied.findings])
    return applied


async def _bury(context: Context, epochs: Mapping[str, int], reason: str) -> None:
    """Delete entities with these epochs; a failed deletion is noted and otherwise ignored."""
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


def _whole(copies: Iterable[Incoming], own: str) -> Iterator[Copy]:
    for copy in copies:
        if isinstance(copy, MalformedCopy) or copy.authority != own:
            continue
        if isinstance(copy, Tombstone) or copy.is_intact():
            yield copy


def _is_same(copy: Copy, announced: WantedCopy) -> bool:
    return (copy.epoch, copy.digest) == (announced.epoch, announced.digest)


def _announced(copy: Copy) -> AnnouncedCopy:
    return AnnouncedCopy(
        origin=copy.origin,
        epoch=copy.epoch,
        is_deleted=isinstance(copy, Tombstone),
        digest=copy.digest,
    )


def _outcome(finding: CopyFinding) -> tuple[str, ChoiceState, str]:
    if finding.verdict in SETTLED:
        return finding.origin.xid, "taken" if finding.verdict in _TAKEN else "kept", ""
    return finding.origin.xid, "refused", finding.detail or f"it was {finding.verdict.value}"
