"""Stores the entities that links lose because the source lacks them, and what operators allow.

The allowances of this node are for the catalogs behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.model.entity import Origin
from catalog.store import links
from catalog.store.database import Connection
from catalog.store.entities import columns_of
from catalog.store.links import Link, LinkReplaced
from catalog.store.queries import Queries, to_json

_queries = Queries("linklosses", package=__package__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLosses:
    """The entities that a link has lost since it last caught up, and the allowed losses."""

    gone: frozenset[Origin]
    allowed: frozenset[Origin]


async def is_lost(connection: Connection, link: Link) -> bool:
    """Whether the source of a link has lost data, and the link has not caught up since."""
    return bool(await connection.fetchval(_queries.is_lost, link.id, link.revision))


async def read(connection: Connection, link: Link) -> LinkLosses:
    found: dict[str, set[Origin]] = {"gone": set(), "allowed": set()}
    for row in await connection.fetch(_queries.read, link.id):
        found[row["state"]].add(Origin(row["authority"], row["origin"]))
    return LinkLosses(gone=frozenset(found["gone"]), allowed=frozenset(found["allowed"]))


async def add(connection: Connection, link: Link, origins: Collection[Origin]) -> None:
    """Count entities as lost; the caller deletes them in the same transaction."""
    await connection.execute(_queries.add, link.id, *columns_of(origins))


async def come_back(connection: Connection, link: Link, origins: Collection[Origin]) -> None:
    """Count entities as lost no longer; the caller writes them in the same transaction."""
    await connection.execute(_queries.come_back, link.id, *columns_of(origins))


async def ask(
    connection: Connection,
    link: Link,
    question: Mapping[str, Any],
    losses: Collection[Origin],
    text: str,
    pending: int,
) -> bool:
    """Store the question of a link, and the entities of the question; return whether it is new.

    `text` is the question in words, `pending` the least number of copies still to come.

    Raises:
        LinkReplaced: no link has this revision.
    """
    before = await connection.fetchval(
        _queries.ask, link.id, link.revision, to_json(question), text, pending
    )
    if before is None:
        raise LinkReplaced(link.id)
    await connection.execute(_queries.forget_asked, link.id)
    await connection.execute(_queries.store_asked, link.id, *columns_of(losses))
    return bool(before != question["digest"])


async def allow(connection: Connection, link: Link) -> None:
    """Let a link lose the entities of its question, and wake the link."""
    await connection.execute(_queries.allow, link.id, link.revision)
    await links.wake(connection, link.id)


async def count_held(
    connection: Connection,
    authorities: Collection[str] | None,
    scope: Sequence[str],
    types: Sequence[str],
    *,
    own: str,
) -> int:
    """Count the held entities that a link may bring; `None` stands for every authority."""
    wanted = None if authorities is None else list(authorities)
    return await connection.fetchval(_queries.held, wanted, own, scope, types)


async def read_allowances(connection: Connection) -> dict[str, str]:
    """The digests of the answered questions that this node has followed, by authority."""
    rows = await connection.fetch(_queries.read_allowances)
    return {row["authority"]: row["digest"] for row in rows}


async def note_allowance(connection: Connection, authority: str, digest: str, link: str) -> None:
    """Note the allowed loss of a link; the handshake shows it once the link has caught up."""
    await connection.execute(_queries.note_allowance, authority, digest, link)


async def follow_allowance(connection: Connection, authority: str, digest: str) -> None:
    """Note that this node has followed the allowed loss of a relay."""
    await connection.execute(_queries.follow_allowance, authority, digest)
