"""What a catalog holds, by type, authority and format: `GET /-/counts`."""

from __future__ import annotations

from collections import Counter

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.route import Route
from catalog.http.stream import in_search_time
from catalog.operations.nodestate import COUNT_ENTITIES, EntityCount, EntityCounts
from catalog.store.entitycounts import count_all, count_seen

_MOST_VALUES = 100
_ADVICE = "The registry has the numbers of its groups: `GET /`."


async def count_entities(request: web.Request) -> EntityCounts:
    """Count the groups and resources that the caller sees, by type, authority and format."""
    context = request[CONTEXT]
    count = count_seen if context.caller.is_restricted else count_all
    async with in_search_time(request, _ADVICE), context.database.acquire() as connection:
        found = await count(connection)
    return EntityCounts(
        basis=found.basis,
        count=found.number,
        type=_most(found.by_type),
        authority=_most(found.by_authority),
        format=_most(found.by_format),
    )


def _most(counts: Counter[str]) -> list[EntityCount]:
    """The most frequent values, equally frequent ones in their order."""
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return [EntityCount(value=value, count=number) for value, number in ranked[:_MOST_VALUES]]


routes = (Route(COUNT_ENTITIES, count_entities),)
