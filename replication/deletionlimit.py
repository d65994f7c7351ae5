"""Holds links to their brake: counts what they delete, and has them ask before it is too much."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from catalog.client import ClientError
from catalog.config import Settings
from catalog.context import Context
from catalog.store import linkdeletions, writtenentities
from catalog.store.database import Connection
from catalog.store.links import Link
from replication.brake import BrakeLimits, Deletions, must_stop
from replication.provenance import Policy

_Count = Callable[[Connection], Awaitable[int]]


class TooManyDeletions(ClientError):
    """A link is about to delete more than it may without asking: nothing of it was applied.

    `of` are the entities that it brought.
    """

    def __init__(self, link: Link, deletions: Deletions, of: int) -> None:
        lost = "its source has deleted them, or lost them"
        cause = "they are no longer selected" if link.former else lost
        super().__init__(
            f"It is about to delete {deletions.total:,} of the {of:,} entities that it brought: "
            f"{cause}.",
            f"If that is right, run `concord link allow {link.id}`.",
        )
        self.link, self.deletions, self.of = link, deletions, of

    @property
    def question(self) -> str:
        """The words for the operator."""
        return f"{self.message} {self.hint}"


async def count_deletions(
    context: Context, connection: Connection, link: Link, policy: Policy, about: int
) -> None:
    """Count entities that a link deletes in the transaction of `connection`.

    Raises:
        TooManyDeletions: roll back.
    """
    if about:
        await _check(context, connection, link, about, partial(_count_held, link, policy))
        await linkdeletions.add(connection, link, about)


async def check_deletions(context: Context, link: Link, policy: Policy, about: int) -> None:
    """Check, before a link deletes entities in several batches, that it may delete all of them.

    Raises:
        TooManyDeletions: the link waits to be allowed.
    """
    if about:
        async with (
            asking(context, link),
            context.database.pool.acquire(timeout=30) as connection,
        ):
            await _check(context, connection, link, about, partial(_count_held, link, policy))


async def check_written_deletions(context: Context, link: Link, about: int) -> None:
    """Check that a link may delete entities that it has written to its server.

    Raises:
        TooManyDeletions: the link waits to be allowed.
    """
    if about:
        async with (
            asking(context, link),
            context.database.pool.acquire(timeout=30) as connection,
        ):
            await _check(context, connection, link, about, partial(_count_written, link))


@asynccontextmanager
async def asking(context: Context, link: Link) -> AsyncIterator[None]:
    """Have a link ask for what it must not delete here without being allowed to."""
    try:
        yield
    except TooManyDeletions as error:
        await ask(context, error)
        raise


async def ask(context: Context, error: TooManyDeletions) -> None:
    """Store what a link waits to be allowed to delete; so it waits after a restart, too.

    Raises:
        LinkReplaced
    """
    async with context.database.transaction() as connection:
        total = error.deletions.total
        await linkdeletions.ask(connection, error.link, total, error.of, error.question)


async def ask_for_all(context: Context, error: TooManyDeletions, ahead: int) -> TooManyDeletions:
    """Have a link ask for everything that is going to be deleted, if that is more.

    An operator who has allowed the first batches already is asked again later.
    """
    found = error.deletions
    if ahead <= found.about:
        return error
    more = TooManyDeletions(error.link, replace(found, about=ahead), error.of)
    async with context.database.transaction() as connection:
        total = more.deletions.total
        await linkdeletions.ask_more(connection, more.link, total, more.of, more.question)
    return more


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDeletions:
    """The deletions that a link would ask for, and the entities `of` which they are."""

    total: int
    of: int


async def find_stop(
    context: Context, link: Link, policy: Policy, *, about: int
) -> FoundDeletions | None:
    """The deletions for which a link would stop and ask, if it were about to delete so many."""
    async with context.database.snapshot() as connection:
        try:
            await _check(context, connection, link, about, partial(_count_held, link, policy))
        except TooManyDeletions as error:
            return FoundDeletions(total=error.deletions.total, of=error.of)
    return None


async def _check(
    context: Context, connection: Connection, link: Link, about: int, count: _Count
) -> None:
    counted = await linkdeletions.read(connection, link)
    deletions = Deletions(deleted=counted.deleted, about=about, allowed=counted.allowed)
    limits = limits_of(context.settings)
    # Most batches delete so little that it does not matter how much there is.
    if not must_stop(deletions, 0, limits):
        return
    held = await count(connection)
    if must_stop(deletions, held, limits):
        raise TooManyDeletions(link, deletions, held + deletions.deleted)


async def _count_held(link: Link, policy: Policy, connection: Connection) -> int:
    return await linkdeletions.count_held(
        connection, link.id, policy.authorities, policy.scope, policy.types, own=policy.own
    )


async def _count_written(link: Link, connection: Connection) -> int:
    return await writtenentities.count(connection, link.id)


def limits_of(settings: Settings) -> BrakeLimits:
    """The brake as it is configured."""
    return BrakeLimits(share=settings.link_delete_share, count=settings.link_delete_count)
