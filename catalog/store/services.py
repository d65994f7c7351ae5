"""Finds the endpoints that are services, and keeps the requests that are answered later."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from catalog.model.entity import Entity, Origin
from catalog.store.database import Connection
from catalog.store.entities import entity_from
from catalog.store.queries import Queries

_queries = Queries("services")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStatus:
    """How a request is doing that was accepted: pending, done with its answer, or failed."""

    state: str
    headers: Mapping[str, str]
    body: bytes


async def page_services(connection: Connection, after: str, limit: int) -> list[Entity]:
    """Up to `limit` endpoints of usage subscriber whose ids come after `after`."""
    rows = await connection.fetch(_queries.page, after.lower(), limit)
    return [entity_from(row) for row in rows]


async def find_by_ids(connection: Connection, ids: Collection[str]) -> list[Entity]:
    """Endpoints, of any usage, that may have one of these service ids (UUIDs in lower case)."""
    rows = await connection.fetch(_queries.find_by_ids, list(ids), [UUID(id) for id in ids])
    return [entity_from(row) for row in rows]


async def find_by_names(connection: Connection, names: Iterable[str]) -> list[Entity]:
    """Services by their folded names, the oldest first."""
    rows = await connection.fetch(_queries.find_by_names, list(names))
    return [entity_from(row) for row in rows]


async def lock_names(connection: Connection, names: Iterable[str]) -> None:
    """Wait until nobody else asks for these names, and let nobody until the transaction ends.

    Names are folded. Whoever does so waits for no other lock afterwards.
    """
    await connection.execute(_queries.lock_names, list(names))


async def fold(connection: Connection, names: Iterable[str]) -> dict[str, str]:
    """Names in the form in which they are compared: folded as Unicode folds case."""
    rows = await connection.fetch(_queries.fold, list(set(names)))
    return {row["name"]: row["folded"] for row in rows}


async def find_underived(connection: Connection) -> list[Origin]:
    """The origins of services whose derived ids are not remembered yet."""
    rows = await connection.fetch(_queries.find_underived)
    return [Origin(row["authority"], row["origin"]) for row in rows]


async def remember(connection: Connection, ids: Mapping[Origin, str]) -> None:
    """Keep the service ids that were derived from origins."""
    await connection.execute(
        _queries.remember,
        [origin.authority for origin in ids],
        [origin.xid for origin in ids],
        [UUID(id) for id in ids.values()],
    )


async def load_members(connection: Connection, collections: Iterable[str]) -> list[str]:
    """The xids of everything in these collections, in the order of ids."""
    rows = await connection.fetch(_queries.members, list(collections))
    return [row["xid"] for row in rows]


async def accept(connection: Connection, id: UUID, seconds: float, most_pending: int) -> bool:
    """Note a request that has `seconds` to be processed, unless too many are pending."""
    return await connection.fetchval(_queries.accept, id, seconds, most_pending) is not None


async def forget(connection: Connection, seconds: float, most: int) -> None:
    """Drop the requests that are older, and of those that ended all but the `most` newest."""
    await connection.execute(_queries.forget, seconds, most)


async def settle(
    connection: Connection, id: UUID, state: str, headers: Mapping[str, Any], body: bytes
) -> bool:
    """Say how a request ended. False means that its time was up, and that it must not end."""
    text = orjson.dumps(dict(headers)).decode()
    return await connection.fetchval(_queries.settle, id, state, text, body) is not None


async def read_status(connection: Connection, id: UUID) -> RequestStatus | None:
    """How a request is doing; one that was not processed in time has failed, without a body."""
    await connection.execute(_queries.interrupt, id)
    row = await connection.fetchrow(_queries.status, id)
    if row is None:
        return None
    return RequestStatus(state=row["state"], headers=orjson.loads(row["headers"]), body=row["body"])
