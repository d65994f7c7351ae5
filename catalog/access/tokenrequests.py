"""Handlers of `/access`: who the caller is, and the tokens of the node's own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from catalog.access.authentication import AUTHENTICATION
from catalog.access.delegation import who_of
from catalog.access.identity import identity_of
from catalog.access.owntokens import end_token, make_token
from catalog.access.rulebody import LONGEST_NAME, read_path, read_role
from catalog.context import CONTEXT
from catalog.http.body import read_json
from catalog.http.deadline import bounded
from catalog.http.etag import NEVER_KEPT
from catalog.http.responses import json_response
from catalog.model.author import name_target
from catalog.model.errors import (
    InvalidAttribute,
    NotFound,
    RequiredAttributeMissing,
    UnknownAttribute,
)
from catalog.model.timestamps import format_time, parse_time
from catalog.roles import WHOLE_CATALOG, Grant, RuleGrant, is_wild
from catalog.store.accessrules import (
    MOST_PATHS,
    MOST_WILD_PATHS,
    first_paths,
    read_grants_for,
)
from catalog.store.accesstokens import AccessToken, list_tokens
from catalog.store.database import Connection

_MEMBERS = ("name", "grants", "expiresat")
_MOST_VALUES = 3 * MOST_PATHS
# A token may have roles at many paths; an answer about many tokens has the first ones of each rule.
_MOST_LISTED = 10
_MOST_SHOWN = 1000
_UNKEPT = {"Cache-Control": NEVER_KEPT}


async def get_whoami(request: web.Request) -> web.Response:
    """`GET /access/whoami`: how the caller is known here, and its roles."""
    identity = identity_of(request)
    async with request.app[CONTEXT].database.pool.acquire() as connection:
        in_groups, has_more = await _grants_in_groups(connection, identity.rules)
    shown = {
        "kind": identity.kind,
        "name": identity.name or None,
        "issuer": identity.issuer or None,
        "grants": _show_grants((*identity.grants, *in_groups)),
        "more": has_more or None,
        "open": request.app[AUTHENTICATION].is_open,
    }
    return json_response({k: v for k, v in shown.items() if v is not None}, headers=_UNKEPT)


async def _grants_in_groups(
    connection: Connection, rules: Sequence[RuleGrant]
) -> tuple[list[Grant], bool]:
    """The grants of rules, at their first paths, and whether there are more."""
    shown = rules[:_MOST_SHOWN]
    most = _MOST_SHOWN // max(len(shown), 1)
    paths = await first_paths(connection, [each.rule for each in shown], most + 1)
    grants = [Grant(each.role, p) for each in shown for p in paths.get(each.rule, [])[:most]]
    has_more = len(shown) < len(rules) or any(len(each) > most for each in paths.values())
    return grants, has_more


async def get_tokens(request: web.Request) -> web.Response:
    """`GET /access/tokens`: the tokens, without their secrets, the newest first."""
    async with request.app[CONTEXT].database.pool.acquire() as connection:
        shown = await show_tokens(connection)
    return json_response({"tokens": shown}, headers=_UNKEPT)


async def create_token(request: web.Request) -> web.Response:
    """`POST /access/tokens`: a new token, whose `token` is told this once."""
    body = await read_json(request, most_values=_MOST_VALUES)
    name, grants, expiresat = read_token(request.path, body)
    async with request.app[CONTEXT].database.transaction() as connection:
        made, text = await make_token(
            connection,
            name=name,
            grants=grants,
            expiresat=expiresat,
            by=str(identity_of(request)),
        )
        name_target(f"{request.path}/{made.id}")
    request.app[AUTHENTICATION].rules.forget()
    location = f"{request.app[CONTEXT].base_url(request)}/access/tokens/{made.id}"
    shown = {**show_token(made, grants), "token": text}
    return json_response(shown, status=201, headers={"Location": location, **_UNKEPT})


async def delete_token(request: web.Request) -> web.Response:
    """`DELETE /access/tokens/{id}`: the token is not valid any more, and its rules are gone."""
    async with request.app[CONTEXT].database.transaction() as connection:
        found = await end_token(connection, request.match_info["id"])
    if found is None:
        raise NotFound(request.path)
    request.app[AUTHENTICATION].remembered.forget()
    request.app[AUTHENTICATION].rules.forget()
    return web.Response(status=204)


async def show_tokens(connection: Connection) -> list[dict[str, Any]]:
    """All tokens as answers and commands tell them, with the roles that rules give to them."""
    tokens = await list_tokens(connection)
    whos = [who_of(each.id) for each in tokens]
    found = await read_grants_for(connection, whos, _MOST_LISTED)
    return [
        show_token(each, (*each.grants, *found.get(who, ())))
        for each, who in zip(tokens, whos, strict=True)
    ]


def show_token(token: AccessToken, grants: Sequence[Grant]) -> dict[str, Any]:
    """A token as answers and commands tell it."""
    times = ("createdat", "expiresat", "usedat")
    shown = {"id": token.id, "name": token.name, "grants": _show_grants(grants)}
    found = ((name, getattr(token, name)) for name in times)
    return shown | {name: format_time(time) for name, time in found if time is not None}


def _show_grants(grants: Sequence[Grant]) -> list[dict[str, str]]:
    return [{"role": grant.role, "path": grant.path} for grant in grants]


def read_token(path: str, body: Any) -> tuple[str, tuple[Grant, ...], datetime | None]:
    """The name, the grants and the end that a body asks for.

    Raises:
        InvalidAttribute, UnknownAttribute, RequiredAttributeMissing
    """
    if not isinstance(body, dict):
        raise InvalidAttribute(path, name="body", error_detail="it needs to be an object")
    for member in body:
        if member not in _MEMBERS:
            raise UnknownAttribute(path, name=member[:128])
    if not body.get("grants"):
        raise RequiredAttributeMissing(path, list="grants")
    name, given = body.get("name", ""), body["grants"]
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        fault = f"it needs to be a text of at most {LONGEST_NAME} characters"
        raise InvalidAttribute(path, name="name", error_detail=fault)
    if not isinstance(given, list) or len(given) > MOST_PATHS:
        fault = f"they need to be a list of at most {MOST_PATHS} grants"
        raise InvalidAttribute(path, name="grants", error_detail=fault)
    grants = tuple(dict.fromkeys(_read_grant(path, each) for each in given))
    if sum(is_wild(each.path) for each in grants) > MOST_WILD_PATHS:
        fault = f"at most {MOST_WILD_PATHS} of their paths may have wildcards"
        raise InvalidAttribute(path, name="grants", error_detail=fault)
    return name, grants, _read_end(path, body.get("expiresat"))


def _read_grant(path: str, given: Any) -> Grant:
    members = {"path": WHOLE_CATALOG, **given} if isinstance(given, dict) else {}
    if members.keys() != {"role", "path"}:
        fault = 'each needs to be {"role": ROLE}, with the "path" of groups if it is for these'
        raise InvalidAttribute(path, name="grants", error_detail=fault)
    role = read_role(path, "grants", members["role"])
    return Grant(role, read_path(path, "grants", members["path"]))


def _read_end(path: str, given: Any) -> datetime | None:
    if given is None:
        return None
    try:
        found = parse_time(given)
    except (TypeError, ValueError) as error:
        fault = "it needs to be an RFC 3339 timestamp, as 2030-12-19T06:00:00Z"
        raise InvalidAttribute(path, name="expiresat", error_detail=fault) from error
    if found <= datetime.now(UTC):
        raise InvalidAttribute(path, name="expiresat", error_detail="it has passed already")
    return found


routes: Sequence[web.RouteDef] = (
    web.get("/access/whoami", bounded(get_whoami)),
    web.get("/access/tokens", bounded(get_tokens)),
    web.post("/access/tokens", bounded(create_token)),
    web.delete("/access/tokens/{id}", bounded(delete_token)),
)
