"""The rules that give roles in groups: cached and searched, granted and changed.

A caller grants at most its own rights in its own groups."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from catalog.access.identity import Identity
from catalog.model.caller import EVERYTHING, node_caller
from catalog.model.concorderrors import Forbidden, LimitReached
from catalog.model.errors import InvalidAttribute
from catalog.model.roles import (
    ANY,
    ISSUER,
    PATH_PERMISSIONS,
    TOKEN,
    Grant,
    IdentityKind,
    Permission,
    Role,
    RoleRule,
    RuleGrant,
    Who,
    grants_from,
    values_of,
)
from catalog.operations.access import NewRule
from catalog.settings import Settings
from catalog.store import accessrules as store
from catalog.store.accessrules import (
    MOST_RULES,
    MOST_RULES_OF_OWNER,
    MOST_RULES_OF_OWNERS,
    AccessRule,
    read_access_revision,
    read_known_rules,
)
from catalog.store.accesstokens import find_token_by_id
from catalog.store.database import Connection, Database, SharedDatabase

# The longest time until a process learns of a rule that a different process changed.
_SECONDS = 2.0
_ID_BYTES = 5


class RuleTable:
    """Rules, indexed by one condition each, since a caller meets few of thousands of rules.

    Args:
        rules: the condition of each rule as a text, with the role that the rule gives.
    """

    def __init__(self, rules: Iterable[tuple[str, RuleGrant]] = ()) -> None:
        self._found: dict[IdentityKind, dict[str, dict[str, list[tuple[Who, RuleGrant]]]]] = {}
        for text, grant in rules:
            who = Who.parse(text)
            name, value = _most_telling(who)
            by_name = self._found.setdefault(who.kind, {})
            by_name.setdefault(name, {}).setdefault(value, []).append((who, grant))

    def met_by(self, kind: IdentityKind, claims: Mapping[str, Any]) -> tuple[RuleGrant, ...]:
        """The roles that the rules give to a caller with the claims."""
        return tuple(
            grant
            for name, by_value in self._found.get(kind, {}).items()
            for value in {ANY, *values_of(claims, name)}
            for who, grant in by_value.get(value, ())
            if who.is_met_by(kind, claims)
        )


def _most_telling(who: Who) -> tuple[str, str]:
    """The condition of a rule that the fewest callers are likely to meet."""
    ranked = sorted(who.conditions, key=lambda each: (each[1] == ANY, each[0] == ISSUER))
    return ranked[0] if ranked else ("", ANY)


class KnownRules:
    """The rules of a node, read again once the rules have changed."""

    def __init__(self, database: SharedDatabase) -> None:
        self._database = Database(database, node_caller())
        self._table = RuleTable()
        self._revision = -1
        self._until = 0.0
        self._reading = asyncio.Lock()

    async def of(self, kind: IdentityKind, claims: Mapping[str, Any]) -> tuple[RuleGrant, ...]:
        """The roles that the current rules give to a caller."""
        if time.monotonic() >= self._until:
            await self._refresh()
        return self._table.met_by(kind, claims)

    def forget(self) -> None:
        """Read the rules anew at the next search: this process has committed a change of rules."""
        self._until = 0.0

    async def _refresh(self) -> None:
        # The lock keeps the requests that find the rules expired from reading them all at once.
        async with self._reading:
            begun = time.monotonic()
            if begun < self._until:
                return  # A concurrent request has read the rules meanwhile.
            async with self._database.acquire(self._database.pools.requests) as connection:
                revision = await read_access_revision(connection)
                if revision != self._revision:
                    self._table = RuleTable(await read_known_rules(connection))
                    self._revision = revision
            # Counted from before the read: a change that commits during the read is found in time.
            self._until = begun + _SECONDS


class SettingRoles:
    """The roles in the whole catalog that the settings give to callers of each kind."""

    def __init__(self, settings: Settings) -> None:
        self.anonymous = settings.anonymous_role
        self.rules: Mapping[IdentityKind, tuple[RoleRule, ...]] = {
            "jwt": tuple(map(RoleRule.parse, settings.oidc_roles)),
            "certificate": tuple(map(RoleRule.parse, settings.certificate_roles)),
        }

    def of(self, kind: IdentityKind, claims: Mapping[str, Any]) -> tuple[Grant, ...]:
        """The grants of a caller; none for the tokens of the node, which have grants themselves."""
        if kind == "anonymous":
            return (Grant(self.anonymous),) if self.anonymous else ()
        return grants_from(self.rules.get(kind, ()), claims)


def known_rules(database: SharedDatabase) -> KnownRules:
    """The rules of a node, shared by the whole process."""
    return database.part(KnownRules, lambda: KnownRules(database))


async def check_grantable(
    connection: Connection, identity: Identity, role: Role, paths: Sequence[str]
) -> None:
    """Refuse a role with more rights than its giver has at one of the paths.

    A path with wildcards is within a path that matches its text: ids have no `*`, so only a
    wildcard matches a wildcard, and then also every id that the matched wildcard stands for.

    Raises:
        Forbidden
    """
    is_more = not PATH_PERMISSIONS[role] <= PATH_PERMISSIONS["admin"]
    for permission in (Permission.GRANT, *PATH_PERMISSIONS[role]):
        scope = identity.scope_of(permission)
        if scope is EVERYTHING:
            continue
        covered = await store.covered_groups(connection, scope.rules, paths)
        for path in paths:
            if path not in covered:
                raise Forbidden(
                    "/access/rules",
                    action=f"give the role {role} at {path}",
                    roles=f"admin, and {role}" if is_more else "admin",
                    identity=identity.name,
                    detail="Nobody can grant more than it has; `concord whoami` lists that.",
                )


async def grant(
    connection: Connection, rule: NewRule, *, by: str, subject: str, is_owner: bool = False
) -> AccessRule:
    """Store a new rule.

    Args:
        by: the caller who grants.
        is_owner: whether the caller is an admin of certain groups only, with a share of the rules.
        subject: the path of the request, for errors.

    Raises:
        LimitReached
        InvalidAttribute: the token that the rule is for does not exist.
    """
    # A share per owner, and less than the maximum for owners in total, keep an owner from using up
    # the rules of the other owners and of the admins.
    count, own = await store.count_rules(connection, by)
    most = MOST_RULES_OF_OWNERS if is_owner else MOST_RULES
    if count >= most:
        raise LimitReached(subject, limit=str(most), things="rules", setting="fixed")
    if is_owner and own >= MOST_RULES_OF_OWNER:
        things = "rules of one admin of groups"
        raise LimitReached(subject, limit=str(MOST_RULES_OF_OWNER), things=things, setting="fixed")
    await _check_token(connection, rule.who, subject)
    made = AccessRule(
        id=secrets.token_hex(_ID_BYTES),
        who=rule.who,
        role=rule.role,
        createdat=datetime.now(UTC),
        createdby=by,
        pathscount=len(rule.paths),
    )
    is_new = await store.add_rule(connection, made, rule.paths)
    assert is_new, "its id is random"
    return made


async def change(
    connection: Connection, before: AccessRule, rule: NewRule, *, subject: str
) -> AccessRule:
    """Replace the content of a rule.

    Raises:
        InvalidAttribute: the token that the rule is for does not exist.
    """
    if rule.who != before.who:
        await _check_token(connection, rule.who, subject)
    await store.change_rule(connection, before.id, who=rule.who, role=rule.role)
    await store.replace_paths(connection, before.id, rule.paths)
    return replace(before, who=rule.who, role=rule.role, pathscount=len(rule.paths))


async def grant_to_token(
    connection: Connection, token: str, grants: Collection[tuple[Role, str]], *, by: str
) -> None:
    """Give roles in groups to a token: one rule for each role."""
    for role in dict.fromkeys(role for role, _ in grants):
        paths = tuple(path for each, path in grants if each == role)
        rule = NewRule(who=who_of(token), role=role, paths=paths)
        await grant(connection, rule, by=by, subject="/access/tokens")


def who_of(token: str) -> str:
    """The condition of the rules for a token of the node."""
    return f"{TOKEN}={token}"


async def _check_token(connection: Connection, text: str, subject: str) -> None:
    who = Who.parse(text)
    if who.kind != "token":
        return
    if await find_token_by_id(connection, who.conditions[0][1]) is None:
        fault = "there is no token of this id; `concord token list` has them"
        raise InvalidAttribute(subject, name="who", error_detail=fault)
