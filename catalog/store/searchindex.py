"""Writes and reads the search index, and indexes entities from before the index in the background.

The index is written in the transaction of the entities. It finds entities by words, and by the keys
of their references.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import orjson
import structlog

from catalog.indexing.indexrow import (
    authority_term,
    format_term,
    index_row,
    name_term,
    quoted,
    reference_term,
    type_term,
)
from catalog.indexing.schemafields import MOST_BYTES
from catalog.indexing.words import WantedWords, words_of
from catalog.load.longwork import aside
from catalog.model.entity import Entity
from catalog.model.errors import ServerBusy
from catalog.store.connections import Connection
from catalog.store.database import Database
from catalog.store.entities import entities_from, load
from catalog.store.leadership import take_over
from catalog.store.queries import Queries

MOST_CANDIDATES = 2000
"""The number of matching entities that a search ranks and counts."""

_log = structlog.get_logger(__name__)
_queries = Queries("searchindex")
_BATCH = 200
_MOST_SEEN = 100
_PAUSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WordSearch:
    """The conditions of a search, all of which an entity has to meet.

    Args:
        words: the words as typed; empty stands for any.
        types: the types that an entity may have, each as a path of plurals; `None` for any.
        authority: the URI of the authority.
        format: a format with or without its version, without regard to case.
        deprecated: whether only deprecated entities are found.
    """

    words: str = ""
    types: Sequence[str] | None = None
    authority: str | None = None
    format: str | None = None
    deprecated: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.wanted.runs or self._terms or self.deprecated)

    @property
    def wanted(self) -> WantedWords:
        return WantedWords.of(self.words)

    @property
    def _terms(self) -> list[str]:
        terms = [
            *([] if self.authority is None else [authority_term(self.authority)]),
            *([] if self.format is None else [format_term(self.format)]),
        ]
        queries = list(map(quoted, terms))
        if self.types is not None:
            any_type = " | ".join(quoted(type_term(type)) for type in self.types)
            queries.append(f"({any_type})")
        return queries

    def arguments(self, seen: str = "") -> tuple[str | None, ...]:
        """The queries of the statement `find`, and the conditions that terms do not decide.

        Args:
            seen: a query that every visible entity meets.
        """
        wanted, terms = self.wanted, [*self._terms, *([seen] if seen else [])]
        runs = [_run_query(run, "") for run in wanted.runs]
        in_id = [_run_query(run, name_term("")) for run in wanted.runs]
        words = [quoted(word) for whole, parts in wanted.runs for word in (whole, *parts)]
        return (
            " & ".join([*runs, *terms]) or f"{quoted(type_term(''))}:*",
            " & ".join([*in_id, *terms]) if in_id else None,
            " | ".join(f"{word}:*" for word in words) or None,
            " | ".join(words) or None,
            self.words.strip().lower(),
            self.authority,
            None if self.format is None else self.format.lower(),
        )


def _run_query(run: tuple[str, tuple[str, ...]], prefix: str) -> str:
    whole, parts = run
    query = f"{quoted(prefix + whole)}:*"
    if not parts:
        return query
    return f"({query} | {' & '.join(f'{quoted(prefix + part)}:*' for part in parts)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEntities:
    """The result of a search: a page of entities, and figures about all candidates.

    `deprecated` has the xids of the entities of the page that are deprecated; `count` is the number
    of candidates; `facets` has the number of candidates by the name of an
    attribute and by value, the most frequent first. The result is not whole while entities from
    before the index are still missing there.
    """

    entities: Sequence[Entity]
    deprecated: frozenset[str]
    count: int
    facets: Mapping[str, Mapping[str, int]]
    is_whole: bool


async def find(
    connection: Connection, search: WordSearch, offset: int, limit: int, *, is_restricted: bool
) -> FoundEntities:
    """Find groups, default versions and cross references by words, as the connection shows them.

    Entities of the page have their documents, unless too large to have been indexed.

    Args:
        is_restricted: whether the connection shows the entities of some groups only.
    """
    seen = await _seen_groups(connection) if is_restricted else ""
    row = await connection.fetchrow(
        _queries.find,
        *search.arguments(seen),
        MOST_CANDIDATES,
        offset,
        limit,
        search.deprecated,
    )
    facets: dict[str, dict[str, int]] = {}
    for facet in orjson.loads(row["facets"]):
        facets.setdefault(facet["name"], {})[facet["value"]] = facet["count"]
    by_xid = await load(connection, row["xids"])
    entities = [by_xid[xid] for xid in row["xids"] if xid in by_xid]
    return FoundEntities(
        entities=await with_small_documents(connection, entities),
        deprecated=frozenset(row["deprecated"]),
        count=row["count"],
        facets=facets,
        is_whole=row["is_whole"],
    )


async def _seen_groups(connection: Connection) -> str:
    """A query that all entities of the visible groups meet; empty if there are too many groups.

    The views decide what is visible; the query only spares them most of what is not. Each entity
    has the words of the id of its group.
    """
    rows = await connection.fetch(_queries.read_seen, _MOST_SEEN + 1)
    if not rows:
        return quoted("=nothing")
    if len(rows) > _MOST_SEEN or any(row["is_pattern"] for row in rows):
        return ""
    words = [words_of(row["path"].rpartition("/")[2]) for row in rows]
    groups = [" & ".join(map(quoted, found)) for found in words if found]
    return f"({' | '.join(f'({group})' for group in groups)})" if len(groups) == len(rows) else ""


async def find_referring(
    connection: Connection, keys: Iterable[str], groups: Iterable[str], most: int
) -> list[Entity]:
    """Find groups, default versions and cross references that refer to one of some keys.

    Entities have their documents, unless too large to have been indexed.

    Args:
        keys: a reference to what is below a key, as a version or a part of a document, is found by
            the key, too.
        groups: the keys of groups; a reference to what is in a group is not found by them.
    """
    queries = [
        *(_reference_query(key, "/", ":", "$") for key in keys),
        *(_reference_query(key, ":", "$") for key in groups),
    ]
    rows = await connection.fetch(_queries.find_referring, queries, most) if queries else []
    return await with_small_documents(connection, await entities_from(rows))


def _reference_query(key: str, *ends: str) -> str:
    """The query of references to a key, and to what begins with the key and one of some ends."""
    further = [f"{quoted(reference_term(key + end))}:*" for end in ends]
    return " | ".join([quoted(reference_term(key)), *further])


async def load_referring(connection: Connection, xids: Iterable[str], most: int) -> list[Entity]:
    """Read what may refer to others among entities, given by their xids, and below them.

    Groups, default versions and cross references are read, and versions that are given themselves;
    with their documents as by `find_referring`.
    """
    rows = await connection.fetch(_queries.load_referring, list(xids), most)
    return await with_small_documents(connection, await entities_from(rows))


async def with_small_documents(connection: Connection, entities: Iterable[Entity]) -> list[Entity]:
    """Entities with their documents, unless larger than `MOST_BYTES` of `schemafields`."""
    found = list(entities)
    xids = [each.xid for each in found if each.document_sha256 is not None]
    rows = await connection.fetch(_queries.small_documents, xids, MOST_BYTES) if xids else []
    documents = {row["xid"]: row["body"] for row in rows}
    return [replace(e, document=documents[e.xid]) if e.xid in documents else e for e in found]


def word_rows(entities: Iterable[Entity]) -> str:
    """The rows of entities in the index, as JSON."""
    return orjson.dumps([row for each in entities if (row := index_row(each))]).decode()


async def index_again(connection: Connection, entities: Sequence[Entity]) -> None:
    """Index entities under their new xids, in the transaction of a caller that holds the locks."""
    for first in range(0, len(entities), _BATCH):
        batch = entities[first : first + _BATCH]
        await connection.execute(_queries.forget, [each.xid for each in batch])
        await _index(connection, batch)


async def _index(connection: Connection, entities: Sequence[Entity]) -> None:
    documented = await with_small_documents(connection, entities)
    await connection.execute(_queries.index, await aside(len(documented), word_rows, documented))


async def run_indexing(database: Database) -> None:
    """Index the entities that are missing in the index, in one process of the node at a time.

    They are from before the index, or processes of an older version have written them during an
    upgrade. Half of the time passes between the batches, so that requests are not held up.
    """
    is_done = is_checked = False
    while not is_done:
        try:
            if not is_checked:
                await look_again(database)
                is_checked = True
            begun = time.monotonic()
            is_alone, is_done = await index_once(database)
            await asyncio.sleep(time.monotonic() - begun if is_alone else _PAUSE_SECONDS)
        except (ServerBusy, TimeoutError):
            await database.recovered()


async def look_again(database: Database) -> None:
    """Have entities indexed again if any is missing in the index."""
    async with database.acquire() as connection:
        if await connection.fetchval(_queries.read_progress) is None and await connection.fetchval(
            _queries.has_unindexed
        ):
            await connection.execute(_queries.note_progress, "")


async def index_once(database: Database, *, size: int = _BATCH) -> tuple[bool, bool]:
    """Index up to `size` entities that are missing in the index.

    Returns:
        whether no other process is at it, and whether no entity is missing any more.
    """
    async with database.acquire() as connection:
        after = await connection.fetchval(_queries.read_progress)
        if after is None:
            return True, True
        async with take_over(connection, "indexing") as is_alone:
            if not is_alone:
                return False, False
            async with connection.transaction():
                rows = await connection.fetch(_queries.lock_unindexed, after, size)
                entities = await entities_from(rows)
                await _index(connection, entities)
                reached: str | None = entities[-1].xid if entities else ""
                # Entities that were being written were left out, and are found in another pass.
                if not entities and not await connection.fetchval(_queries.has_unindexed):
                    reached = None
                    _log.info("all entities are in the search index")
                await connection.execute(_queries.note_progress, reached)
    return True, reached is None
