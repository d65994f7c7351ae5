"""The handler of `/access/holders`: who may read and write a group.

Those who may grant roles in the group learn the names; others learn how many hold each role.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from aiohttp import web

from catalog.access.authentication import AUTHENTICATION
from catalog.access.delegation import who_of
from catalog.access.identity import Identity, identity_of
from catalog.context import CONTEXT
from catalog.http.route import Route
from catalog.model.errors import NotFound
from catalog.model.roles import ANONYMOUS, ROLES, WHOLE_CATALOG, Permission, Role, RoleRule
from catalog.operations.accessrequests import LIST_HOLDERS, GroupHolders, HoldersQuery, RoleHolder
from catalog.settings import Settings
from catalog.store import entities as store
from catalog.store.accesstokens import AccessToken, list_tokens
from catalog.store.rolerequests import HoldingRule, rules_holding

_MOST_SHOWN = 1000


async def list_holders(request: web.Request, query: HoldersQuery) -> GroupHolders:
    """Tell who may read and write a group: names to those who may grant, numbers to others."""
    context, authentication = request[CONTEXT], request.app[AUTHENTICATION]
    async with context.database.acquire() as connection:
        found = await store.load(connection, [query.of])
        if query.of not in found:
            raise NotFound(query.of)
        rules = await rules_holding(connection, query.of, _MOST_SHOWN)
        tokens = await list_tokens(connection)
    identity = await authentication.with_rules(identity_of(request))
    holders = [*_by_rules(rules, tokens), *_by_tokens(tokens), *_by_settings(context.settings)]
    names_them = authentication.is_open or _may_grant(identity, rules)
    authority = found[query.of].authority
    return GroupHolders(
        path=query.of,
        open=authentication.is_open,
        authority=None if authority == context.database.node.authority else authority,
        yours=_roles_of(identity, rules),
        numbers=dict(Counter(each.role for each in holders)),
        holders=holders[:_MOST_SHOWN] if names_them else None,
    )


def _by_rules(rules: Sequence[HoldingRule], tokens: Sequence[AccessToken]) -> Iterator[RoleHolder]:
    names = {who_of(each.id): each.name for each in tokens}
    for rule in rules:
        yield RoleHolder(
            role=rule.role,
            who=rule.who,
            name=names.get(rule.who) or None,
            by="rule",
            rule=rule.id,
            path=rule.path,
        )


def _by_tokens(tokens: Sequence[AccessToken]) -> Iterator[RoleHolder]:
    now = datetime.now(UTC)
    for token in tokens:
        if token.is_valid(now):
            for each in token.grants:
                yield RoleHolder(
                    role=each.role,
                    who=who_of(token.id),
                    name=token.name or None,
                    by="token",
                    path=WHOLE_CATALOG,
                )


def _by_settings(settings: Settings) -> Iterator[RoleHolder]:
    for text in (*settings.oidc_roles, *settings.certificate_roles):
        rule = RoleRule.parse(text)
        who = "&".join(f"{name}={value}" for name, value in rule.conditions)
        yield RoleHolder(role=rule.role, who=who, by="setting", path=WHOLE_CATALOG)
    if settings.anonymous_role is not None:
        role = settings.anonymous_role
        yield RoleHolder(role=role, who=ANONYMOUS, by="setting", path=WHOLE_CATALOG)


def _may_grant(identity: Identity, rules: Sequence[HoldingRule]) -> bool:
    mine = identity.rules_with(Permission.GRANT)
    return Permission.GRANT in identity.permissions or any(each.id in mine for each in rules)


def _roles_of(identity: Identity, rules: Sequence[HoldingRule]) -> list[Role]:
    """The roles of the caller in the group, the least powerful first."""
    here = {each.id for each in rules}
    roles = {*identity.roles_in_all, *(each.role for each in identity.rules if each.rule in here)}
    return [role for role in ROLES if role in roles]


routes: Sequence[Route] = (Route(LIST_HOLDERS, list_holders),)
