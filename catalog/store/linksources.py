"""Reads what links tell about their sources: authorities, base URLs, positions in logs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.store.changes import LogCursor, Position
from catalog.store.database import Connection
from catalog.store.links import Link, LinkDefinition, definition_from, link_from
from catalog.store.queries import Queries

_queries = Queries("linksources")


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
    return Claim(**row)


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


async def read_bases(connection: Connection, authorities: Collection[str]) -> dict[str, str]:
    """Read the base URLs of the given authorities that links or handovers of this node lead to."""
    rows = await connection.fetch(_queries.bases, list(authorities))
    return {row["authority"]: row["base"] for row in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProgress:
    """The progress of a link. `reached` is `None` until the link has copied everything once.

    `instance` has the first 8 digits of the source's instance id, and is `None` before the first
    contact.
    """

    id: str
    source: str
    instance: str | None
    reached: LogCursor | None
    state: str

    def is_at(self, cursor: LogCursor) -> bool:
        """Whether the link has brought everything up to a position of its source."""
        reached = self.reached
        return reached is not None and reached.instance == cursor.instance and reached >= cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProgress:
    """The progress of a node and of a selection of links, at the same moment.

    Everything in this catalog has a position up to `newest`. The log has no entries of transactions
    from `next_txid` on.
    """

    links: Sequence[LinkProgress]
    newest: Position
    next_txid: int
    revision: int

    def following(self, instance: str) -> list[LinkProgress]:
        """The links whose source is the instance; else the links with an unknown instance."""
        found = [link for link in self.links if link.instance == instance]
        return found or [link for link in self.links if link.instance is None]


async def read_progress(connection: Connection, instances: Collection[str]) -> NodeProgress:
    """Read the progress of the node, and of the links that follow the instances, or may do so.

    Args:
        instances: the first 8 digits of the instance ids.
    """
    rows = await connection.fetch(_queries.progress, list(instances))
    first = rows[0]
    return NodeProgress(
        links=[_link_from(row) for row in rows if row["id"] is not None],
        newest=Position(first["txid"] or 0, first["seq"] or 0),
        next_txid=first["next_txid"],
        revision=first["revision"],
    )


def _link_from(row: Mapping[str, Any]) -> LinkProgress:
    named = {name: row[name] for name in ("id", "source", "instance", "state")}
    return LinkProgress(**named, reached=_cursor_from(row["cursor"]))


def _cursor_from(text: str | None) -> LogCursor | None:
    """The position in the source's log that a link's cursor begins with.

    A source may give out cursors of another form, which no client waits for.
    """
    try:
        return None if text is None else LogCursor.parse(text.partition("@")[0])
    except ValueError:
        return None
