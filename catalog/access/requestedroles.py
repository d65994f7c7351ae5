"""Handlers about roles in a group: requests for roles, which admins decide, and who has which role.

A caller may ask for any group: the answer does not tell whether there is one. Those who may grant
roles in the group grant or decline, and learn the holders of roles; other callers learn numbers.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

import structlog
from aiohttp import web

from catalog.access.authentication import AUTHENTICATION
from catalog.access.identity import Identity, identity_of, refusal_at, unauthenticated
from catalog.access.rolerules import SettingRoles, check_grantable, grant, who_of
from catalog.context import CONTEXT
from catalog.http.flags import next_page, page_limit
from catalog.http.route import Route, model_response
from catalog.model.caller import EVERYTHING
from catalog.model.concorderrors import LimitReached, UnresolvedConflict
from catalog.model.errors import NotFound
from catalog.model.roles import (
    ANONYMOUS,
    ANY,
    CERTIFICATE_NAMES,
    ISSUER,
    ROLES,
    WHOLE_CATALOG,
    Permission,
    Role,
    Who,
    parse_path,
    values_of,
)
from catalog.operations import access as declared
from catalog.operations.access import (
    AccessDecision,
    AccessRequest,
    AccessRequests,
    AccessRequestsQuery,
    GroupHolders,
    HoldersQuery,
    NewAccessRequest,
    NewRule,
    RoleHolder,
)
from catalog.settings import Settings
from catalog.store import accessrules as store
from catalog.store import entities as entities
from catalog.store.accessrules import (
    MOST_OPEN_OF_CALLER,
    MOST_REQUESTS,
    HoldingRule,
    RoleRequest,
    covered_groups,
    rules_holding,
)
from catalog.store.accesstokens import AccessToken, find_token_by_id, list_tokens
from catalog.store.database import Connection

_log = structlog.get_logger(__name__)

_ID_BYTES = 5
_DECIDED_KEPT = timedelta(days=90)
_LONGEST_NAME = 300
_MOST_SHOWN = 1000


async def request_access(request: web.Request, wanted: NewAccessRequest) -> web.Response:
    """Ask for a role in a group; callers who may grant the role in the group decide."""
    context, identity = request[CONTEXT], identity_of(request)
    who = _condition_for(request, identity)
    now = datetime.now(UTC)
    async with context.database.transaction() as connection:
        asked = RoleRequest(
            id=secrets.token_hex(_ID_BYTES),
            who=who,
            name=(await _name_of(connection, identity))[:_LONGEST_NAME],
            role=wanted.role,
            path=wanted.path,
            reason=wanted.reason,
            createdat=now,
        )
        await store.forget_decided(connection, now - _DECIDED_KEPT)
        kept, own = await store.count_requests(connection, who)
        if own >= MOST_OPEN_OF_CALLER or kept >= MOST_REQUESTS:
            most = MOST_OPEN_OF_CALLER if own >= MOST_OPEN_OF_CALLER else MOST_REQUESTS
            things = "open requests" + (" of one caller" if most == MOST_OPEN_OF_CALLER else "")
            raise LimitReached(request.path, limit=str(most), things=things, setting="fixed")
        made = await store.add_request(connection, asked)
        context.caller.author.name_target(f"/access/requests/{made.id}")
        context.caller.author.name_target(made.path)
        shown = await _shown(connection, request, [made])
    _log.info("access requested", **_named(made))
    location = f"{context.base_url(request)}{request.path}/{made.id}"
    return model_response(shown[0], status=201, headers={"Location": location})


async def list_access_requests(request: web.Request, query: AccessRequestsQuery) -> web.Response:
    """List the caller's own requests, and those that the caller may decide, the latest first."""
    context, limit = request[CONTEXT], page_limit(request, query.limit)
    identity = identity_of(request)
    scope = identity.scope_of(Permission.GRANT)
    async with context.database.acquire() as connection:
        found = await store.list_requests(
            connection,
            who=_condition_of(identity),
            within=None if scope is EVERYTHING else scope.rules,
            state=query.state,
            path=query.path,
            after=query.after,
            limit=limit + 1,
        )
        shown = await _shown(connection, request, found[:limit])
    headers = next_page(request, limit=limit, after=shown[-1].id) if len(found) > limit else {}
    return model_response(AccessRequests(requests=shown), headers=headers)


async def get_access_request(request: web.Request) -> AccessRequest:
    """Show a request to the caller who made it, and to those who may decide."""
    async with request[CONTEXT].database.acquire() as connection:
        _, shown = await _existing(connection, request)
    return shown


async def grant_access_request(request: web.Request, decision: AccessDecision) -> AccessRequest:
    """Grant a request: a rule gives the role to the caller who asked."""
    return await _decide(request, decision, "granted")


async def decline_access_request(request: web.Request, decision: AccessDecision) -> AccessRequest:
    """Decline a request, with a note for the caller who asked."""
    return await _decide(request, decision, "declined")


async def _decide(
    request: web.Request, decision: AccessDecision, state: Literal["granted", "declined"]
) -> AccessRequest:
    author, identity = request[CONTEXT].caller.author, identity_of(request)
    async with request[CONTEXT].database.transaction() as connection:
        found = await _open_request(connection, request)
        if state == "granted":
            await check_grantable(connection, identity, found.role, (parse_path(found.path),))
        is_owner = identity.scope_of(Permission.GRANT) is not EVERYTHING
        decided = await decide(
            connection, found, decision, state, by=str(identity), is_owner=is_owner
        )
        if decided.rule:
            author.name_target(f"/access/rules/{decided.rule}")
        author.name_target(found.path)
        [shown] = await _shown(connection, request, [decided])
    request.app[AUTHENTICATION].rules.forget()
    _log.info(f"access {state}", **_named(decided))
    return shown


async def decide(
    connection: Connection,
    found: RoleRequest,
    decision: AccessDecision,
    state: Literal["granted", "declined"],
    *,
    by: str,
    is_owner: bool = False,
) -> RoleRequest:
    """Store a decision about an open request, and make the rule of a granted request.

    Args:
        by: the caller who decides.
        is_owner: as for `grant`.

    Raises:
        LimitReached
        InvalidAttribute: the token of the caller does not exist any more.
    """
    rule = None
    if state == "granted":
        wanted = NewRule(who=found.who, role=found.role, paths=(found.path,))
        subject = f"/access/requests/{found.id}"
        rule = (await grant(connection, wanted, by=by, subject=subject, is_owner=is_owner)).id
    decided = replace(
        found,
        state=state,
        decidedat=datetime.now(UTC),
        decidedby=by,
        note=decision.note or None,
        rule=rule,
    )
    await store.decide_request(connection, decided)
    return decided


async def withdraw_access_request(request: web.Request) -> None:
    """Forget a request of the caller, or one that the caller may decide; a granted rule stays."""
    async with request[CONTEXT].database.transaction() as connection:
        found, _ = await _existing(connection, request)
        await store.remove_request(connection, found.id)


def request_of(found: RoleRequest, *, is_own: bool, is_decidable: bool) -> AccessRequest:
    """A request in the form of answers and commands; names are for those who may decide."""
    told = {**asdict(found), "isown": is_own, "isdecidable": is_decidable}
    shown = AccessRequest.model_validate(told)
    if is_decidable:
        return shown
    return shown.model_copy(update=dict.fromkeys(("name", "who", "decidedby", "rule")))


def _named(request: RoleRequest) -> dict[str, str]:
    """What the log tells of a request."""
    by = request.decidedby or request.name
    return {"id": request.id, "by": by, "role": request.role, "path": request.path}


def check_open(found: RoleRequest) -> None:
    """Refuse a second decision.

    Raises:
        UnresolvedConflict
    """
    if found.state != "open":
        fault = f"it was {found.state} already"
        raise UnresolvedConflict(f"/access/requests/{found.id}", error_detail=fault)


async def _shown(
    connection: Connection, request: web.Request, found: Sequence[RoleRequest]
) -> list[AccessRequest]:
    """Requests as the caller may see them."""
    identity = identity_of(request)
    own, scope = _condition_of(identity), identity.scope_of(Permission.GRANT)
    paths = [each.path for each in found]
    decidable = (
        frozenset(paths)
        if scope is EVERYTHING
        else await covered_groups(connection, scope.rules, paths)
    )
    return [
        request_of(each, is_own=each.who == own, is_decidable=each.path in decidable)
        for each in found
    ]


async def _existing(
    connection: Connection, request: web.Request, *, locks: bool = False
) -> tuple[RoleRequest, AccessRequest]:
    """The request of the path, if the caller made it or may decide.

    Raises:
        NotFound
    """
    found = await store.find_request(connection, request.match_info["id"], locks=locks)
    if found is None:
        raise NotFound(request.path)
    [shown] = await _shown(connection, request, [found])
    if not (shown.isown or shown.isdecidable):
        raise NotFound(request.path)
    return found, shown


async def _open_request(connection: Connection, request: web.Request) -> RoleRequest:
    """The open request of the path, which the caller may decide.

    Raises:
        NotFound
        Forbidden: the caller has made the request, and may not decide.
        UnresolvedConflict: it was decided already.
    """
    found, shown = await _existing(connection, request, locks=True)
    if not shown.isdecidable:
        raise refusal_at(identity_of(request), Permission.GRANT, found.path)
    check_open(found)
    return found


async def _name_of(connection: Connection, identity: Identity) -> str:
    """The caller, in words, for those who decide."""
    if identity.issuer:
        return f"{identity} of {identity.issuer}"
    token = await find_token_by_id(connection, identity.name)
    return f"{token.name} ({identity})" if token is not None and token.name else str(identity)


def _condition_for(request: web.Request, identity: Identity) -> str:
    """The condition of a rule for the caller alone.

    Raises:
        Unauthenticated: nobody knows whom a rule would be for.
        UnresolvedConflict: the node is open, or no rule can name the caller.
    """
    if request.app[AUTHENTICATION].is_open:
        fault = "everybody may do everything at this node, which is open"
        raise UnresolvedConflict(request.path, error_detail=fault)
    if identity.kind == "anonymous":
        raise unauthenticated(request, "a rule needs to know for whom it is")
    who = _condition_of(identity)
    if not who:
        fault = "no rule can name this caller; ask an admin for a rule by other claims"
        raise UnresolvedConflict(request.path, error_detail=fault)
    return who


def _condition_of(identity: Identity) -> str:
    """The condition of a rule for a caller alone; "" if there is none."""
    match identity.kind:
        case "token":
            text = who_of(identity.name)
        case "jwt":
            text = f"{ISSUER}={identity.issuer}&sub={identity.name}"
        case "certificate":
            names = sorted(CERTIFICATE_NAMES & identity.claims.keys())
            pairs = [(name, value) for name in names for value in values_of(identity.claims, name)]
            text = "&".join(f"{name}={value}" for name, value in pairs)
        case _:
            return ""
    try:
        who = Who.parse(text)
    except ValueError:
        return ""
    # A name with a separator, or that is a wildcard, would let others in.
    is_exact = str(who) == text and ANY not in {value for _, value in who.conditions}
    return text if is_exact and who.is_met_by(identity.kind, identity.claims) else ""


async def list_holders(request: web.Request, query: HoldersQuery) -> GroupHolders:
    """Tell who may read and write a group: names to callers who may grant, else numbers."""
    context, authentication = request[CONTEXT], request.app[AUTHENTICATION]
    async with context.database.acquire() as connection:
        found = await entities.load(connection, [query.of])
        if query.of not in found:
            raise NotFound(query.of)
        rules = await rules_holding(connection, query.of, _MOST_SHOWN)
        tokens = await list_tokens(connection)
    identity = await authentication.with_rules(identity_of(request))
    holders = [*_by_rules(rules, tokens), *_by_tokens(tokens), *_by_settings(context.settings)]
    granting = identity.rules_with(Permission.GRANT)
    may_grant = Permission.GRANT in identity.permissions or any(x.id in granting for x in rules)
    names_them = authentication.is_open or may_grant
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
        name = names.get(rule.who) or None
        yield RoleHolder(
            role=rule.role, who=rule.who, name=name, by="rule", rule=rule.id, path=rule.path
        )


def _by_tokens(tokens: Sequence[AccessToken]) -> Iterator[RoleHolder]:
    now = datetime.now(UTC)
    for token in (each for each in tokens if each.is_valid(now)):
        who, name = who_of(token.id), token.name or None
        for each in token.grants:
            yield RoleHolder(role=each.role, who=who, name=name, by="token", path=WHOLE_CATALOG)


def _by_settings(settings: Settings) -> Iterator[RoleHolder]:
    roles = SettingRoles(settings)
    for rule in (each for rules in roles.rules.values() for each in rules):
        who = "&".join(f"{name}={value}" for name, value in rule.conditions)
        yield RoleHolder(role=rule.role, who=who, by="setting", path=WHOLE_CATALOG)
    if roles.anonymous is not None:
        yield RoleHolder(role=roles.anonymous, who=ANONYMOUS, by="setting", path=WHOLE_CATALOG)


def _roles_of(identity: Identity, rules: Sequence[HoldingRule]) -> list[Role]:
    """The roles of the caller in the group, the least powerful first."""
    here = {each.id for each in rules}
    roles = {*identity.roles_in_all, *(each.role for each in identity.rules if each.rule in here)}
    return [role for role in ROLES if role in roles]


routes: Sequence[Route] = (
    Route(declared.LIST_HOLDERS, list_holders),
    Route(declared.LIST_REQUESTS, list_access_requests),
    Route(declared.REQUEST_ACCESS, request_access),
    Route(declared.GET_REQUEST, get_access_request),
    Route(declared.GRANT_REQUEST, grant_access_request),
    Route(declared.DECLINE_REQUEST, decline_access_request),
    Route(declared.WITHDRAW_REQUEST, withdraw_access_request),
)
