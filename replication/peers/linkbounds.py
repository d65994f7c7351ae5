"""The bounds of a link: how much a source may send, and the share of time for batches of links."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from catalog.client import ClientError
from catalog.context import Context
from catalog.load.limiter import Share
from catalog.settings.limits import Limits
from replication.deciding.provenance import Policy
from replication.store.copies import count_replicas

MEASURED_AGAIN = 20
"""Replicas are counted again after this part of the largest number of replicas has changed."""
# Half of the batches, rounded down to one, may be bulk batches.
_MOST_AT_ONCE = 3


def most_pushed_bytes(limits: Limits) -> int:
    """The largest body of pushed copies in bytes: twice the size of the largest entity."""
    return 2 * limits.max_body_bytes


class TooMuchSent(ClientError):
    """A source sends more, or its link holds more, than a link may bring: the link stops.

    The copies of the link stay.
    """


@dataclass(slots=True, kw_only=True)
class Allowance:
    """The remaining copies and bytes that a source may send in an answer.

    Args:
        copies: the number of entities and tombstones, valid or not.
        bytes: the size of the lines.
        limits: the bounds, for errors.
        is_page: the request stated the wanted number of copies.
    """

    copies: int
    bytes: int
    limits: Limits
    is_page: bool = False

    @classmethod
    def of(cls, limits: Limits, copies: int | None = None) -> Allowance:
        """The allowance for a snapshot, or for an answer of at most `copies` copies."""
        is_page = copies is not None
        most = limits.link_copies if copies is None else copies
        return cls(copies=most, bytes=limits.link_bytes, limits=limits, is_page=is_page)

    def take(self, size: int) -> None:
        """Take one line of `size` bytes.

        Raises:
            TooMuchSent
            ClientError: the answer has more copies than the request asked for.
        """
        self.copies -= 1
        if self.copies < 0:
            if self.is_page:
                raise ClientError("Its source sends more entities than were asked for.")
            raise too_many_copies(self.limits, "Its source sends")
        self.take_bytes(size)

    def take_bytes(self, size: int) -> None:
        """Take bytes that are not a line.

        Raises:
            TooMuchSent
        """
        self.bytes -= size
        if self.bytes < 0:
            raise TooMuchSent(
                f"Its source sends more than {self.limits.link_bytes:,} bytes at once.",
                "Restart the node with a larger CONCORD_LINK_BYTES, or narrow the link's scope.",
            )


def too_many_copies(limits: Limits, subject: str) -> TooMuchSent:
    return TooMuchSent(
        f"{subject} more than {limits.link_copies:,} entities.",
        "Restart the node with a larger CONCORD_LINK_COPIES, or narrow the link's scope.",
    )


async def check_held(context: Context, policy: Policy) -> None:
    """Check that this node has no more replicas of a link's authorities than a link may bring.

    Raises:
        TooMuchSent
    """
    async with context.database.acquire() as connection:
        held = await count_replicas(connection, policy.authorities, own=policy.own)
    if held > context.settings.link_copies:
        raise too_many_copies(context.settings, "Of its authorities, this node has")


@dataclass(slots=True)
class Turn:
    """One batch of a link; `has_delayed` says whether writes of clients waited for the locks."""

    has_delayed: bool = False


@dataclass(slots=True)
class LinkGate:
    """Bounds the number of concurrent batches of all links, since clients need the database, too.

    After a batch that delayed writes, links pause: then all bulk batches together take at most the
    share `busy_share` of the time. Bulk batches are large, and often write the same groups, so
    never two of them run together.
    """

    busy_share: float = 0.5
    _batches: Share = field(default_factory=lambda: Share(_MOST_AT_ONCE))

    @asynccontextmanager
    async def turn(self, *, is_bulk: bool) -> AsyncIterator[Turn]:
        loop = asyncio.get_running_loop()
        async with self._batches.hold(within_half=is_bulk):
            began, turn = loop.time(), Turn()
            yield turn
            # The pause counts against the bound, so that the next bulk batch waits, too.
            if turn.has_delayed:
                taken = loop.time() - began
                await asyncio.sleep(taken * (1 / self.busy_share - 1))
