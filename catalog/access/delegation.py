"""Grants and revokes roles in groups; a caller grants at most its own rights in its own groups."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from catalog.access.identity import Identity
from catalog.model.caller import EVERYTHING
from catalog.model.concorderrors import Forbidden, LimitReached
from catalog.model.errors import InvalidAttribute
from catalog.model.roles import PATH_PERMISSIONS, TOKEN, Permission, Role, Who
from catalog.operations.access import NewRule
from catalog.store import accessrules as store
from catalog.store.accessrules import (
    MOST_RULES,
    MOST_RULES_OF_OWNER,
    MOST_RULES_OF_OWNERS,
    AccessRule,
)
from catalog.store.accesstokens import has_token
from catalog.store.database import Connection

_ID_BYTES = 5


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
    if who.kind == "token" and not await has_token(connection, who.conditions[0][1]):
        fault = "there is no token of this id; `concord token list` has them"
        raise InvalidAttribute(subject, name="who", error_detail=fault)
