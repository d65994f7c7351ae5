"""The numbers of versions (message catalog, 2.2.5): a counter, unless a pusher brings its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catalog.context import Context
from catalog.dialects.messagecatalog.events import is_number
from catalog.model.entity import Entity
from catalog.model.xid import Xid
from catalog.store import entities as store

# Of a CloudEvents Integer, which a version is.
_LARGEST_NUMBER = 2**31 - 1


async def last_number(context: Context, xid: Xid, earlier: Sequence[Entity]) -> int:
    """The largest number that a version has or had; 0 where there was none."""
    numbers = [int(one.path.vid) for one in earlier if is_number(one.path.vid)]
    if earlier:
        async with context.database.pool.acquire() as connection:
            deleted = await store.numbers_of_deleted_versions(
                connection, context.database.node.authority, [str(xid)]
            )
        numbers += [span.stop - 1 for span in deleted.get(str(xid), ())]
    return max(numbers, default=0)


def new_number(body: Mapping[str, Any], last: int) -> str:
    """The number of a new version, which is above all others.

    Who pushes a definition of another authority says the version's number there. It is kept,
    so that the version has the same URI at every catalog (2.2.2 and 5.3).

    Args:
        body: of the version, with its definition's authority.
        last: the largest number so far.
    """
    given = body.get("version")
    if body.get("authority") and type(given) is int and last < given <= _LARGEST_NUMBER:
        return str(given)
    return str(last + 1)
