"""Handlers of `/access/rules`: the rules that give callers roles in groups.

An admin of the whole catalog manages every rule. An admin of certain groups sees and manages a rule
only if the admin's groups include every group of the rule.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from catalog.access.authentication import AUTHENTICATION
from catalog.access.delegation import change, check_grantable, grant
from catalog.access.identity import identity_of
from catalog.context import CONTEXT
from catalog.http.flags import page_limit
from catalog.http.route import Route, model_response
from catalog.model.caller import EVERYTHING
from catalog.model.errors import NotFound
from catalog.model.roles import Permission
from catalog.operations import access
from catalog.operations.access import GrantingRule, GrantingRules, NewRule, RuleChanges
from catalog.operations.operation import PageQuery
from catalog.store import accessrules as store
from catalog.store.accessrules import AccessRule
from catalog.store.database import Connection

MOST_LISTED_PATHS = 10
"""The paths of each rule that a list of rules shows."""


async def list_rules(request: web.Request, page: PageQuery) -> web.Response:
    """List the rules in pages, each rule with its first paths."""
    context, limit = request[CONTEXT], page_limit(request, page.limit)
    scope = identity_of(request).scope_of(Permission.GRANT)
    within = None if scope is EVERYTHING else scope.rules
    async with context.database.acquire() as connection:
        found = await store.list_rules(connection, after=page.after, limit=limit + 1, within=within)
        shown = found[:limit]
        ids = [rule.id for rule in shown]
        paths = await store.first_paths(connection, ids, MOST_LISTED_PATHS)
    headers = {}
    if len(found) > limit:
        url = request.rel_url.update_query({"limit": str(limit), "after": ids[-1]})
        headers["Link"] = f"<{context.base_url(request)}{url}>;rel=next"
    rules = [rule_of(rule, paths.get(rule.id, [])) for rule in shown]
    return model_response(GrantingRules(rules=rules), headers=headers)


async def create_rule(request: web.Request, wanted: NewRule) -> web.Response:
    """Give a role in groups to each caller that meets a condition."""
    context, identity = request[CONTEXT], identity_of(request)
    async with context.database.transaction() as connection:
        await check_grantable(connection, identity, wanted.role, wanted.paths)
        made = await grant(
            connection,
            wanted,
            by=str(identity),
            subject=request.path,
            is_owner=identity.scope_of(Permission.GRANT) is not EVERYTHING,
        )
        context.caller.author.name_target(f"/access/rules/{made.id}")
    _forget(request)
    location = f"{context.base_url(request)}{request.path}/{made.id}"
    shown = rule_of(made, sorted(wanted.paths))
    return model_response(shown, status=201, headers={"Location": location})


async def get_rule(request: web.Request) -> GrantingRule:
    """Show a rule with all of its paths."""
    async with request[CONTEXT].database.acquire() as connection:
        rule, content = await _existing(connection, request)
    return rule_of(rule, content.paths)


async def change_rule(request: web.Request, wanted: RuleChanges) -> GrantingRule:
    """Replace the members of a rule that the body names; the others stay."""
    async with request[CONTEXT].database.transaction() as connection:
        before, content = await _existing(connection, request)
        content = content.model_copy(update=wanted.model_dump(exclude_none=True))
        await check_grantable(connection, identity_of(request), content.role, content.paths)
        changed = await change(connection, before, content, subject=request.path)
    _forget(request)
    return rule_of(changed, sorted(content.paths))


async def delete_rule(request: web.Request) -> None:
    """Take back what a rule gives, within two seconds everywhere."""
    async with request[CONTEXT].database.transaction() as connection:
        rule, _ = await _existing(connection, request)
        await store.remove_rule(connection, rule.id)
    _forget(request)


async def _existing(connection: Connection, request: web.Request) -> tuple[AccessRule, NewRule]:
    """The rule of the path, if the caller manages the rule.

    Raises:
        NotFound
    """
    id, scope = request.match_info["id"], identity_of(request).scope_of(Permission.GRANT)
    rule = await store.find_rule(connection, id)
    if rule is None or not (
        scope is EVERYTHING or await store.is_within(connection, id, scope.rules)
    ):
        raise NotFound(request.path)
    paths = tuple(await store.read_paths(connection, id))
    return rule, NewRule.model_construct(who=rule.who, role=rule.role, paths=paths)


def rule_of(rule: AccessRule, paths: Sequence[str]) -> GrantingRule:
    """A rule in the form of answers and commands.

    Args:
        paths: the paths of the rule, or the first few paths.
    """
    return GrantingRule(
        id=rule.id,
        who=rule.who,
        role=rule.role,
        paths=[*paths],
        pathscount=rule.pathscount,
        createdat=rule.createdat,
        createdby=rule.createdby,
    )


def _forget(request: web.Request) -> None:
    """Have this process read the rules anew at once; other processes do within two seconds."""
    request.app[AUTHENTICATION].rules.forget()


routes: Sequence[Route] = (
    Route(access.LIST_RULES, list_rules),
    Route(access.CREATE_RULE, create_rule),
    Route(access.GET_RULE, get_rule),
    Route(access.CHANGE_RULE, change_rule),
    Route(access.DELETE_RULE, delete_rule),
)
