"""Reads the progress of the links of a node in the logs of their sources."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.store.changes import Position
from catalog.store.database import Connection
from catalog.store.logpositions import LogCursor
from catalog.store.queries import Queries

_queries = Queries("linkprogress")


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
    rows = await connection.fetch(_queries.read, list(instances))
    first = rows[0]
    return NodeProgress(
        links=[_link_from(row) for row in rows if row["id"] is not None],
        newest=Position(first["txid"] or 0, first["seq"] or 0),
        next_txid=first["next_txid"],
        revision=first["revision"],
    )


def _link_from(row: Mapping[str, Any]) -> LinkProgress:
    return LinkProgress(
        id=row["id"],
        source=row["source"],
        instance=row["instance"],
        reached=_cursor_from(row["cursor"]),
        state=row["state"],
    )


def _cursor_from(text: str | None) -> LogCursor | None:
    """The position in the source's log that a link's cursor begins with.

    A source may give out cursors of another form, which no client waits for.
    """
    try:
        return None if text is None else LogCursor.parse(text.partition("@")[0])
    except ValueError:
        return None
