"""Stores the conflicts of links: the copies that were not applied, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Self

from catalog.model.entity import Entity, Origin, Tombstone
from catalog.operations.feed import Verdict
from catalog.store.database import Connection
from catalog.store.entities import columns_of
from catalog.store.queries import Queries

MOST_CONFLICTS = 10_000
"""A link with so many conflicts stores no further conflicts."""
MOST_SIDE_BYTES = 64 * 1024
"""The largest side of a conflict, as JSON, that is kept or shown."""
_MOST_KEPT = 500
_queries = Queries("linkconflicts", package=__package__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFinding:
    """The verdict about one copy; `detail` is the reason of a conflict."""

    origin: Origin
    xid: str
    epoch: int
    verdict: Verdict
    detail: str = ""

    @classmethod
    def about(cls, copy: Entity | Tombstone, verdict: Verdict, detail: str) -> Self:
        origin = Origin(copy.authority, copy.origin)
        return cls(origin=origin, xid=copy.xid, epoch=copy.epoch, verdict=verdict, detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkConflict(CopyFinding):
    """A copy that was not applied, as stored.

    `refused` is the copy as JSON, if it was read and there was room: of the first 500 conflicts of
    a link.
    """

    at: datetime
    refused: bytes | None = field(default=None, repr=False)


async def add(
    connection: Connection,
    link: str,
    conflicts: Sequence[CopyFinding],
    refused: Mapping[Origin, bytes | None] | None = None,
) -> None:
    """Store conflicts, as far as the limit allows.

    Args:
        refused: the copies that were not applied, as JSON.
    """
    await connection.execute(
        _queries.add,
        link,
        *columns_of(c.origin for c in conflicts),
        [c.xid for c in conflicts],
        [c.epoch for c in conflicts],
        [c.verdict for c in conflicts],
        [c.detail for c in conflicts],
        datetime.now(UTC),
        MOST_CONFLICTS,
        [(refused or {}).get(c.origin) for c in conflicts],
        _MOST_KEPT,
    )


async def settle(connection: Connection, origins: Sequence[Origin]) -> None:
    """Delete the conflicts of origins that are no longer in conflict in this catalog."""
    await connection.execute(_queries.settle, *columns_of(origins))


async def forget(connection: Connection, link: str) -> None:
    """Delete every conflict of a link."""
    await connection.execute(_queries.forget, link)


async def drop(connection: Connection, link: str, origins: Sequence[Origin]) -> None:
    """Delete the conflicts of a link about the given origins."""
    await connection.execute(_queries.drop, link, *columns_of(origins))


async def load(
    connection: Connection,
    link: str,
    after: Origin | None,
    limit: int,
    *,
    with_refused: bool = False,
) -> list[LinkConflict]:
    """Read up to `limit` conflicts of a link after an origin; `None` stands for the beginning.

    Args:
        with_refused: read the refused copies, too.
    """
    authority, origin = (None, None) if after is None else (after.authority, after.xid)
    rows = await connection.fetch(_queries.load, link, authority, origin, limit, with_refused)
    return [
        LinkConflict(
            origin=Origin(row["authority"], row["origin"]),
            verdict=Verdict(row["verdict"]),
            **{name: row[name] for name in ("xid", "epoch", "detail", "at", "refused")},
        )
        for row in rows
    ]


async def load_small_documents(connection: Connection, xids: Sequence[str]) -> dict[str, bytes]:
    """Read the documents of versions that fit into a side of a conflict, by xid."""
    rows = await connection.fetch(_queries.small_documents, list(xids), MOST_SIDE_BYTES)
    return {row["xid"]: row["body"] for row in rows}


async def find_verdict(connection: Connection, link: str, origin: Origin) -> str | None:
    """The verdict about a copy of an origin that a link could not apply; `None` without one."""
    return await connection.fetchval(_queries.verdict, link, origin.authority, origin.xid)
