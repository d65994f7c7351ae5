"""Brings copies by a link: a page of the source's feed, a snapshot, or single origins again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from catalog.client import Client, ClientError, Unreachable
from catalog.context import Context
from catalog.model.entity import Origin
from catalog.model.linkterms import is_scope
from catalog.model.masking import counted
from catalog.operations.feed import Verdict
from catalog.operations.peers import MOST_ORIGINS, Handshake
from catalog.store import linkconflicts
from catalog.store.linkconflicts import LinkConflict
from catalog.store.links import Link
from replication.applying.apply import AppliedBatch, Batch, apply_batch
from replication.deciding.addresses import rules_of
from replication.deciding.copychecks import CheckedCopies, Incoming
from replication.deciding.decide import CONFLICTS
from replication.deciding.mapping import mapping_of
from replication.deciding.pinning import policy_of
from replication.deciding.provenance import Policy
from replication.feed.feedlines import FeedEnd, read_line
from replication.peers.keyhistories import ensure_keys
from replication.peers.linkbounds import Allowance, LinkGate
from replication.signing.signaturechecks import AHEAD, begin_ahead

_MOST_COPIES = 2000
_MOST_BYTES = 8 * 1024 * 1024
_PAGE = 1000
# A page has the entities that changed, and what is above each of them.
COPIES_OF_ONE = 4
# The copies that are read and checked in one go, while another batch is applied.
_SLICE = 16
# The size of the batches that other writes wait for.
_COPIES_AMONG_OTHERS = 200


@dataclass(slots=True)
class Arrived:
    """The bytes of a peer that were counted with a batch so far."""

    counted: int = 0

    def take(self, received: int) -> int:
        """Count, with the next batch, all that was `received` since the last one."""
        since, self.counted = received - self.counted, received
        return since

    def add(self, size: int) -> None:
        """Count, with the next batch, bytes that came by another client than the peer's."""
        self.counted -= size


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """A link with its source, after their handshake.

    `gate` limits how many batches of all links are applied at a time, `arrived` counts the bytes
    that the peer has sent.
    """

    context: Context
    link: Link
    peer: Client
    source: Handshake
    gate: LinkGate
    arrived: Arrived = field(default_factory=Arrived)

    @property
    def policy(self) -> Policy:
        return policy_of(
            self.link.definition,
            own=self.context.database.node.authority,
            source=self.source.authority,
        )

    @property
    def filters(self) -> list[tuple[str, str]]:
        """The query parameters that keep the source from sending copies that would be refused."""
        policy = self.policy
        authorities = [("authority", each) for each in sorted(policy.authorities or ())]
        scope = [("scope", path) for path in policy.scope]
        return authorities + scope + [("type", each) for each in policy.types]


@dataclass(slots=True, kw_only=True)
class Brought:
    """The cursor to go on from, with the numbers of copies, of changes that they made, of entities
    that they deleted, and of copies that could not be applied."""

    cursor: str
    copies: int = 0
    changes: int = 0
    deleted: int = 0
    conflicts: int = 0

    @property
    def text(self) -> str:
        """The numbers for the history of a link."""
        brought = f"{counted(self.copies, 'copies')}, {counted(self.changes, 'changes')}"
        return f"{brought}, {self.deleted} deleted"

    def add(self, applied: AppliedBatch) -> None:
        self.copies += len(applied.findings)
        self.changes += applied.changes
        self.deleted += applied.deleted
        self.conflicts += sum(finding.verdict in CONFLICTS for finding in applied.findings)


async def pull_once(flow: Flow, cursor: str, *, wait_seconds: float) -> Brought:
    """Apply one page of the source's feed, and save its cursor in the same transaction.

    Raises:
        ClientError: after `CursorExpired`, a bootstrap is needed.
    """
    lines = flow.peer.change_lines(
        cursor, limit=_PAGE, wait_seconds=wait_seconds, filters=flow.filters
    )
    most = COPIES_OF_ONE * _PAGE
    return await _bring(flow, lines, most, is_bulk=False, current=cursor)


async def bootstrap(flow: Flow) -> Brought:
    """Apply a snapshot of the source.

    The cursor is saved with the last batch, so a snapshot that breaks off begins again; copies
    that were applied before are current then.
    """
    lines = flow.peer.snapshot_lines(flow.filters)
    return await _bring(flow, lines, None, is_bulk=True, current=None)


async def _bring(
    flow: Flow,
    lines: AsyncGenerator[bytes],
    most: int | None,
    *,
    is_bulk: bool,
    current: str | None,
) -> Brought:
    async def apply(copies: list[Incoming], end: FeedEnd | None) -> AppliedBatch:
        cursor, behind = (None, None) if end is None else (end.cursor, end.behind)
        return await apply_by(flow, copies, cursor, behind=behind, is_bulk=is_bulk)

    allowance = Allowance.of(flow.context.settings, most)
    brought = await apply_lines(flow.context, lines, apply, allowance, current=current)
    if brought is None:
        raise Unreachable(f"The answer of {flow.peer.url} broke off.", is_doubtful=True)
    return brought


@dataclass(slots=True, kw_only=True)
class RetriedConflicts:
    """The number of conflicts that were fetched again, and those that could not be.

    Of `strays`, the source has no entity: what is known of a spoilt copy may not be true.
    """

    number: int = 0
    strays: list[Origin] = field(default_factory=list)


async def retry_conflicts(flow: Flow) -> RetriedConflicts:
    """Fetch all conflicts of a link again and apply them."""
    retried = RetriedConflicts()
    after: Origin | None = None
    while True:
        async with flow.context.database.acquire() as connection:
            found = await linkconflicts.load(connection, flow.link.id, after, MOST_ORIGINS // 2)
        if not found:
            return retried
        after = found[-1].origin
        retried.number += len(found)
        brought = await _fetch_again(flow, _suspects_of(found))
        invalid = [c.origin for c in found if c.verdict == Verdict.INVALID]
        if brought is not None:
            retried.strays += [origin for origin in invalid if origin not in brought]


def _suspects_of(conflicts: Sequence[LinkConflict]) -> list[Origin]:
    """The origins of conflicts; of a copy that came spoilt, its xid may be the true one instead."""
    found = {conflict.origin: None for conflict in conflicts}
    for conflict in conflicts:
        if conflict.verdict == Verdict.INVALID:
            found[Origin(conflict.origin.authority, conflict.xid)] = None
    return list(found)


async def _fetch_again(flow: Flow, origins: Sequence[Origin]) -> set[Origin] | None:
    """Fetch origins and apply them; return those that came, or `None` if the answer broke off."""
    wanted = [o for o in origins if o.authority and is_scope(o.xid) and flow.policy.admits(o)]
    brought: set[Origin] = set()

    async def apply(copies: list[Incoming], _: FeedEnd | None) -> AppliedBatch:
        applied = await apply_by(flow, copies)
        brought.update(finding.origin for finding in applied.findings)
        return applied

    if wanted:
        lines = flow.peer.fetch_lines(wanted)
        allowance = Allowance.of(flow.context.settings, COPIES_OF_ONE * len(wanted))
        if await apply_lines(flow.context, lines, apply, allowance) is None:
            return None
    return brought


async def apply_by(
    flow: Flow,
    copies: list[Incoming],
    cursor: str | None = None,
    *,
    behind: int | None = None,
    is_bulk: bool = False,
) -> AppliedBatch:
    """Apply a batch of a link when the gate lets it pass; see `Batch`."""
    await ensure_keys(flow.context, flow.peer, copies, sender=flow.source.authority)
    batch = Batch(
        copies=copies,
        policy=flow.policy,
        link=flow.link,
        cursor=cursor,
        behind=behind,
        size=flow.arrived.take(flow.peer.received),
        is_bulk=is_bulk,
        mapping=mapping_of(flow.link.definition),
        addresses=rules_of(flow.link.definition),
    )
    async with flow.gate.turn(is_bulk=is_bulk) as turn:
        applied = await apply_batch(flow.context, batch)
        turn.has_delayed = applied.has_delayed
    return applied


async def apply_lines(
    context: Context,
    lines: AsyncGenerator[bytes],
    apply: Callable[[list[Incoming], FeedEnd | None], Awaitable[AppliedBatch]],
    allowance: Allowance,
    *,
    current: str | None = None,
) -> Brought | None:
    """Apply a stream in batches of bounded size, the last one with the stream's cursor.

    Batches are applied before the stream has ended: applying them again does no harm. An empty
    page that ends at the `current` cursor needs no transaction.

    Returns:
        `None` if the stream ended without its last line.

    Args:
        allowance: what the stream may bring; a part that was applied stays.

    Raises:
        TooMuchSent
        ClientError: something follows the last line.
    """
    brought = Brought(cursor="")
    async with contextlib.aclosing(lines):
        batches = _Batches(context, lines, allowance)
        coming = asyncio.create_task(batches.read())
        try:
            while (copies := await coming) is not None:
                coming = asyncio.create_task(batches.read())
                applied = await apply(copies, None)
                batches.adapt(applied)
                brought.add(applied)
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
    end = batches.end
    if end is None or not end.cursor:
        return None
    brought.cursor = end.cursor
    if batches.last or end.cursor != current:
        brought.add(await apply(batches.last, end))
    return brought


class _Batches:
    """The batches of a stream: one is read and checked while the one before it is applied.

    After the end, `last` are the copies of the last batch, and `end` is the stream's last line,
    `None` if it ended without one.
    """

    def __init__(
        self, context: Context, lines: AsyncGenerator[bytes], allowance: Allowance
    ) -> None:
        self.end: FeedEnd | None = None
        self.last: list[Incoming] = []
        self._context = context
        self._lines = lines
        self._allowance = allowance
        self._most = _MOST_COPIES

    async def read(self) -> list[Incoming] | None:
        """The next batch but the last one; `None` at the end.

        Raises:
            TooMuchSent
            ClientError: something follows the last line.
        """
        copies = CheckedCopies(self._context.configuration.model)
        size = 0
        async for line in self._lines:
            if self.end is not None:
                raise ClientError("Something follows the cursor that ends a stream.")
            read = read_line(line)
            if isinstance(read, FeedEnd):
                self.end = read
                continue
            self._allowance.take(len(line))
            copies.take(read)
            size += len(line)
            if len(copies) % AHEAD == 0:
                begin_ahead(self._context.database, copies.checked[-AHEAD:])
            if len(copies) % _SLICE == 0:
                # What waits for the database goes first, so that the database is never idle.
                await asyncio.sleep(0)
            if len(copies) >= self._most or size >= _MOST_BYTES:
                return copies
        self.last = copies
        return None

    def adapt(self, applied: AppliedBatch) -> None:
        """Make batches smaller if other writes waited for one, and larger again if none did."""
        self._most = (
            _COPIES_AMONG_OTHERS if applied.has_delayed else min(2 * self._most, _MOST_COPIES)
        )
