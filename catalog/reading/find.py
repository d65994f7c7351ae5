"""Finds the entities that `?filter`, `?sort` and pages of collections select.

Conditions are matched down a chain of collections, with the search index if possible.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

import orjson

from catalog.model.errors import BadRequest, NotFound
from catalog.model.filter import Clause, Filters, Sort
from catalog.model.timestamps import parse_time
from catalog.model.xid import Xid, collection_of, is_valid_id
from catalog.reading.entities import most_fitting
from catalog.reading.visible import Visible, segments_of
from catalog.store import find as store
from catalog.store.database import Connection
from catalog.store.entities import load
from catalog.store.filterjsonpath import Condition, any_of, condition_of
from catalog.store.find import Kind, Match, Row, SortKey


async def match_chain(
    connection: Connection,
    listing: str,
    chain: Sequence[str],
    conditions: Sequence[Condition],
    only: set[str] | None = None,
) -> list[Match]:
    """The entities at the end of a chain that meet the last condition.

    The owners of these entities meet the earlier conditions. Starts at the lowest level whose
    condition the search index supports, else at the top, and reads everything below the matches
    there. `only` has the ids of the members of the first collection to search; `None` for all.
    """
    indexed = [level for level, condition in enumerate(conditions) if condition.lookup]
    level = indexed[-1] if indexed else 0
    if indexed:
        matches = await _look_up(connection, listing, chain[:level], conditions, only)
    elif only is not None:
        matches = await store.hold(connection, [(listing, id) for id in only], conditions[0])
    else:
        matches = await store.match_in(connection, [listing], conditions[0])
    for plural, condition in zip(chain[level:], conditions[level + 1 :], strict=True):
        listings = [f"{match.xid}/{plural}" for match in matches]
        matches = await store.match_in(connection, listings, condition)
    return matches


async def _look_up(
    connection: Connection,
    listing: str,
    chain: Sequence[str],
    conditions: Sequence[Condition],
    only: set[str] | None,
) -> list[Match]:
    """The matches of the search index at the end of a chain whose owners meet their conditions."""
    kind = kind_below(listing, chain)
    matches = await store.look_up(connection, kind, conditions[len(chain)], None)
    if only is not None:
        # The index cannot be asked for members of a page, so others are left out afterwards.
        matches = [match for match in matches if _owner(match, listing, 0)[1] in only]
    for level, condition in enumerate(conditions[: len(chain)]):
        if not condition.is_trivial:
            places = {_owner(match, listing, level) for match in matches}
            held = await store.hold(connection, list(places), condition)
            fitting = {(match.listing, match.id) for match in held}
            matches = [match for match in matches if _owner(match, listing, level) in fitting]
    return matches


def kind_below(listing: str, chain: Sequence[str]) -> Kind:
    """The collections at the end of a chain that starts at any member of a collection."""
    # The index can limit a search to a collection of resources, or to a collection of groups.
    is_one_place = segments_of(listing) > 1 or not chain
    return Kind(
        within=listing if is_one_place else "",
        prefix=f"{listing}/" if chain else listing,
        segments=segments_of(listing) + 2 * len(chain),
        plural=chain[-1] if chain else listing.rpartition("/")[2],
    )


def _owner(match: Match, listing: str, level: int) -> tuple[str, str]:
    """The listing and id of a match's owner at a level below a collection."""
    parts = match.xid.split("/")
    end = 1 + segments_of(listing) + 2 * level
    return "/".join(parts[:end]), parts[end].lower()


_LONGEST = 4096
_LONGEST_TEXT = 256
_LARGEST_EXPONENT = 400


def _start_of(after: str, sort: Sort | None, *, is_plain: bool) -> SortKey:
    if not after:
        return store.start_of(sort)
    if is_plain:
        # The rank of an entity in an order without values.
        return replace(store.BEFORE_ALL, rank=0, id=after.lower())
    return read_token(after, sort)


def write_token(key: SortKey) -> str:
    content = orjson.dumps([key.rank, str(key.number), key.text, key.id])
    return urlsafe_b64encode(content).decode().rstrip("=")


def read_token(token: str, sort: Sort | None) -> SortKey:
    """Parse a token that `write_token` wrote for a page in the same order; else BadRequest."""
    try:
        key = _key_of(token)
        if sort is not None and sort.key == "modifiedat" and key.text:
            parse_time(f"{key.text}Z")
    except (ValueError, InvalidOperation, binascii.Error) as error:
        raise BadRequest("/", error_detail='"after" is not from a page of this order') from error
    return key


def _key_of(token: str) -> SortKey:
    if len(token) > _LONGEST or not token.isascii():
        raise ValueError("it is too long")
    match orjson.loads(urlsafe_b64decode(token + "=" * (-len(token) % 4))):
        case [int(rank), str(number), str(text), str(id)] if rank in (0, 1, 2):
            key = SortKey(rank=rank, number=Decimal(number), text=text, id=id)
        case _:
            raise ValueError("it is not a place in an order")
    # Clients can forge a token: only values at which a page can end reach the database.
    is_sound = (
        key.number.is_finite()
        and abs(key.number.adjusted()) <= _LARGEST_EXPONENT
        and len(text) <= _LONGEST_TEXT
        and "\x00" not in text
        and is_valid_id(id)
    )
    if not is_sound:
        raise ValueError("it is beyond what there can be")
    return key


# Up to this number, matches are found first and then sorted; beyond it, the collection is read in
# the order of the page.
_FEW = 1000
# The database takes limits of 32 bits, and one row more than the page is asked for.
_ALL = 2**31 - 2

# Counts the entities of all pages together.
Total: TypeAlias = Callable[[], Awaitable[int]]
# Counts the entities of a whole collection, by its path.
Count: TypeAlias = Callable[[Connection, str], Awaitable[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPage:
    """A page: its entities in order, the token of the next page, and the number on all pages."""

    xids: list[str]
    following: str = ""
    total: int = 0


async def find_page(
    connection: Connection,
    owner: Xid,
    plural: str,
    *,
    filters: Filters | None = None,
    sort: Sort | None = None,
    after: str = "",
    limit: int | None,
    count_whole: Count = store.count_all,
) -> FoundPage:
    """Find a page of a collection, or of the entities that a filter selects.

    Args:
        filters, sort: parsed for the collection; without a sort, the order is by ids.
        after: the token of the page, from the previous page; without filters and a sort, the id
            after which the page begins.
        limit: the most entities of the page, which has fewer if they are large; `None` for all.
        count_whole: counts the whole collection; called if the collection has several pages.

    Raises:
        BadRequest: `after` is not from a page in this order.
        NotFound: the owner of the collection does not exist.
        TooLarge: without a limit, the versions are too large to hold at once.
    """
    is_plain = filters is None and sort is None
    key = _start_of(after, sort, is_plain=is_plain)
    most = _ALL if limit is None else limit
    page = _Page(connection, owner.collection(plural), sort, key, most + 1, count_whole)
    rows, count = await (page.of_all() if filters is None else page.of_matches(filters))
    # An empty collection and a missing owner have no rows alike.
    if not rows and not await load(connection, [str(owner)]):
        raise NotFound(str(owner))
    xids = [row["xid"] for row in rows[:most]]
    # Without a limit, groups and resources are answered as a stream, which needs no bound.
    if limit is not None or plural == "versions":
        most = await most_fitting(connection, xids, limit) or most
    is_one_of_many = bool(after) or len(rows) > most
    following = ""
    if len(rows) > most:
        last = rows[most - 1]
        following = Xid.parse(last["xid"]).id if is_plain else write_token(store.key_of(last))
    return FoundPage(
        xids=xids[:most],
        following=following,
        total=await count() if is_one_of_many else len(rows),
    )


@dataclass(frozen=True, slots=True)
class _Page:
    """A page to find: each method returns the rows, and a function that counts every page."""

    connection: Connection
    listing: str
    sort: Sort | None
    after: store.SortKey
    limit: int
    count_whole: Count

    @property
    def _is_ascending_by_id(self) -> bool:
        return self.sort is None or (self.sort.is_by_id and not self.sort.is_descending)

    async def of_all(self) -> tuple[list[Row], Total]:
        rows: list[Row] = []
        if self._is_ascending_by_id:
            rows = await store.page_plain(self.connection, self.listing, self.after, self.limit)
        is_of_versions = self.listing.endswith("/versions")
        # A cross reference has no versions of its own, and shows the versions of its target.
        if not self._is_ascending_by_id or (not rows and is_of_versions):
            rows, count = await self._by_walking(Condition())
            if is_of_versions:
                return rows, count
        return rows, lambda: self.count_whole(self.connection, self.listing)

    async def of_matches(self, filters: Filters) -> tuple[list[Row], Total]:
        clauses = [clause for clause in filters.clauses if clause.is_possible]
        if any(clause.chain for clause in clauses) or not clauses:
            return await self.of_some(await self._owners(clauses))
        condition = any_of([condition_of(clause.expressions) for clause in clauses])
        if condition.lookup and not self.listing.endswith("/versions"):
            kind = kind_below(self.listing, ())
            few = await store.look_up(self.connection, kind, condition, _FEW + 1)
            if len(few) <= _FEW:
                return await self.of_some({match.id: match.xid for match in few})
        return await self._by_walking(condition)

    async def _owners(self, clauses: Iterable[Clause]) -> dict[str, str]:
        """The members that match or own a match: xids by ids in lower case."""
        start = len(self.listing) + 1
        ids = {
            match.xid[start:].partition("/")[0]
            for clause in clauses
            for match in await match_chain(
                self.connection, self.listing, clause.chain, _conditions(clause)
            )
        }
        return {id.lower(): f"{self.listing}/{id}" for id in ids}

    async def of_some(self, found: Mapping[str, str]) -> tuple[list[Row], Total]:
        async def count() -> int:
            return len(found)

        if self._is_ascending_by_id:
            ids = sorted(id for id in found if id > self.after.id)[: self.limit]
            return [{"xid": found[id], "id": id, "text": ""} for id in ids], count
        rows = await store.page_of_some(
            self.connection, self.listing, found, self.sort, self.after, self.limit
        )
        return rows, count

    async def _by_walking(self, condition: Condition) -> tuple[list[Row], Total]:
        rows = await store.page_by_walking(
            self.connection, self.listing, condition, self.sort, self.after, self.limit
        )
        return rows, lambda: store.count_matches(self.connection, self.listing, condition)


async def find_visible(
    connection: Connection,
    target: Xid,
    filters: Filters,
    plural: str = "",
    *,
    only: Sequence[str] | None = None,
) -> Visible:
    """Find the part that a filter selects of an entity, or of a collection of the entity.

    Args:
        filters: parsed for the entity, or for the collection `plural`.
        plural: the name of the collection; empty for the entity.
        only: the xids of the page, if only a page of the collection is shown; each entity of the
            page is a match or owns a match.
    """
    if not plural:
        return await _visible_of_entity(connection, target, filters)
    if only is None or not filters.is_plain:
        return await find_among(connection, target, filters, plural, only)
    visible = _nothing_of(target, plural)
    visible.add(filters.clauses[0], only)
    visible.is_empty = not visible.roots
    return visible


async def find_among(
    connection: Connection,
    target: Xid,
    filters: Filters,
    plural: str,
    xids: Sequence[str] | None = None,
) -> Visible:
    """Find the part that a filter selects of a collection, or of given entities of a collection."""
    visible = _nothing_of(target, plural)
    ids = None if xids is None else {_id_in(xid) for xid in xids}
    for clause in filters.clauses:
        if clause.is_possible:
            matches = await match_chain(
                connection, target.collection(plural), clause.chain, _conditions(clause), ids
            )
            visible.add(clause, [match.xid for match in matches])
    visible.is_empty = not visible.roots
    return visible


async def put_in_order(
    connection: Connection, owner: Xid, plural: str, xids: Sequence[str], sort: Sort
) -> list[str]:
    """Sort the given entities of a collection, without deleted entities."""
    ids = {_id_in(xid): xid for xid in xids}
    listing = owner.collection(plural)
    page = _Page(connection, listing, sort, store.start_of(sort), len(ids), store.count_all)
    rows, _ = await page.of_some(ids)
    return [row["xid"] for row in rows]


def _nothing_of(owner: Xid, plural: str) -> Visible:
    return Visible(target=str(owner), depth=segments_of(owner.collection(plural)) + 1)


def _id_in(xid: str) -> str:
    """An entity's id in lower case, which is unique in the entity's collection."""
    return xid.rpartition("/")[2].lower()


async def _visible_of_entity(connection: Connection, target: Xid, filters: Filters) -> Visible:
    visible = Visible(target=str(target), depth=segments_of(str(target)), is_empty=True)
    place = (collection_of(target), target.id.lower())
    for clause in filters.clauses:
        own, *below = _conditions(clause)
        if not own.is_trivial and not await store.hold(connection, [place], own):
            continue
        visible.is_empty = False
        if not clause.is_possible:
            continue
        if not clause.chain:
            visible.add(clause, [str(target)])
            continue
        listing = target.collection(clause.chain[0])
        matches = await match_chain(connection, listing, clause.chain[1:], below)
        visible.add(clause, [match.xid for match in matches])
    return visible


def _conditions(clause: Clause) -> list[Condition]:
    """The condition of a clause on each level."""
    return [condition_of(clause.at(depth)) for depth in range(len(clause.chain) + 1)]
