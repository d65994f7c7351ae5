"""Finds entities: pages of collections in an order, matches of conditions, messages by type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import orjson

from catalog.model.filter import Sort
from catalog.store.connections import Connection
from catalog.store.filterjsonpath import Condition, PathPart, sort_path, within
from catalog.store.queries import Queries

_queries = Queries("find")

# Ids are ASCII; texts to sort by have at most 256 characters.
_BEYOND_IDS = "\x7f"
_BEYOND_TEXTS = "\U0010ffff" * 257


@dataclass(frozen=True, slots=True, kw_only=True)
class SortKey:
    """The position of an entity in an order; an entity without a value has rank 0, the lowest."""

    rank: int
    number: Decimal
    text: str
    id: str


BEFORE_ALL = SortKey(rank=-1, number=Decimal(0), text="", id="")
AFTER_ALL = SortKey(rank=9, number=Decimal(0), text=_BEYOND_TEXTS, id=_BEYOND_IDS)


# A row of a page: the entity's `xid`, and the columns that `key_of` reads.
Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Match:
    """An entity that meets a condition, with the collection and the id (lower case)."""

    xid: str
    listing: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The collections `prefix…/<plural>` with `segments` segments; ids are the segments between.

    The collections are in or below the collection `within`, unless `within` is empty.
    """

    within: str
    prefix: str
    segments: int
    plural: str


def key_of(row: Row) -> SortKey:
    """The sort key of a row, which may have only a text and an id."""
    text = row["text"]
    return SortKey(
        rank=row.get("rank", 2 if text else 0),
        number=row.get("number", Decimal(0)),
        text=text,
        id=row["id"],
    )


def start_of(sort: Sort | None) -> SortKey:
    """The sort key before the first entity of an order."""
    return AFTER_ALL if _is_descending(sort) else BEFORE_ALL


def _is_descending(sort: Sort | None) -> bool:
    return sort is not None and sort.is_descending


async def page_plain(connection: Connection, listing: str, after: SortKey, limit: int) -> list[Row]:
    """A page of a collection, in the order of ids."""
    return await connection.fetch(_queries.plain, listing, after.id, limit)


async def page_by_walking(
    connection: Connection,
    listing: str,
    condition: Condition,
    sort: Sort | None,
    after: SortKey,
    limit: int,
) -> list[Row]:
    """A page of the matches of a condition that much of the collection meets.

    Groups and resources are read in the order of an index if `sort` has an index. Otherwise all
    matches are sorted.
    """
    wanted = (condition.path, *_columns(condition.part))
    is_indexed = sort is None or sort.is_by_id or sort.key in ("name", "modifiedat")
    rows: list[Row]
    if listing.endswith("/versions") or not is_indexed:
        statement = _queries.rank_desc if _is_descending(sort) else _queries.rank
        ranking = _ranking(listing, sort, after, limit)
        rows = await connection.fetch(statement, *ranking, *wanted)
    else:
        statement, place = _walk(sort, after)
        rows = await connection.fetch(statement, listing, *wanted, *place, limit)
    return rows


def _walk(sort: Sort | None, after: SortKey) -> tuple[str, tuple[str, ...]]:
    """The statement that reads in an order, and the arguments where the statement starts."""
    backwards = _is_descending(sort)
    if sort is None or sort.is_by_id:
        return (_queries.walk_by_id_desc if backwards else _queries.walk_by_id), (after.id,)
    if sort.key == "name":
        statement = _queries.walk_by_name_desc if backwards else _queries.walk_by_name
        return statement, (after.text, after.id)
    statement = _queries.walk_by_time_desc if backwards else _queries.walk_by_time
    return statement, (_time(after), after.id)


def _time(key: SortKey) -> str:
    if key.rank == AFTER_ALL.rank:
        return "infinity"
    return f"{key.text}Z" if key.text else "-infinity"


async def page_of_some(
    connection: Connection,
    listing: str,
    ids: Iterable[str],
    sort: Sort | None,
    after: SortKey,
    limit: int,
) -> list[Row]:
    """A page of the entities with the given ids (lower case)."""
    statement = _queries.rank_some_desc if _is_descending(sort) else _queries.rank_some
    ranking = _ranking(listing, sort, after, limit)
    return await connection.fetch(statement, *ranking, list(ids))


def _ranking(listing: str, sort: Sort | None, after: SortKey, limit: int) -> list[Any]:
    path, part = (None, PathPart()) if sort is None or sort.is_by_id else sort_path(sort)
    is_time = sort is not None and sort.reference.type == "timestamp"
    place = (after.rank, after.number, after.text, after.id)
    return [listing, path, *_columns(part), "z" if is_time else "", *place, limit]


def _columns(part: PathPart) -> tuple[list[str] | None, bool, bool]:
    return None if part.names is None else [*part.names], part.facts, part.meta


async def look_up(
    connection: Connection, kind: Kind, condition: Condition, limit: int | None
) -> list[Match]:
    """The first matches of a condition with a `lookup`, in all collections of a kind."""
    rows = await connection.fetch(
        _queries.look_up,
        within(condition.lookup, kind.within) if kind.within else condition.lookup,
        condition.path,
        *_columns(condition.part),
        kind.prefix,
        kind.segments + 1,
        kind.plural,
        limit,
    )
    return [Match(row["xid"], row["listing"], row["id"]) for row in rows]


async def match_in(
    connection: Connection, listings: Sequence[str], condition: Condition
) -> list[Match]:
    """All matches of a condition in the given collections."""
    rows = await connection.fetch(
        _queries.match, condition.path, *_columns(condition.part), listings
    )
    return [Match(row["xid"], row["listing"], row["id"]) for row in rows]


async def hold(
    connection: Connection, places: Sequence[tuple[str, str]], condition: Condition
) -> list[Match]:
    """The matches of a condition among entities, given by collection and id (lower case)."""
    rows = await connection.fetch(
        _queries.hold,
        condition.path,
        *_columns(condition.part),
        [listing for listing, _ in places],
        [id for _, id in places],
    )
    return [Match(row["xid"], row["listing"], row["id"]) for row in rows]


async def count_matches(connection: Connection, listing: str, condition: Condition) -> int:
    return await connection.fetchval(
        _queries.count, listing, condition.path, *_columns(condition.part)
    )


async def count_all(connection: Connection, listing: str) -> int:
    return await connection.fetchval(_queries.count_plain, listing)


async def find_by_type(connection: Connection, type: str, most: int) -> list[str]:
    """The xids of default versions of messages whose type has a value, without regard to case."""
    return await _find_messages(connection, {"value": type}, most)


async def find_with_template(connection: Connection, most: int) -> list[str]:
    """The xids of default versions of messages whose type is a URI template."""
    return await _find_messages(connection, {"type": "uritemplate"}, most)


async def _find_messages(connection: Connection, type: Mapping[str, str], most: int) -> list[str]:
    # Some definitions have the attributes of the event in an object of their own.
    forms = ({"type": type}, {"attributes": {"type": type}})
    texts = [orjson.dumps({"envelopemetadata": form}).decode().lower() for form in forms]
    rows = await connection.fetch(_queries.messages_of_type, *texts, most)
    return [row["xid"] for row in rows]
