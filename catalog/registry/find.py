"""Finds what `?filter`, `?sort` and pages of collections ask for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from catalog.model.filter import Clause, Filters, Sort
from catalog.model.xid import Xid, collection_of
from catalog.registry.matching import kind_below, match_chain
from catalog.registry.pagetoken import read_token, write_token
from catalog.registry.visible import Visible, segments_of
from catalog.store import find as store
from catalog.store.database import Connection
from catalog.store.find import Row
from catalog.store.jsonpath import Condition, any_of, condition_of

# Up to here, matches are put in order one by one; a collection with more of them is read in
# its order instead.
_FEW = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A page: its entities in order, and where the next one begins; nothing at the end.

    `total` is how many entities all pages have together, where that was asked for.
    """

    xids: list[str]
    following: str = ""
    total: int | None = None


async def find_page(
    connection: Connection,
    owner: Xid,
    plural: str,
    *,
    filters: Filters | None = None,
    sort: Sort | None = None,
    after: str = "",
    limit: int,
    count: bool = False,
) -> Found:
    """A page of what a filter shows of a collection, or of all of it.

    Args:
        filters, sort: parsed for the collection; without a sort, the order is that of ids.
        after: where the page begins, as the one before it said.
        count: find out how many entities all pages have.

    Raises:
        BadRequest: `after` is not from a page in this order.
    """
    listing = f"{str(owner).rstrip('/')}/{plural}"
    key = read_token(after, sort) if after else store.start_of(sort)
    page = _Page(connection, listing, sort, key, limit + 1, count)
    rows, total = await (page.of_all() if filters is None else page.of_matches(filters))
    return Found(
        xids=[row.xid for row in rows[:limit]],
        following=write_token(rows[limit - 1].key) if len(rows) > limit else "",
        total=total,
    )


@dataclass(frozen=True, slots=True)
class _Page:
    """One page: each way to get it answers with its rows and, where asked for, the total."""

    connection: Connection
    listing: str
    sort: Sort | None
    after: store.Key
    limit: int
    count: bool

    async def of_all(self) -> tuple[list[Row], int | None]:
        is_plain = self.sort is None or (self.sort.is_by_id and not self.sort.is_descending)
        rows: list[Row] = []
        if is_plain:
            rows = await store.page_plain(self.connection, self.listing, self.after, self.limit)
        # A cross reference has no versions of its own; it shows those of its target.
        if not is_plain or (not rows and self.listing.endswith("/versions")):
            return await self._by_walking(condition_of(()))
        total = await store.count_all(self.connection, self.listing) if self.count else None
        return rows, total

    async def of_matches(self, filters: Filters) -> tuple[list[Row], int | None]:
        clauses = [clause for clause in filters.clauses if clause.is_possible]
        if not clauses:
            return [], 0
        if any(clause.chain for clause in clauses):
            return await self._of_some(await self._owners(clauses))
        condition = any_of([condition_of(clause.expressions) for clause in clauses])
        if condition.lookup and not self.listing.endswith("/versions"):
            kind = kind_below(self.listing, ())
            few = await store.look_up(self.connection, kind, condition, _FEW + 1)
            if len(few) <= _FEW:
                return await self._of_some({match.id for match in few})
        return await self._by_walking(condition)

    async def _owners(self, clauses: Iterable[Clause]) -> set[str]:
        """The ids of what is a match here, or has one below."""
        start = len(self.listing) + 1
        return {
            match.xid[start:].partition("/")[0].lower()
            for clause in clauses
            for match in await match_chain(
                self.connection, self.listing, clause.chain, _conditions(clause)
            )
        }

    async def _of_some(self, ids: set[str]) -> tuple[list[Row], int]:
        rows = await store.page_of_some(
            self.connection, self.listing, ids, self.sort, self.after, self.limit
        )
        return rows, len(ids)

    async def _by_walking(self, condition: Condition) -> tuple[list[Row], int | None]:
        rows = await store.page_by_walking(
            self.connection, self.listing, condition, self.sort, self.after, self.limit
        )
        if not self.count:
            return rows, None
        return rows, await store.count_matches(self.connection, self.listing, condition)


async def find_visible(
    connection: Connection,
    target: Xid,
    filters: Filters,
    plural: str = "",
    *,
    only: Sequence[str] | None = None,
) -> Visible:
    """What a filter shows of an entity, or of one of its collections.

    Args:
        filters: parsed for the entity; for the collection `plural`, if that is given.
        only: the xids of those in the collection to look at, for a page of it.
    """
    if not plural:
        return await _visible_of_entity(connection, target, filters)
    listing = f"{str(target).rstrip('/')}/{plural}"
    visible = Visible(target=str(target), depth=segments_of(listing) + 1)
    ids = None if only is None else {xid.rpartition("/")[2].lower() for xid in only}
    for clause in filters.clauses:
        if clause.is_possible:
            matches = await match_chain(connection, listing, clause.chain, _conditions(clause), ids)
            visible.add(clause, [match.xid for match in matches])
    visible.is_empty = not visible.roots
    return visible


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
        listing = f"{str(target).rstrip('/')}/{clause.chain[0]}"
        matches = await match_chain(connection, listing, clause.chain[1:], below)
        visible.add(clause, [match.xid for match in matches])
    return visible


def _conditions(clause: Clause) -> list[Condition]:
    """A clause's condition on each level."""
    return [condition_of(clause.at(depth)) for depth in range(len(clause.chain) + 1)]
