"""Brings what a source has: single pages of its feed, and everything where that is needed."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field

from catalog.context import Context
from catalog.store.links import Link
from replication.apply import AppliedBatch, Batch, apply_batch
from replication.batch import Incoming
from replication.decide import Policy, Verdict
from replication.feedlines import End, read_line
from replication.linkscope import filters_of, policy_of
from replication.remote import Handshake, Rejected, Remote, Unreachable

_MOST_COPIES = 1000
_MOST_BYTES = 8 * 1024 * 1024
_PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """A link whose source has been met, with all that is needed to bring something by it.

    `gate` is how many batches of all links may be applied at a time: the database's
    connections are there for clients, too.
    """

    context: Context
    link: Link
    remote: Remote
    source: Handshake
    gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    @property
    def policy(self) -> Policy:
        return policy_of(
            self.link.definition,
            own=self.context.database.node.authority,
            source=self.source.authority,
        )

    @property
    def filters(self) -> list[tuple[str, str]]:
        return filters_of(self.link.definition, self.source.authority)


@dataclass(slots=True, kw_only=True)
class Brought:
    """What came, and from where to go on."""

    cursor: str
    copies: int = 0
    changes: int = 0
    verdicts: Counter[Verdict] = field(default_factory=Counter)


async def pull_once(flow: Flow, cursor: str, *, wait_seconds: float) -> Brought:
    """Bring one page of the source's feed. The cursor is saved with what it brought.

    Raises:
        RemoteError: `CursorExpired` asks for a bootstrap.
        LinkReplaced
    """
    lines = flow.remote.changes(
        cursor, limit=_PAGE, wait_seconds=wait_seconds, filters=flow.filters
    )
    return await _bring(flow, lines, is_bulk=False, known=cursor)


async def bootstrap(flow: Flow) -> Brought:
    """Bring everything that the source has, and the cursor to go on from.

    The cursor is saved with the last batch, so what breaks off begins again; what had come
    by then is found to be current.

    Raises:
        RemoteError
        LinkReplaced
    """
    return await _bring(flow, flow.remote.snapshot(flow.filters), is_bulk=True, known=None)


async def _bring(
    flow: Flow, lines: AsyncGenerator[bytes], *, is_bulk: bool, known: str | None
) -> Brought:
    async def apply(copies: list[Incoming], cursor: str | None) -> AppliedBatch:
        return await apply_by(flow, copies, cursor, is_bulk=is_bulk)

    brought = await apply_lines(lines, apply, known=known)
    if brought is None:
        raise Unreachable(f"The answer of {flow.remote.url} broke off.")
    return brought


async def apply_by(
    flow: Flow, copies: list[Incoming], cursor: str | None, *, is_bulk: bool = False
) -> AppliedBatch:
    """Apply a batch that came by a link, when it is the link's turn."""
    batch = Batch(copies=copies, policy=flow.policy, link=flow.link, cursor=cursor, is_bulk=is_bulk)
    async with flow.gate:
        return await apply_batch(flow.context, batch)


async def apply_lines(
    lines: AsyncGenerator[bytes],
    apply: Callable[[list[Incoming], str | None], Awaitable[AppliedBatch]],
    *,
    known: str | None = None,
) -> Brought | None:
    """Apply a stream in batches of bounded size, the last one with the stream's cursor.

    A batch may be applied before the stream has ended: applying it again does no harm. An
    empty page that ends at the `known` cursor is not worth a transaction.

    Returns:
        `None` if the stream ended without its last line.

    Raises:
        Rejected: something follows the last line.
    """
    copies: list[Incoming] = []
    size = 0
    brought = Brought(cursor="")
    async with contextlib.aclosing(lines):
        async for line in lines:
            if brought.cursor:
                raise Rejected("Something follows the cursor that ends a stream.")
            read = read_line(line)
            if isinstance(read, End):
                brought.cursor = read.cursor
                continue
            copies.append(read)
            size += len(line)
            if len(copies) >= _MOST_COPIES or size >= _MOST_BYTES:
                _add(brought, await apply(copies, None))
                copies, size = [], 0
    if not brought.cursor:
        return None
    if copies or brought.cursor != known:
        _add(brought, await apply(copies, brought.cursor))
    return brought


def _add(brought: Brought, applied: AppliedBatch) -> None:
    brought.copies += len(applied.findings)
    brought.changes += applied.changes
    brought.verdicts.update(finding.verdict for finding in applied.findings)
