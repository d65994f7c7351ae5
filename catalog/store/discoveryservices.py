"""Finds the endpoints that are services, and stores asynchronous requests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from catalog.model.entity import Entity, Origin
from catalog.store.database import Connection
from catalog.store.entities import columns_of, entity_from
from catalog.store.queries import Queries

_queries = Queries("discoveryservices")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStatus:
    """The state of an accepted request: pending, done with an answer, or failed."""

    state: str
    headers: Mapping[str, str]
    body: bytes


async def page_services(connection: Connection, after: str, limit: int) -> list[Entity]:
    """Read up to `limit` endpoints of usage subscriber whose ids come after `after`."""
    rows = await connection.fetch(_queries.page, after.lower(), limit)
    return [entity_from(row) for row in rows]


async def find_by_ids(connection: Connection, ids: Collection[str]) -> list[Entity]:
    """Read the endpoints of any usage that may have the given service ids (UUIDs in lower case)."""
    rows = await connection.fetch(_queries.find_by_ids, list(ids), [UUID(id) for id in ids])
    return [entity_from(row) for row in rows]


async def find_referring(connection: Connection, references: Collection[str]) -> list[str]:
    """Read the xids of the endpoints that refer to message groups by one of the given texts."""
    rows = await connection.fetch(_queries.find_referring, list(references))
    return [row["xid"] for row in rows]


async def find_by_names(connection: Connection, names: Iterable[str]) -> list[Entity]:
    """Read services by their folded names, oldest first."""
    rows = await connection.fetch(_queries.find_by_names, list(names))
    return [entity_from(row) for row in rows]


async def lock_names(connection: Connection, names: Iterable[str]) -> None:
    """Lock folded names until the transaction ends.

    To avoid deadlocks, the caller takes no other lock afterwards.
    """
    await connection.execute(_queries.lock_names, list(names))


async def fold(connection: Connection, names: Iterable[str]) -> dict[str, str]:
    """The forms in which names are compared, by name: case is folded by the rules of Unicode."""
    rows = await connection.fetch(_queries.fold, list(set(names)))
    return {row["name"]: row["folded"] for row in rows}


async def find_underived(connection: Connection) -> list[Origin]:
    """Read the origins of endpoints that are shown as services, and have no stored service id yet.

    Excluded are endpoints whose own id is the id of the service.
    """
    rows = await connection.fetch(_queries.find_underived)
    return [Origin(row["authority"], row["origin"]) for row in rows]


async def remember(connection: Connection, ids: Mapping[Origin, str]) -> None:
    """Store the service ids that were derived from origins."""
    await connection.execute(_queries.remember, *columns_of(ids), [UUID(id) for id in ids.values()])


async def load_members(connection: Connection, collections: Iterable[str]) -> list[str]:
    """Read the xids of all entities of the given collections, in the order of ids."""
    rows = await connection.fetch(_queries.members, list(collections))
    return [row["xid"] for row in rows]


async def accept(connection: Connection, id: UUID, seconds: float, most_pending: int) -> bool:
    """Store a request that may take `seconds`; false if `most_pending` requests are pending."""
    return await connection.fetchval(_queries.accept, id, seconds, most_pending) is not None


async def forget(connection: Connection, seconds: float, most: int) -> None:
    """Delete the requests older than `seconds`, and all ended requests but the `most` newest."""
    await connection.execute(_queries.forget, seconds, most)


async def settle(
    connection: Connection, id: UUID, state: str, headers: Mapping[str, Any], body: bytes
) -> bool:
    """Store the result of a request; `False` if the deadline has passed: the caller rolls back."""
    text = orjson.dumps(dict(headers)).decode()
    return await connection.fetchval(_queries.settle, id, state, text, body) is not None


async def read_status(connection: Connection, id: UUID) -> RequestStatus | None:
    """Read the state of a request; a request past its deadline has failed, without a body."""
    # Separate statements: the update waits for a transaction that settles the request, so that the
    # read sees the result.
    await connection.execute(_queries.interrupt, id)
    row = await connection.fetchrow(_queries.status, id)
    if row is None:
        return None
    return RequestStatus(state=row["state"], headers=orjson.loads(row["headers"]), body=row["body"])
