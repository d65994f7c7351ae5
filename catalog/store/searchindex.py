"""Writes and reads the search index, which finds entities by words and by keys of references.

The index is written in the transaction of the entities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import orjson

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
from catalog.load.workthread import aside
from catalog.model.entity import Entity
from catalog.store.connections import Connection
from catalog.store.entities import entities_from, load
from catalog.store.queries import Queries

MOST_CANDIDATES = 2000
"""The number of matching entities that a search ranks and counts."""

_queries = Queries("searchindex")
_BATCH = 200
_MOST_SEEN = 100


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
    of candidates; `facets` has the number of candidates by the name of an attribute and by value,
    the most frequent first.
    """

    entities: Sequence[Entity]
    deprecated: frozenset[str]
    count: int
    facets: Mapping[str, Mapping[str, int]]


async def find(
    connection: Connection, search: WordSearch, offset: int, limit: int, *, is_restricted: bool
) -> FoundEntities:
    """Find groups, default versions and cross references by words, as the connection shows them.

    Entities of the page have their documents, unless too large to have been indexed.
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
        batch = await with_small_documents(connection, entities[first : first + _BATCH])
        await connection.execute(_queries.forget, [each.xid for each in batch])
        await connection.execute(_queries.index, await aside(len(batch), word_rows, batch))
