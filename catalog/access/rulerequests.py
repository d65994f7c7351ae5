"""Handlers of `/access/rules`: who has which role in which groups.

An admin of the whole catalog manages all rules. An admin of some groups manages those that are for
these groups only; for it, there are no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiohttp import web

from catalog.access.authentication import AUTHENTICATION
from catalog.access.delegation import change, check_grantable, grant
from catalog.access.identity import identity_of
from catalog.access.rulebody import MOST_VALUES, RuleBody, read_rule, show_rule
from catalog.context import CONTEXT
from catalog.http.body import read_json
from catalog.http.deadline import bounded
from catalog.http.etag import NEVER_KEPT
from catalog.http.flags import read_page
from catalog.http.responses import json_response
from catalog.model.errors import NotFound
from catalog.roles import Permission
from catalog.store import accessrules as store
from catalog.store.accessrules import AccessRule
from catalog.store.database import Connection

MOST_LISTED_PATHS = 10
"""The paths of each rule that a list of rules shows."""
_RULES = "/access/rules"
_UNKEPT = {"Cache-Control": NEVER_KEPT}


async def get_rules(request: web.Request) -> web.Response:
    """`GET /access/rules`: in pages, each rule with its first paths."""
    context = request.app[CONTEXT]
    after, limit = read_page(request)
    scope = identity_of(request).scope_of(Permission.GRANT)
    within = None if scope is None else scope.rules
    async with context.database.pool.acquire() as connection:
        found = await store.list_rules(connection, after=after, limit=limit + 1, within=within)
        shown = found[:limit]
        ids = [rule.id for rule in shown]
        paths = await store.first_paths(connection, ids, MOST_LISTED_PATHS)
    headers = dict(_UNKEPT)
    if len(found) > limit:
        url = request.rel_url.update_query({"limit": str(limit), "after": ids[-1]})
        headers["Link"] = f"<{context.base_url(request)}{url}>;rel=next"
    rules = [show_rule(rule, paths.get(rule.id, [])) for rule in shown]
    return json_response({"rules": rules}, headers=headers)


async def create_rule(request: web.Request) -> web.Response:
    """`POST /access/rules`: give a role in groups to whoever meets a condition."""
    context, identity = request.app[CONTEXT], identity_of(request)
    wanted = read_rule(request.path, await read_json(request, most_values=MOST_VALUES))
    async with context.database.transaction() as connection:
        await check_grantable(connection, identity, wanted.role, wanted.paths)
        made = await grant(connection, wanted, by=str(identity), subject=request.path)
    _forget(request)
    location = f"{context.base_url(request)}{_RULES}/{made.id}"
    headers = {"Location": location, **_UNKEPT}
    return json_response(show_rule(made, sorted(wanted.paths)), status=201, headers=headers)


async def get_rule(request: web.Request) -> web.Response:
    """`GET /access/rules/{id}`: with all of its paths."""
    async with request.app[CONTEXT].database.pool.acquire() as connection:
        rule, content = await _existing(connection, request)
    return json_response(show_rule(rule, content.paths), headers=_UNKEPT)


async def replace_rule(request: web.Request) -> web.Response:
    """`PUT /access/rules/{id}`: another content for a rule."""
    body = await read_json(request, most_values=MOST_VALUES)
    return await _change(request, body, is_patch=False)


async def patch_rule(request: web.Request) -> web.Response:
    """`PATCH /access/rules/{id}`: the members that the body names; the others stay."""
    body = await read_json(request, most_values=MOST_VALUES)
    return await _change(request, body, is_patch=True)


async def delete_rule(request: web.Request) -> web.Response:
    """`DELETE /access/rules/{id}`: take back what a rule gives, within two seconds everywhere."""
    async with request.app[CONTEXT].database.transaction() as connection:
        rule, _ = await _existing(connection, request)
        await store.remove_rule(connection, rule.id)
    _forget(request)
    return web.Response(status=204)


async def _change(request: web.Request, body: Any, *, is_patch: bool) -> web.Response:
    async with request.app[CONTEXT].database.transaction() as connection:
        before, content = await _existing(connection, request)
        if is_patch:
            wanted = content.changed_by(request.path, body)
        else:
            wanted = read_rule(request.path, body)
        await check_grantable(connection, identity_of(request), wanted.role, wanted.paths)
        changed = await change(connection, before, wanted, subject=request.path)
    _forget(request)
    return json_response(show_rule(changed, sorted(wanted.paths)), headers=_UNKEPT)


async def _existing(connection: Connection, request: web.Request) -> tuple[AccessRule, RuleBody]:
    """The rule of the path, if there is one for the caller.

    Raises:
        NotFound
    """
    id, scope = request.match_info["id"], identity_of(request).scope_of(Permission.GRANT)
    rule = await store.find_rule(connection, id)
    if rule is None or not (scope is None or await store.is_within(connection, id, scope.rules)):
        raise NotFound(request.path)
    paths = await store.read_paths(connection, id)
    return rule, RuleBody(who=rule.who, role=rule.role, paths=tuple(paths))


def _forget(request: web.Request) -> None:
    """Have this process read the rules anew at once; others do within two seconds."""
    request.app[AUTHENTICATION].rules.forget()


routes: Sequence[web.RouteDef] = (
    web.get(_RULES, bounded(get_rules)),
    web.post(_RULES, bounded(create_rule)),
    web.get(f"{_RULES}/{{id}}", bounded(get_rule)),
    web.put(f"{_RULES}/{{id}}", bounded(replace_rule)),
    web.patch(f"{_RULES}/{{id}}", bounded(patch_rule)),
    web.delete(f"{_RULES}/{{id}}", bounded(delete_rule)),
)
