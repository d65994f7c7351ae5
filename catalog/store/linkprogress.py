"""Reads how far the links of a node have come in the logs of their sources."""

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
    """The progress of a link. `reached` is `None` until it has copied everything once.

    `instance` has the first 8 digits of its source's id, and is `None` before the first contact.
    """

    id: str
    source: str
    instance: str | None
    reached: LogCursor | None
    state: str

    def is_at(self, cursor: LogCursor) -> bool:
        """Whether it has brought everything up to a position of its source."""
        reached = self.reached
        return reached is not None and reached.instance == cursor.instance and reached >= cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProgress:
    """The progress of a node and of some of its links, at one moment.

    Everything that is here has a position up to `newest`. The log has none of transactions from
    `next_txid` on.
    """

    links: Sequence[LinkProgress]
    newest: Position
    next_txid: int
    revision: int

    def following(self, instance: str) -> list[LinkProgress]:
        """The links whose sources are an instance; if there is none, those that may turn out so."""
        found = [link for link in self.links if link.instance == instance]
        return found or [link for link in self.links if link.instance is None]


async def read_progress(connection: Connection, instances: Collection[str]) -> NodeProgress:
    """Read the progress of this node, and of its links that follow some instances, or may do so.

    Args:
        instances: the first 8 digits of their ids.
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

    A source may give out cursors of another form, which nobody waits for.
    """
    try:
        return None if text is None else LogCursor.parse(text.partition("@")[0])
    except ValueError:
        return None
