"""Stores what operators have allowed authorities to lose, for the catalogs behind this node."""

from __future__ import annotations

from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("allowances", package=__package__)


async def read(connection: Connection) -> dict[str, str]:
    """The digests of the questions that were answered, by authority, where that was followed."""
    return {row["authority"]: row["digest"] for row in await connection.fetch(_queries.read)}


async def allow(connection: Connection, authority: str, digest: str, link: str) -> None:
    """Note what a link of this node may lose; it is told once the link has caught up."""
    await connection.execute(_queries.allow, authority, digest, link)


async def follow(connection: Connection, authority: str, digest: str) -> None:
    """Note that this node has lost what a relay was allowed to lose."""
    await connection.execute(_queries.follow, authority, digest)
