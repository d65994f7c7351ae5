"""Stores the copies that a link doubts until a copy from the authority itself arrives."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from catalog.store.database import Connection
from catalog.store.links import Link, LinkReplaced
from catalog.store.queries import Queries

_queries = Queries("doubtedcopies", package=__package__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtedCopy:
    """A copy that its authority has not sent; with the xid if the entity has not changed since.

    An `overruled` copy is dropped in the end; every other copy stays.
    """

    origin: str
    xid: str | None
    overruled: bool


async def doubt(
    connection: Connection,
    link: Link,
    authority: str | None,
    scope: Sequence[str],
    types: Sequence[str],
    *,
    overruled: bool,
) -> None:
    """Doubt the selected copies of an authority; `None` stands for no authority.

    If `overruled`, the authority itself replaces the copies, whatever the epochs. Copies that are
    doubted already as overruled stay overruled.

    Raises:
        LinkReplaced: no link has this revision.
    """
    await connection.execute(_queries.clear, link.id, overruled)
    found = await connection.fetchval(
        _queries.doubt, link.id, link.revision, authority, scope, types, overruled
    )
    if found is None:
        raise LinkReplaced(link.id)


async def doubt_only(connection: Connection, link: Link, digests: Mapping[str, bytes]) -> None:
    """Doubt the copies with these origins and digests, and no others.

    Raises:
        LinkReplaced: no link has this revision.
    """
    await connection.execute(_queries.clear, link.id, True)
    found = await connection.fetchval(
        _queries.doubt_only, link.id, link.revision, list(digests), list(digests.values())
    )
    if found is None:
        raise LinkReplaced(link.id)


async def keep_among(connection: Connection, link: str, origins: Collection[str]) -> bool:
    """Forget doubted copies except overruled copies of these origins; return whether any remain."""
    await connection.execute(_queries.keep_among, link, list(origins))
    return await has_overruled(connection, link)


async def has_overruled(connection: Connection, link: str) -> bool:
    """Whether a link doubts overruled copies."""
    return bool(await connection.fetchval(_queries.any_overruled, link))


async def settle(connection: Connection, link: str, origins: Collection[str]) -> frozenset[bytes]:
    """Forget doubted copies that were dropped or sent by the authority.

    Returns:
        the digests of the overruled copies.
    """
    rows = await connection.fetch(_queries.settle, link, list(origins))
    return frozenset(row["digest"] for row in rows if row["overruled"])


async def read_left(
    connection: Connection, link: str, authority: str, limit: int | None = None
) -> list[DoubtedCopy]:
    """Read up to `limit` doubted copies, ancestors first."""
    rows = await connection.fetch(_queries.left, link, authority, limit)
    return [DoubtedCopy(**row) for row in rows]


async def forget_deletions(
    connection: Connection, link: str, authority: str, origins: Collection[str]
) -> None:
    """Delete the doubted tombstones of these origins."""
    await connection.execute(_queries.forget_deletions, link, authority, list(origins))
