"""Reads the links that are pinned to authorities, and the authorities at a base URL."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from catalog.store.database import Connection
from catalog.store.links import Link, LinkDefinition, definition_from, link_from
from catalog.store.queries import Queries

_queries = Queries("linkauthorities")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The knowledge of this node about an authority that a source claims to be.

    `rival` is the id of a link to another source that is pinned to the authority. `is_shared` tells
    whether another link to the same source is pinned to the authority, `is_known` whether entities
    here or definitions of links name the authority.
    """

    rival: str | None
    is_shared: bool
    is_known: bool


async def following(connection: Connection, authority: str) -> list[str]:
    """Read the ids of the links whose sources are pinned to an authority."""
    return [row["id"] for row in await connection.fetch(_queries.following, authority)]


async def pinned_to(
    connection: Connection, authorities: Collection[str] | None
) -> list[tuple[str, LinkDefinition]]:
    """Read the definitions of links pinned to the authorities, with the pin; `None` for any pin."""
    wanted = None if authorities is None else list(authorities)
    rows = await connection.fetch(_queries.pinned_to, wanted)
    return [(row["authority"], definition_from(row)) for row in rows]


async def read_claim(connection: Connection, link: str, authority: str, source: str) -> Claim:
    """Read the knowledge of this node about an authority that the source of a link claims to be."""
    row = await connection.fetchrow(_queries.claim, link, authority, source)
    assert row is not None
    return Claim(rival=row["rival"], is_shared=row["is_shared"], is_known=row["is_known"])


async def authorities_at(connection: Connection, base: str) -> list[str]:
    """Read the authorities of the sources of links whose URL is a base.

    The base in a source's own URLs counts if no link leads there and no other source names the
    base.
    """
    rows = await connection.fetch(_queries.authorities_at, base)
    return [row["authority"] for row in rows]


async def bringing(connection: Connection, authority: str) -> list[Link]:
    """Read the links that may bring entities of an authority, without numbers of conflicts.

    A link whose source is the authority is among them, even if the link brings others' entities.
    """
    return [link_from(row) for row in await connection.fetch(_queries.bringing, authority)]


async def sending(connection: Connection) -> list[Link]:
    """Read the links that send to catalogs that are known, without numbers of conflicts."""
    return [link_from(row) for row in await connection.fetch(_queries.sending)]
