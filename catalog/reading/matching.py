"""Matches conditions down a chain of collections, with the search index if possible."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.reading.visible import segments_of
from catalog.store import find as store
from catalog.store.database import Connection
from catalog.store.filterjsonpath import Condition
from catalog.store.find import Kind, Match


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
    there.

    Args:
        only: the ids of the members of the first collection to search; `None` for all members.
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
