"""The two ends of a link: a source that gives pages from a cursor, and a sink that applies pages.

One of the two is the peer of the link, the other catalog.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from catalog.model.entity import Origin
from catalog.model.masking import counted
from catalog.operations.feed import Verdict
from catalog.operations.links import LinkQuestion
from catalog.store.database import Connection
from catalog.store.links import Link
from replication.store.linkconflicts import CopyFinding
from replication.transfer.comparison import DifferingOrigin, DigestComparison
from replication.transfer.linkrun import Applied, LinkRun, PeerIdentity, Start

_FIRST = 20
# If a larger share of the rows differs, a complete copy costs less.
_LARGEST_SHARE = 0.5


@dataclass(slots=True, kw_only=True)
class DryRun:
    """The outcomes of a run: `created`, `changed`, `deleted`, `published`, or a verdict.

    Args:
        rows: entities and deletions of the source that the link may bring.
        differing: entities and deletions that differ at the target.
        question: the question that the link would ask first, if any.
    """

    rows: int
    differing: int
    numbers: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[CopyFinding]] = field(default_factory=lambda: defaultdict(list))
    question: LinkQuestion | None = None

    def note(self, outcome: str, origin: Origin, epoch: int = 0, xid: str = "") -> None:
        """Add an entity that is written or deleted; by default the xid is the xid of the origin."""
        self.add(
            outcome,
            CopyFinding(origin=origin, xid=xid or origin.xid, epoch=epoch, verdict=Verdict.APPLY),
        )

    def add(self, outcome: str, finding: CopyFinding) -> None:
        self.numbers[outcome] += 1
        if len(self.first[outcome]) < _FIRST:
            self.first[outcome].append(finding)


def outcome_of(*, is_deletion: bool, is_there: bool) -> str:
    """The outcome for an entity, in words of a `DryRun`, by its presence at the target."""
    if is_deletion:
        return "deleted" if is_there else "noted as deleted"
    return "changed" if is_there else "created"


@dataclass(slots=True, kw_only=True)
class LinkPage:
    """A page of copies, and the state of the source after the page.

    Args:
        cursor: where to go on after the page; `None` if the page cannot be gone on from, since
            later pages belong to the same step.
        behind: the number of changes that remain to be read after the page; `None` if the source
            does not tell.
        is_last: the source can give nothing further now.
        is_behind: with `is_last`: changes remain that the source cannot give yet.
        currentat: the time at which nothing remained to be read; `None` is the time of arrival.
    """

    cursor: Any = None
    behind: int | None = None
    is_last: bool = False
    is_behind: bool = False
    currentat: datetime | None = None


class LinkSource:
    """Gives pages from a cursor. The id of the source's subscription, if any, wakes the link."""

    subscription: str | None = None

    def everything(self, after: Any) -> AsyncGenerator[Any]:
        """A complete copy, or the rest of a complete copy; the last page has a cursor."""
        raise NotImplementedError

    def differing(self, found: Any) -> AsyncGenerator[Any]:
        """The differing origins of a comparison; the last page has a cursor."""
        raise NotImplementedError

    def changes(self, cursor: Any) -> AsyncGenerator[Any]:
        """The changes after a cursor. After the end, the link meets its peer again."""
        raise NotImplementedError

    async def again(self, *, is_requested: bool) -> AsyncGenerator[Any]:
        """The copies that could not be applied, again; an operator may have requested a retry."""
        nothing: Sequence[Any] = ()
        for page in nothing:
            yield page


class LinkSink:
    """Applies pages, and saves their cursors."""

    async def drop(self) -> str:
        """Drop entities as an operator asked; return a description for the history."""
        return "nothing"

    async def reconsider(self) -> None:
        """Drop deselected entities, and rename entities whose names have changed."""

    async def begin(self, found: Any) -> None:
        """Prepare for a complete copy, or for the differing origins of a comparison."""

    async def apply(self, page: Any) -> Applied:
        """Apply a page."""
        raise NotImplementedError

    def told(self, total: Applied) -> tuple[str, str]:
        """The name and the text of the history event that a finished complete copy leaves."""
        raise NotImplementedError


class LinkPeer:
    """The other catalog: the source of a bringing link, or the sink of a sending link.

    `expected` is the number of copies to expect, if known. `has_costly_retries` means that a retry
    reads much.
    """

    has_costly_retries = False
    expected: int | None = None

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Connect, for one contact."""
        return nullcontext()

    async def meet(self) -> None:
        """Ask the other catalog for an identity.

        Raises:
            ClientError: the catalog does not answer, or the link cannot work with it.
        """

    async def identify(self, connection: Connection, link: Link) -> PeerIdentity | None:
        """The identity of the other catalog; `None` for a topic, which has no identity.

        Raises:
            ClientError: an operator has to decide.
        """
        return None

    async def resume(self, saved: str | None) -> Start[Any]:
        """The cursor to continue from, given the saved cursor."""
        raise NotImplementedError

    async def compare(self) -> DigestComparison | None:
        """Compare digests; `None` if everything is to be copied."""
        return None

    async def differences(self, max_age: float) -> Collection[DifferingOrigin] | None:
        """The differences in digests that a current link must not leave; `None` without digests.

        Args:
            max_age: how many seconds old the coarsest fingerprints may be.

        Raises:
            ClientError: the other catalog does not answer now.
        """
        return None

    async def allowances(self) -> Mapping[str, str]:
        """The allowed losses of the other catalog for the link to follow: digests by authority."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A source and a sink; `peer` is the end at the other catalog.

    `preview` predicts a run without writing. It returns `None` if a complete copy is needed, and
    raises `ClientError` if the peer does not answer, or may not have the claimed authority. There
    is none for a source that begins by itself.
    """

    source: LinkSource
    sink: LinkSink
    peer: LinkPeer
    preview: Callable[[], Awaitable[DryRun | None]] | None = None

    async def compare(self, link: Link) -> DigestComparison | None:
        """Compare the two catalogs; `None` if everything is to be copied.

        A link whose selection has changed copies only the differing origins, however many they are.
        """
        found = await self.peer.compare()
        if found is None:
            return None
        is_much = len(found.wanted) > _LARGEST_SHARE * found.rows
        return None if is_much and link.former is None else found

    async def copy(self, found: DigestComparison | None, after: Any = None) -> tuple[Any, Applied]:
        """Copy the differing origins, or everything; return the cursor to continue from.

        Args:
            after: a cursor within an interrupted complete copy, to continue from.

        Raises:
            TooManyDeletions: the link asks.
            ClientError: the other catalog does not answer now.
        """
        if after is None:
            await self.sink.begin(found)
        pages = self.source.everything(after) if found is None else self.source.differing(found)
        cursor, total = after, Applied()
        async with contextlib.aclosing(pages):
            async for page in pages:
                total.add(await self.sink.apply(page))
                cursor = page.cursor or cursor
        return cursor, total

    def told(self, found: DigestComparison | None, total: Applied) -> tuple[str, str]:
        """The name and the text of the history event that a finished copy leaves."""
        event, detail = self.sink.told(total)
        if found is None:
            return event, detail
        # The rows of the other catalog exclude the origins that the catalog lacks.
        rows = max(found.rows, len(found.differing))
        return "compared", f"{len(found.differing)} of {counted(rows, 'origins')} differ: {detail}"


MakeTransfer = Callable[[LinkRun], Transfer]
"""Makes the source and the sink of a link for its mode."""
