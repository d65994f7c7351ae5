"""Stores the entities that links have written to servers of other software."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.model.entity import Origin
from catalog.store.database import Connection
from catalog.store.entities import columns_of
from catalog.store.queries import Queries

_queries = Queries("writtenentities", package=__package__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenEntity:
    """An entity of this node that a link has written, or is about to write, to a server.

    `holder` is the xid of the entity's group or resource. `target` is the server's root, `path` the
    path of the entity at the server. `digest` is the digest of the written content, empty until the
    server has answered; `tag` is the epoch in the answer. An entity that `is_adopted` existed at
    the server before the link. `is_here` says whether this catalog still has the entity, and is not
    stored.
    """

    origin: Origin
    holder: str
    xid: str
    target: str
    path: str
    digest: bytes = b""
    tag: str = ""
    is_adopted: bool = False
    is_here: bool = True


async def load_at(connection: Connection, link: str, holders: Iterable[str]) -> list[WrittenEntity]:
    """Read the entities that a link has written in groups or resources, including versions."""
    rows = await connection.fetch(_queries.at_places, link, list(holders))
    return [_written_from(row) for row in rows]


async def load_below(connection: Connection, link: str, group: str) -> list[WrittenEntity]:
    """Read what a link has written below a group: its resources and their versions."""
    rows = await connection.fetch(_queries.below, link, group)
    return [_written_from(row) for row in rows]


async def page(connection: Connection, link: str, after: Origin, limit: int) -> list[WrittenEntity]:
    """Read up to `limit` entities that a link has written, in the order of their origins."""
    rows = await connection.fetch(_queries.page, link, after.authority, after.xid, limit)
    return [_written_from(row) for row in rows]


async def save(connection: Connection, link: str, written: Sequence[WrittenEntity]) -> None:
    await connection.execute(
        _queries.save,
        link,
        *columns_of(each.origin for each in written),
        [each.holder for each in written],
        [each.xid for each in written],
        [each.target for each in written],
        [each.path for each in written],
        [each.digest for each in written],
        [each.tag for each in written],
        [each.is_adopted for each in written],
    )


async def forget(connection: Connection, link: str, origins: Iterable[Origin]) -> None:
    """Forget entities that have left the server or no longer belong to the link."""
    await connection.execute(_queries.forget, link, *columns_of(origins))


async def forget_elsewhere(connection: Connection, link: str, target: str) -> None:
    """Forget the entities that a link has written to former servers."""
    await connection.execute(_queries.forget_elsewhere, link, target)


async def count(connection: Connection, link: str) -> int:
    """Count the entities that a link has created at its server."""
    return await connection.fetchval(_queries.count, link)


def _written_from(row: Mapping[str, Any]) -> WrittenEntity:
    names = ("xid", "target", "path", "digest", "tag", "is_adopted", "is_here")
    return WrittenEntity(
        origin=Origin(row["authority"], row["origin"]),
        holder=row["place"],
        **{name: row[name] for name in names},
    )
