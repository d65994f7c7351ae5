"""Stores how many entities links have deleted, and what they wait to be allowed to delete."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

from catalog.store import links
from catalog.store.database import Connection
from catalog.store.linkconfirmations import Confirmation
from catalog.store.links import Link, LinkReplaced
from catalog.store.queries import Queries

_queries = Queries("linkdeletions")
# Deletions of a link that has caught up count together for so long.
_WINDOW = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedDeletions:
    """The entities that a link has deleted, and how many of these an operator has allowed."""

    deleted: int
    allowed: int


async def read(connection: Connection, link: Link) -> CountedDeletions:
    row = await connection.fetchrow(_queries.read, link.id, link.revision)
    if row is None:
        return CountedDeletions(deleted=0, allowed=0)
    return CountedDeletions(deleted=row["deleted"], allowed=row["allowed"])


async def add(connection: Connection, link: Link, number: int) -> None:
    """Count deletions; the caller commits them together."""
    await connection.execute(_queries.add, link.id, link.revision, number)


async def forget_earlier(
    connection: Connection, caught_up: Sequence[Link] | Sequence[Confirmation]
) -> None:
    """Forget the deletions of links that have caught up, where they were allowed or are old."""
    ids, revisions = [each.id for each in caught_up], [each.revision for each in caught_up]
    await connection.execute(_queries.forget, ids, revisions, _WINDOW)


async def ask(connection: Connection, link: Link, total: int, held: int, error: str) -> None:
    """Let a link wait to be allowed `total` deletions, of so many entities that it may bring.

    Raises:
        LinkReplaced: there is no link of this revision.
    """
    found = await connection.fetchval(_queries.ask, link.id, link.revision, total, error, held)
    if found is None:
        raise LinkReplaced(link.id)


async def ask_more(connection: Connection, link: Link, total: int, held: int, error: str) -> None:
    """Let a link wait to be allowed more, if it still waits."""
    await connection.execute(_queries.ask_more, link.id, link.revision, total, error, held)


async def allow(connection: Connection, link: Link) -> None:
    """Allow what a link waits for, and wake it."""
    assert link.brake is not None, "it waits for nothing"
    await connection.execute(_queries.allow, link.id, link.revision, link.brake["deletions"])
    await links.wake(connection, link.id)


async def count_held(
    connection: Connection,
    link: str,
    authorities: Collection[str] | None,
    scope: Sequence[str],
    types: Sequence[str],
    *,
    own: str,
) -> int:
    """Count the entities here that a link may bring; `None` stands for all authorities."""
    wanted = None if authorities is None else list(authorities)
    arguments = wanted, own, link, list(scope), list(types)
    return int(await connection.fetchval(_queries.held, *arguments))
