"""The handlers of `/access`: the identity of the caller, the node's tokens, and rules for groups.

An admin of the whole catalog manages every rule. An admin of certain groups sees and manages a rule
only if the admin's groups include every group of the rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from aiohttp import web

from catalog.access.authentication import AUTHENTICATION
from catalog.access.identity import identity_of
from catalog.access.owntokens import end_token, make_token
from catalog.access.rolerules import change, check_grantable, grant, who_of
from catalog.context import CONTEXT
from catalog.http.flags import next_page, page_limit
from catalog.http.route import Route, model_response
from catalog.model.caller import EVERYTHING
from catalog.model.errors import NotFound
from catalog.model.roles import Grant, Permission, RuleGrant
from catalog.operations import access
from catalog.operations.access import (
    GrantingRule,
    GrantingRules,
    NewRule,
    NewToken,
    PathGrant,
    RuleChanges,
    Token,
    Tokens,
    Whoami,
)
from catalog.operations.operation import PageQuery
from catalog.store import accessrules as store
from catalog.store.accessrules import AccessRule, first_paths, read_grants_for, read_grants_of
from catalog.store.accesstokens import AccessToken, find_token_by_id, list_tokens
from catalog.store.database import Connection

# A token may have roles at many paths: a list of tokens has only the first paths of each rule.
_MOST_LISTED = 10
_MOST_SHOWN = 1000
MOST_LISTED_PATHS = 10
"""The paths of each rule that a list of rules shows."""


async def get_whoami(request: web.Request) -> Whoami:
    """Tell how the caller is known here, and its roles."""
    identity = identity_of(request)
    async with request[CONTEXT].database.acquire() as connection:
        in_groups, has_more = await _grants_in_groups(connection, identity.rules)
    return Whoami(
        kind=identity.kind,
        name=identity.name or None,
        issuer=identity.issuer or None,
        grants=_shown((*identity.grants, *in_groups)),
        more=True if has_more else None,
        open=request.app[AUTHENTICATION].is_open,
    )


async def _grants_in_groups(
    connection: Connection, rules: Sequence[RuleGrant]
) -> tuple[list[Grant], bool]:
    """The grants of rules at the first paths of each rule, and whether grants are left out."""
    shown = rules[:_MOST_SHOWN]
    most = _MOST_SHOWN // max(len(shown), 1)
    paths = await first_paths(connection, [each.rule for each in shown], most + 1)
    grants = [Grant(each.role, p) for each in shown for p in paths.get(each.rule, [])[:most]]
    has_more = len(shown) < len(rules) or any(len(each) > most for each in paths.values())
    return grants, has_more


async def get_tokens(request: web.Request) -> Tokens:
    """List the tokens, without their secrets, the newest first."""
    async with request[CONTEXT].database.acquire() as connection:
        return Tokens(tokens=await read_tokens(connection))


async def create_token(request: web.Request, wanted: NewToken) -> web.Response:
    """Make a token, whose `token` is told this once."""
    context = request[CONTEXT]
    async with context.database.transaction() as connection:
        made = await add_token(connection, wanted, by=str(identity_of(request)))
        context.caller.author.name_target(f"/access/tokens/{made.id}")
    request.app[AUTHENTICATION].rules.forget()
    location = f"{context.base_url(request)}{request.path}/{made.id}"
    return model_response(made, status=201, headers={"Location": location})


async def add_token(connection: Connection, wanted: NewToken, *, by: str) -> Token:
    """Make a token for a client or an operator; the answer has the text of the token.

    Raises:
        LimitReached
    """
    grants = tuple(dict.fromkeys(Grant(each.role, each.path) for each in wanted.grants))
    made, text = await make_token(
        connection, name=wanted.name, grants=grants, expiresat=wanted.expiresat, by=by
    )
    return _token_of(made, grants, text)


async def get_token(request: web.Request) -> Token:
    """Show a token, without its secret, with its roles at up to 1,000 paths."""
    async with request[CONTEXT].database.acquire() as connection:
        found = await read_token(connection, request.match_info["id"])
    if found is None:
        raise NotFound(request.path)
    return found


async def delete_token(request: web.Request) -> None:
    """End a token: it is not valid any more, and its rules are gone."""
    async with request[CONTEXT].database.transaction() as connection:
        found = await end_token(connection, request.match_info["id"])
    if found is None:
        raise NotFound(request.path)
    request.app[AUTHENTICATION].remembered.forget()
    request.app[AUTHENTICATION].rules.forget()


async def read_tokens(connection: Connection) -> list[Token]:
    """The tokens in the form of answers and commands, with the roles that rules give to tokens."""
    tokens = await list_tokens(connection)
    whos = [who_of(each.id) for each in tokens]
    found = await read_grants_for(connection, whos, _MOST_LISTED)
    return [
        _token_of(each, (*each.grants, *found.get(who, ())))
        for each, who in zip(tokens, whos, strict=True)
    ]


async def read_token(connection: Connection, id: str) -> Token | None:
    """A token with its first roles, and `more` if roles are left out; `None` if it is unknown."""
    token = await find_token_by_id(connection, id)
    if token is None:
        return None
    in_groups = await read_grants_of(connection, who_of(id), _MOST_SHOWN + 1)
    shown = _token_of(token, (*token.grants, *in_groups[:_MOST_SHOWN]))
    return shown.model_copy(update={"more": True}) if len(in_groups) > _MOST_SHOWN else shown


def _token_of(token: AccessToken, grants: Iterable[Grant], text: str | None = None) -> Token:
    return Token.model_validate({**asdict(token), "grants": _shown(grants), "token": text})


def _shown(grants: Iterable[Grant]) -> list[PathGrant]:
    return [PathGrant.model_construct(role=each.role, path=each.path) for each in grants]


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
    headers = next_page(request, limit=limit, after=ids[-1]) if len(found) > limit else {}
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
    request.app[AUTHENTICATION].rules.forget()
    location = f"{context.base_url(request)}{request.path}/{made.id}"
    shown = rule_of(made, sorted(wanted.paths))
    return model_response(shown, status=201, headers={"Location": location})


async def get_rule(request: web.Request) -> GrantingRule:
    """Show a rule with all of its paths."""
    async with request[CONTEXT].database.acquire() as connection:
        rule, content = await _managed(connection, request)
    return rule_of(rule, content.paths)


async def change_rule(request: web.Request, wanted: RuleChanges) -> GrantingRule:
    """Replace the members of a rule that the body names; the others stay."""
    async with request[CONTEXT].database.transaction() as connection:
        before, content = await _managed(connection, request)
        content = content.model_copy(update=wanted.model_dump(exclude_none=True))
        await check_grantable(connection, identity_of(request), content.role, content.paths)
        changed = await change(connection, before, content, subject=request.path)
    request.app[AUTHENTICATION].rules.forget()
    return rule_of(changed, sorted(content.paths))


async def delete_rule(request: web.Request) -> None:
    """Take back what a rule gives, within two seconds everywhere."""
    async with request[CONTEXT].database.transaction() as connection:
        rule, _ = await _managed(connection, request)
        await store.remove_rule(connection, rule.id)
    request.app[AUTHENTICATION].rules.forget()


async def _managed(connection: Connection, request: web.Request) -> tuple[AccessRule, NewRule]:
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
    return GrantingRule(paths=[*paths], **asdict(rule))


routes: Sequence[Route] = (
    Route(access.WHOAMI, get_whoami),
    Route(access.LIST_TOKENS, get_tokens),
    Route(access.CREATE_TOKEN, create_token),
    Route(access.GET_TOKEN, get_token),
    Route(access.DELETE_TOKEN, delete_token),
    Route(access.LIST_RULES, list_rules),
    Route(access.CREATE_RULE, create_rule),
    Route(access.GET_RULE, get_rule),
    Route(access.CHANGE_RULE, change_rule),
    Route(access.DELETE_RULE, delete_rule),
)
