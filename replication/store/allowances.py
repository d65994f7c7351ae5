"""Stores the losses that operators have allowed, for the catalogs behind this node."""

from __future__ import annotations

from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("allowances", package=__package__)


async def read(connection: Connection) -> dict[str, str]:
    """The digests of the answered questions that this node has followed, by authority."""
    return {row["authority"]: row["digest"] for row in await connection.fetch(_queries.read)}


async def allow(connection: Connection, authority: str, digest: str, link: str) -> None:
    """Note the allowed loss of a link; the handshake shows it once the link has caught up."""
    await connection.execute(_queries.allow, authority, digest, link)


async def follow(connection: Connection, authority: str, digest: str) -> None:
    """Note that this node has followed the allowed loss of a relay."""
    await connection.execute(_queries.follow, authority, digest)
