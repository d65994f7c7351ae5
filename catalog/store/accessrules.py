"""Stores the rules that give callers roles in groups, and the requests for such roles."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from catalog.model.roles import Grant, Role, RuleGrant, is_wild
from catalog.store.database import Connection
from catalog.store.queries import Queries

MOST_RULES = 10_000
MOST_RULES_OF_OWNERS = 9_000
"""The most rules of admins of some groups; the rest is for admins of the whole catalog."""
MOST_RULES_OF_OWNER = 1_000
_queries = Queries("accessrules")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRule:
    """A role for callers that meet the condition `who`, at a number of paths.

    `read_paths` reads the paths.
    """

    id: str
    who: str
    role: Role
    createdat: datetime
    createdby: str
    pathscount: int = 0


async def add_rule(connection: Connection, rule: AccessRule, paths: Iterable[str]) -> bool:
    """Store a new rule with its paths, as `parse_path` gives them; false if the id is taken."""
    added = await connection.fetchval(
        _queries.add, rule.id, rule.who, rule.role, rule.createdat, rule.createdby
    )
    if added is not None:
        await add_paths(connection, rule.id, paths)
    return added is not None


async def _change(connection: Connection, statement: str, *arguments: object) -> Any:
    """Execute a change of the rules, which processes notice by the raised revision."""
    found = await connection.fetchval(statement, *arguments)
    await connection.execute(_queries.raise_revision)
    return found


async def change_rule(connection: Connection, id: str, *, who: str, role: Role) -> bool:
    """Replace the condition and the role of a rule; false if no rule has the id."""
    return await _change(connection, _queries.change, id, who, role) is not None


async def remove_rule(connection: Connection, id: str) -> bool:
    """Delete a rule; false if no rule has the id."""
    return await _change(connection, _queries.remove, id) is not None


async def add_paths(connection: Connection, id: str, paths: Iterable[str]) -> None:
    """Give a rule more paths, as `parse_path` gives them."""
    paths = list(dict.fromkeys(paths))
    patterns = [_pattern(path) if is_wild(path) else None for path in paths]
    await _change(connection, _queries.add_paths, id, paths, patterns)


async def replace_paths(connection: Connection, id: str, paths: Iterable[str]) -> None:
    """Replace the paths of a rule."""
    paths = list(paths)
    await connection.execute(_queries.clear_paths, id, paths)
    await add_paths(connection, id, paths)


async def find_rule(connection: Connection, id: str) -> AccessRule | None:
    row = await connection.fetchrow(_queries.find, id)
    return None if row is None else AccessRule(**row)


async def remove_rules_for(connection: Connection, who: str) -> None:
    """Delete every rule with exactly the condition `who`."""
    await _change(connection, _queries.remove_for, who)


async def list_rules(
    connection: Connection, *, after: str = "", limit: int, within: Collection[str] | None = None
) -> list[AccessRule]:
    """Read a page of the rules, in the order of their ids.

    Args:
        within: ids of rules; only rules with every path named by the given rules are read.
    """
    if within is None:
        rows = await connection.fetch(_queries.page, after, limit)
    else:
        rows = await connection.fetch(_queries.page_within, after, limit, list(within))
    return [AccessRule(**row) for row in rows]


async def is_within(connection: Connection, id: str, rules: Collection[str]) -> bool:
    """Whether the rules with the ids `rules` name every path of a rule."""
    return bool(await connection.fetchval(_queries.is_within, id, list(rules)))


async def first_paths(
    connection: Connection, ids: Collection[str], most: int
) -> dict[str, list[str]]:
    """Read the first paths, at most `most`, of each of the given rules."""
    found: dict[str, list[str]] = {}
    for row in await connection.fetch(_queries.first_paths, list(ids), most):
        found.setdefault(row["rule"], []).append(row["path"])
    return found


async def digest_paths(connection: Connection, ids: Collection[str]) -> bytes:
    """A digest of the paths of the given rules, which differs after every change of a path."""
    return await connection.fetchval(_queries.digest_paths, list(ids))


async def read_grants_for(
    connection: Connection, whos: Collection[str], most: int
) -> dict[str, list[Grant]]:
    """Read the grants of rules with exactly these conditions; of each rule, the first paths."""
    found: dict[str, list[Grant]] = {}
    for row in await connection.fetch(_queries.grants_for, list(whos), most):
        found.setdefault(row["who"], []).append(Grant(row["role"], row["path"]))
    return found


async def read_grants_of(connection: Connection, who: str, most: int) -> list[Grant]:
    """Read the first grants of the rules with exactly the condition `who`."""
    rows = await connection.fetch(_queries.grants_of, who, most)
    return [Grant(row["role"], row["path"]) for row in rows]


async def read_paths(connection: Connection, id: str) -> list[str]:
    """Read the paths of a rule, in order."""
    return [row["path"] for row in await connection.fetch(_queries.paths, id)]


async def count_rules(connection: Connection, by: str) -> tuple[int, int]:
    """Count all rules, and the rules that the principal `by` has made."""
    row = await connection.fetchrow(_queries.count, by)
    return row["all_of_them"], row["own"]


async def read_access_revision(connection: Connection) -> int:
    """Read the number that every change of the rules raises."""
    return await connection.fetchval(_queries.revision)


async def read_known_rules(connection: Connection) -> list[tuple[str, RuleGrant]]:
    """Read the condition of every rule, with the rule's id and role."""
    rows = await connection.fetch(_queries.known)
    return [(row["who"], RuleGrant(row["id"], row["role"])) for row in rows]


async def covered_groups(
    connection: Connection, rules: Collection[str], groups: Collection[str]
) -> frozenset[str]:
    """Find the groups among the xids `groups` that at least one of the given rules names now."""
    if not rules or not groups:
        return frozenset()
    rows = await connection.fetch(_queries.covered, list(rules), list(groups))
    return frozenset(row["g"] for row in rows)


def _pattern(path: str) -> str:
    """A path as a pattern of LIKE, which interprets no other characters of a path."""
    return path.replace("_", r"\_").replace("*", "%")


MOST_REQUESTS = 10_000
"""Open requests, and as many decided ones."""
MOST_OPEN_OF_CALLER = 20
_requests = Queries("rolerequests")


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
    row = await connection.fetchrow(_requests.add, wanted.id, *texts, wanted.createdat)
    return _request_from(row)


async def count_requests(connection: Connection, who: str) -> tuple[int, int]:
    """Count the open requests, and those of a caller among them."""
    row = await connection.fetchrow(_requests.count, who)
    return row["all_of_them"], row["own"]


async def forget_decided(connection: Connection, before: datetime) -> None:
    """Delete the requests that were decided before a time, and the oldest ones of too many."""
    await connection.execute(_requests.forget_decided, before, MOST_REQUESTS)


async def find_request(
    connection: Connection, id: str, *, locks: bool = False
) -> RoleRequest | None:
    """Read a request; `locks` keeps others from deciding until the transaction ends."""
    row = await connection.fetchrow(_requests.lock if locks else _requests.find, id)
    return None if row is None else _request_from(row)


async def decide_request(connection: Connection, decided: RoleRequest) -> None:
    """Store what became of a request."""
    outcome = (decided.decidedat, decided.decidedby, decided.note, decided.rule)
    await connection.execute(_requests.decide, decided.id, decided.state, *outcome)


async def remove_request(connection: Connection, id: str) -> None:
    await connection.execute(_requests.remove, id)


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
        state, path: only requests in this state, and about this group.
    """
    rules = None if within is None else list(within)
    rows = await connection.fetch(_requests.page, who, rules, state, path, after, limit)
    return [_request_from(row) for row in rows]


async def rules_holding(connection: Connection, path: str, limit: int) -> list[HoldingRule]:
    """Read the rules that give a role in the group at a path."""
    return [HoldingRule(**row) for row in await connection.fetch(_requests.holding, path, limit)]


def _request_from(row: Mapping[str, Any]) -> RoleRequest:
    return RoleRequest(**{name: row[name] for name in RoleRequest.__slots__})
