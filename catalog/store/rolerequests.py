"""Stores requests for roles in groups, and finds the rules that give roles in a group."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from catalog.model.roles import Role
from catalog.store.database import Connection
from catalog.store.queries import Queries

MOST_REQUESTS = 10_000
"""Open requests, and as many decided ones."""
MOST_OPEN_OF_CALLER = 20
_queries = Queries("rolerequests")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRequest:
    """A request of a caller for a role in the group at `path`.

    Args:
        who: the condition of the rule that a grant makes.
        name: the caller, in words.
        rule: the id of the rule that the grant has made.
    """

    id: str
    who: str
    name: str
    role: Role
    path: str
    reason: str
    createdat: datetime
    state: Literal["open", "granted", "declined"] = "open"
    decidedat: datetime | None = None
    decidedby: str | None = None
    note: str | None = None
    rule: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingRule:
    """A rule that gives a role in a group, with the path of the rule that names the group."""

    id: str
    who: str
    role: Role
    path: str


async def add_request(connection: Connection, wanted: RoleRequest) -> RoleRequest:
    """Store a request; an open one of the same caller, role and group gets the reason instead."""
    texts = (wanted.who, wanted.name, wanted.role, wanted.path, wanted.reason)
    row = await connection.fetchrow(_queries.add, wanted.id, *texts, wanted.createdat)
    return _request_from(row)


async def count_requests(connection: Connection, who: str) -> tuple[int, int]:
    """Count the open requests, and those of a caller among them."""
    row = await connection.fetchrow(_queries.count, who)
    return row["all_of_them"], row["own"]


async def forget_decided(connection: Connection, before: datetime) -> None:
    """Delete the requests that were decided before a time, and the oldest ones of too many."""
    await connection.execute(_queries.forget_decided, before, MOST_REQUESTS)


async def find_request(
    connection: Connection, id: str, *, locks: bool = False
) -> RoleRequest | None:
    """Read a request; `locks` keeps others from deciding until the transaction ends."""
    row = await connection.fetchrow(_queries.lock if locks else _queries.find, id)
    return None if row is None else _request_from(row)


async def decide_request(connection: Connection, decided: RoleRequest) -> None:
    """Store what became of a request."""
    outcome = (decided.decidedat, decided.decidedby, decided.note, decided.rule)
    await connection.execute(_queries.decide, decided.id, decided.state, *outcome)


async def remove_request(connection: Connection, id: str) -> None:
    await connection.execute(_queries.remove, id)


async def list_requests(
    connection: Connection,
    *,
    who: str,
    within: Collection[str] | None,
    state: str | None,
    path: str | None,
    after: str,
    limit: int,
) -> list[RoleRequest]:
    """Read a page of requests, the latest first.

    Args:
        who: the caller whose own requests are read.
        within: ids of rules; the requests about their groups are read, too. `None` reads all.
        state: only requests in this state.
        path: only requests about this group.
    """
    rules = None if within is None else list(within)
    rows = await connection.fetch(_queries.page, who, rules, state, path, after, limit)
    return [_request_from(row) for row in rows]


async def rules_holding(connection: Connection, path: str, limit: int) -> list[HoldingRule]:
    """Read the rules that give a role in the group at a path."""
    return [HoldingRule(**row) for row in await connection.fetch(_queries.holding, path, limit)]


def _request_from(row: Mapping[str, Any]) -> RoleRequest:
    return RoleRequest(**{name: row[name] for name in RoleRequest.__slots__})
