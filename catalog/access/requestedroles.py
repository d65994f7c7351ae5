"""Handlers of `/access/requests`: a caller asks for a role in a group, and an admin decides.

A caller may ask for any group: the answer does not tell whether there is one. Those who may grant
roles in the group grant or decline; a grant makes a rule for the caller.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import structlog
from aiohttp import web

from catalog.access.authentication import AUTHENTICATION
from catalog.access.delegation import check_grantable, grant, who_of
from catalog.access.identity import Identity, identity_of, refusal_at, unauthenticated
from catalog.context import CONTEXT
from catalog.http.flags import page_limit
from catalog.http.route import Route, model_response
from catalog.model.caller import EVERYTHING
from catalog.model.concorderrors import LimitReached, UnresolvedConflict
from catalog.model.errors import NotFound
from catalog.model.roles import (
    ANY,
    CERTIFICATE_NAMES,
    ISSUER,
    Permission,
    Who,
    parse_path,
    values_of,
)
from catalog.operations import accessrequests as declared
from catalog.operations.access import NewRule
from catalog.operations.accessrequests import (
    AccessDecision,
    AccessRequest,
    AccessRequests,
    AccessRequestsQuery,
    NewAccessRequest,
)
from catalog.store import rolerequests as store
from catalog.store.accessrules import covered_groups
from catalog.store.accesstokens import find_token_by_id
from catalog.store.database import Connection
from catalog.store.rolerequests import MOST_OPEN_OF_CALLER, MOST_REQUESTS, RoleRequest

_log = structlog.get_logger(__name__)

_ID_BYTES = 5
_DECIDED_KEPT = timedelta(days=90)
_LONGEST_NAME = 300


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
    headers = {}
    if len(found) > limit:
        following = query.model_dump(include={"state", "path"}, exclude_none=True)
        page = urlencode(following | {"limit": limit, "after": shown[-1].id})
        headers["Link"] = f"<{context.base_url(request)}{request.path}?{page}>;rel=next"
    return model_response(AccessRequests(requests=shown), headers=headers)


async def get_access_request(request: web.Request) -> AccessRequest:
    """Show a request to the caller who made it, and to those who may decide."""
    async with request[CONTEXT].database.acquire() as connection:
        _, shown = await _existing(connection, request)
    return shown


async def grant_access_request(request: web.Request, decision: AccessDecision) -> AccessRequest:
    """Grant a request: a rule gives the role to the caller who asked."""
    context, identity = request[CONTEXT], identity_of(request)
    async with context.database.transaction() as connection:
        found = await _open_request(connection, request)
        await check_grantable(connection, identity, found.role, (parse_path(found.path),))
        is_owner = identity.scope_of(Permission.GRANT) is not EVERYTHING
        decided = await grant_request(
            connection, found, decision, by=str(identity), is_owner=is_owner, subject=request.path
        )
        context.caller.author.name_target(f"/access/rules/{decided.rule}")
        context.caller.author.name_target(found.path)
        shown = await _shown(connection, request, [decided])
    request.app[AUTHENTICATION].rules.forget()
    _log.info("access granted", **_named(decided))
    return shown[0]


async def grant_request(
    connection: Connection,
    found: RoleRequest,
    decision: AccessDecision,
    *,
    by: str,
    is_owner: bool = False,
    subject: str = "/access/requests",
) -> RoleRequest:
    """Make the rule that a request asks for, and store the decision.

    Raises:
        LimitReached
        InvalidAttribute: the token of the caller does not exist any more.
    """
    wanted = NewRule(who=found.who, role=found.role, paths=(found.path,))
    rule = await grant(connection, wanted, by=by, subject=subject, is_owner=is_owner)
    decided = _decided(found, decision, by=by)
    decided = replace(decided, state="granted", rule=rule.id)
    await store.decide_request(connection, decided)
    return decided


async def decline_access_request(request: web.Request, decision: AccessDecision) -> AccessRequest:
    """Decline a request, with a note for the caller who asked."""
    context, identity = request[CONTEXT], identity_of(request)
    async with context.database.transaction() as connection:
        found = await _open_request(connection, request)
        decided = await decline_request(connection, found, decision, by=str(identity))
        context.caller.author.name_target(found.path)
        shown = await _shown(connection, request, [decided])
    _log.info("access declined", **_named(decided))
    return shown[0]


async def decline_request(
    connection: Connection, found: RoleRequest, decision: AccessDecision, *, by: str
) -> RoleRequest:
    """Store that a request was declined."""
    decided = replace(_decided(found, decision, by=by), state="declined")
    await store.decide_request(connection, decided)
    return decided


async def withdraw_access_request(request: web.Request) -> None:
    """Forget a request of the caller, or one that the caller may decide; a granted rule stays."""
    async with request[CONTEXT].database.transaction() as connection:
        found, _ = await _existing(connection, request)
        await store.remove_request(connection, found.id)


def request_of(found: RoleRequest, *, is_own: bool, is_decidable: bool) -> AccessRequest:
    """A request in the form of answers and commands."""
    shown = AccessRequest(
        id=found.id,
        role=found.role,
        path=found.path,
        reason=found.reason,
        state=found.state,
        createdat=found.createdat,
        decidedat=found.decidedat,
        note=found.note or None,
        isown=is_own,
        isdecidable=is_decidable,
    )
    if not is_decidable:
        return shown
    names = {"name": found.name, "who": found.who, "decidedby": found.decidedby, "rule": found.rule}
    return shown.model_copy(update=names)


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


def _decided(found: RoleRequest, decision: AccessDecision, *, by: str) -> RoleRequest:
    note = decision.note or None
    return replace(found, decidedat=datetime.now(UTC), decidedby=by, note=note)


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


routes: Sequence[Route] = (
    Route(declared.LIST_REQUESTS, list_access_requests),
    Route(declared.REQUEST_ACCESS, request_access),
    Route(declared.GET_REQUEST, get_access_request),
    Route(declared.GRANT_REQUEST, grant_access_request),
    Route(declared.DECLINE_REQUEST, decline_access_request),
    Route(declared.WITHDRAW_REQUEST, withdraw_access_request),
)
