"""Reads the changes of entities with their authors, and the former contents of entities.

A content is stored when a write replaces it, so a row has the content up to the row's transaction
(`writes.sql`). The present content is in the entity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from catalog.model.change import Change
from catalog.model.entity import Entity
from catalog.store.changes import Position, change_from
from catalog.store.connections import Connection
from catalog.store.entities import entity_from
from catalog.store.queries import Queries

_queries = Queries("revisions")

ContentState = Literal["kept", "purged", "gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What a caller may know of the authors of changes.

    Args:
        all: the caller is an admin of the whole catalog.
        rules: the rules that make the caller an admin of certain groups.
    """

    all: bool
    rules: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedChanges:
    """The conditions on changes, where they are not `None`.

    Args:
        path: the xid of an entity, or the path of a collection: the changes there, and below.
        exactly: only the changes of the entity `path` itself.
        who: a name or a kind of an author, or both as `KIND:NAME`.
        parents: have entities, too, of which only children changed.
    """

    path: str | None = None
    exactly: bool = False
    since: datetime | None = None
    until: datetime | None = None
    authority: str | None = None
    interaction: str | None = None
    who: str | None = None
    parents: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldChange:
    """A change in the log, with the author as far as the caller may know.

    Args:
        content: the state of the content that the entity had after the change; `None` if the
            change deleted the entity.
    """

    position: Position
    at: datetime
    interaction: str
    change: Change
    who: Mapping[str, str] | None
    content: ContentState | None


async def read_newest_changes(
    connection: Connection,
    wanted: WantedChanges,
    known: Knowledge,
    before: Position,
    limit: int,
) -> list[ToldChange]:
    """Read up to `limit` changes before a position, the newest first, as the connection shows."""
    conditions = (
        before.txid,
        before.seq,
        wanted.since,
        wanted.until,
        wanted.authority,
        wanted.interaction,
        wanted.who,
        wanted.parents,
        limit,
    )
    allowed = known.all, [*known.rules]
    path = None if wanted.path == "/" and not wanted.exactly else wanted.path
    if path is not None and (wanted.exactly or path.count("/") > 1):
        below = ("", "") if wanted.exactly else _below(path)
        found = await connection.fetch(_queries.newest_at, *conditions, *allowed, path, *below)
    else:
        type = path and f"{path}/"
        found = await connection.fetch(_queries.newest, *conditions, type)
        if wanted.who is not None and (known.all or known.rules):
            found += await connection.fetch(_queries.newest_by, *conditions, type, *allowed)
    positions = sorted({Position(row["txid"], row["seq"]) for row in found}, reverse=True)
    return await _told(connection, positions[:limit], known)


async def read_change(
    connection: Connection, position: Position, known: Knowledge
) -> ToldChange | None:
    """Read the change at a position, if the connection shows it."""
    return next(iter(await _told(connection, [position], known)), None)


async def read_last_change(
    connection: Connection, xid: str, epoch: int, known: Knowledge
) -> ToldChange | None:
    """Read the last change in the log that gave an entity an epoch."""
    row = await connection.fetchrow(_queries.last_with, xid, epoch)
    return row and await read_change(connection, Position(row["txid"], row["seq"]), known)


async def _told(
    connection: Connection, positions: Sequence[Position], known: Knowledge
) -> list[ToldChange]:
    places = [each.txid for each in positions], [each.seq for each in positions]
    rows = await connection.fetch(_queries.told, *places, known.all, [*known.rules])
    return [_told_from(row) for row in rows]


def _told_from(row: Mapping[str, Any]) -> ToldChange:
    who = {name: row[f"who_{name}"] for name in ("kind", "name", "issuer") if row[f"who_{name}"]}
    return ToldChange(
        position=Position(row["txid"], row["seq"]),
        at=row["at"],
        interaction=row["interaction"],
        change=change_from(row),
        who=who or None,
        content=row["content"],
    )


class ContentPurged(Exception):
    """The content was kept, and has been purged."""


async def content_before(connection: Connection, told: ToldChange) -> Entity | None:
    """Read the content of an entity before a change, with its document; `None` if not kept.

    Raises:
        ContentPurged
    """
    if told.change.action == "created":
        return None
    row = await connection.fetchrow(_queries.content, told.change.xid, told.position.txid)
    return None if row is None else _entity_from(row, told.change, row["epoch"])


async def content_after(connection: Connection, told: ToldChange) -> Entity | None:
    """Read the content of an entity after a change, with its document; `None` if not kept.

    Raises:
        ContentPurged
    """
    if told.change.action == "deleted":
        return None
    row = await connection.fetchrow(_queries.content, told.change.xid, told.position.txid + 1)
    return None if row is None else _entity_from(row, told.change, told.change.epoch)


def _entity_from(row: Mapping[str, Any], change: Change, epoch: int) -> Entity:
    if row["is_purged"]:
        raise ContentPurged
    named = {"kind": change.kind, "authority": change.authority, "origin": change.origin}
    entity = entity_from({**row, **named, "epoch": epoch, "digest": b""})
    return entity if row["document"] is None else replace(entity, document=row["document"])


async def purge(connection: Connection, path: str) -> int:
    """Empty the kept contents of an entity and of the entities below it; return their number."""
    return await connection.fetchval(_queries.purge, path, *_below(path))


def _below(path: str) -> tuple[str, str]:
    """The bounds of the xids below a path; '0' follows '/'."""
    return ("/", "0") if path == "/" else (f"{path}/", f"{path}0")


async def keep_contents(connection: Connection, most_bytes: int) -> None:
    """Have writes keep the contents that they replace, or keep none if `most_bytes` is 0."""
    await connection.execute(_queries.switch, most_bytes > 0)


async def drop_oldest_contents(connection: Connection, most_bytes: int, *, limit: int) -> int:
    """Delete up to `limit` contents beyond the log or `most_bytes`; return their number."""
    return await connection.fetchval(_queries.drop_oldest, most_bytes, limit)
