"""Handlers of `/access`: the identity of the caller, and the tokens of the node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aiohttp import web

from catalog.access.authentication import AUTHENTICATION
from catalog.access.delegation import who_of
from catalog.access.identity import identity_of
from catalog.access.owntokens import end_token, make_token
from catalog.context import CONTEXT
from catalog.http.route import Route, model_response
from catalog.model.errors import NotFound
from catalog.model.roles import Grant, RuleGrant
from catalog.operations import access
from catalog.operations.access import NewToken, PathGrant, Token, Tokens, Whoami
from catalog.store.accessrules import first_paths, read_grants_for, read_grants_of
from catalog.store.accesstokens import AccessToken, find_token_by_id, list_tokens
from catalog.store.database import Connection

# A token may have roles at many paths: a list of tokens has only the first paths of each rule.
_MOST_LISTED = 10
_MOST_SHOWN = 1000


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
    return Token(
        id=token.id,
        name=token.name,
        grants=_shown(grants),
        createdat=token.createdat,
        expiresat=token.expiresat,
        usedat=token.usedat,
        token=text,
    )


def _shown(grants: Iterable[Grant]) -> list[PathGrant]:
    return [PathGrant.model_construct(role=each.role, path=each.path) for each in grants]


routes: Sequence[Route] = (
    Route(access.WHOAMI, get_whoami),
    Route(access.LIST_TOKENS, get_tokens),
    Route(access.CREATE_TOKEN, create_token),
    Route(access.GET_TOKEN, get_token),
    Route(access.DELETE_TOKEN, delete_token),
)
