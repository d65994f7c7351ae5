"""What a link joins: a source that gives pages from a cursor, and a sink that applies them.

One of the two is another catalog, the peer of the link.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from catalog.model.masking import counted
from catalog.store.database import Connection
from catalog.store.links import Link
from replication.transfer.comparison import DigestComparison
from replication.transfer.linkrun import Applied, LinkRun, PeerIdentity, Start

# Where more of the rows differ, a complete copy costs less.
_LARGEST_SHARE = 0.5


@dataclass(slots=True, kw_only=True)
class LinkPage:
    """Copies that come together, and what the source says of what follows.

    Args:
        cursor: everything up to it has come with this page; `None` while there is more before one.
        behind: the changes that the source has after them, if it tells.
        is_last: the source had nothing further.
        is_behind: it has something further, which cannot be read yet.
        currentat: the time at which it had nothing further; `None` is now.
    """

    cursor: Any = None
    behind: int | None = None
    is_last: bool = False
    is_behind: bool = False
    currentat: datetime | None = None


class LinkSource:
    """Gives pages from a cursor. The id of its subscription, if it has one, wakes the link."""

    subscription: str | None = None

    def everything(self, after: Any) -> AsyncGenerator[Any]:
        """A complete copy, or the rest of one; its last page has a cursor."""
        raise NotImplementedError

    def differing(self, found: Any) -> AsyncGenerator[Any]:
        """What differs by a comparison; the last page has a cursor."""
        raise NotImplementedError

    def changes(self, cursor: Any) -> AsyncGenerator[Any]:
        """What changes after a cursor. After its end, the link meets its peer again."""
        raise NotImplementedError

    async def again(self, *, is_requested: bool) -> AsyncGenerator[Any]:
        """What could not be applied, again; an operator may have requested it."""
        nothing: Sequence[Any] = ()
        for page in nothing:
            yield page


class LinkSink:
    """Applies pages, and saves their cursors."""

    async def drop(self) -> str:
        """Drop what an operator asked to be dropped; return what that was."""
        return "nothing"

    async def reconsider(self) -> None:
        """Let go what the link selects no more, and rename what is named otherwise."""

    async def begin(self, found: Any) -> None:
        """Prepare for a complete copy, or for what differs by a comparison."""

    async def apply(self, page: Any) -> Applied:
        """Apply a page."""
        raise NotImplementedError

    def told(self, total: Applied) -> tuple[str, str]:
        """The event, and its details, of a complete copy in the history of the link."""
        raise NotImplementedError


class LinkPeer:
    """The other catalog: the source of a link that brings, or the sink of one that sends.

    So many copies are expected, if that is known. Retries are costly if much is read for them.
    """

    has_costly_retries = False
    expected: int | None = None

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Connect, for one contact."""
        return nullcontext()

    async def meet(self) -> None:
        """Ask the other catalog for its identity.

        Raises:
            ClientError: it does not answer, or the link cannot work with it.
        """

    async def identify(self, connection: Connection, link: Link) -> PeerIdentity | None:
        """The identity of the other catalog; `None` if nobody answers for it.

        Raises:
            ClientError: an operator has to decide.
        """
        return None

    async def resume(self, saved: str | None) -> Start[Any]:
        """The cursor to go on from, given the one that was saved."""
        raise NotImplementedError

    async def compare(self) -> DigestComparison | None:
        """Compare digests; `None` if everything is to be copied."""
        return None

    async def allowances(self) -> Mapping[str, str]:
        """What the other catalog was allowed to lose, and the link is to lose now: digests by
        authority."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A source and a sink. `peer` is the source or the sink, whichever is another catalog."""

    source: LinkSource
    sink: LinkSink
    peer: LinkPeer

    async def compare(self, link: Link) -> DigestComparison | None:
        """Compare the two catalogs; `None` if everything is to be copied.

        A link that selects other entities than before copies what differs, however much it is.
        """
        found = await self.peer.compare()
        if found is None:
            return None
        is_much = len(found.wanted) > _LARGEST_SHARE * found.rows
        return None if is_much and link.former is None else found

    async def copy(self, found: DigestComparison | None, after: Any = None) -> tuple[Any, Applied]:
        """Copy what differs, or everything.

        Args:
            after: a cursor within a complete copy that broke off, to go on from.

        Returns:
            the cursor to go on from, and the numbers of what was applied.

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
        """The event, and its details, of a copy in the history of a link."""
        event, detail = self.sink.told(total)
        if found is None:
            return event, detail
        # Of these, the other catalog may have lost some.
        rows = max(found.rows, len(found.differing))
        return "compared", f"{len(found.differing)} of {counted(rows, 'origins')} differ: {detail}"


MakeTransfer = Callable[[LinkRun], Transfer]
"""Makes the source and the sink of a link, as its mode wants."""
