"""The log-in by a token of the node or of a provider, or at the provider, and the log-out."""

from __future__ import annotations

import base64
import contextlib
import re
import secrets
from urllib.parse import quote

from aiohttp import hdrs, web

from catalog.access.oidclogin import CodeLogin, LoginAttempt, LoginFailed, ProviderTokens
from catalog.client.errors import Refused
from catalog.console import sessions
from catalog.console.actions import read_form
from catalog.console.nodecalls import NodeCalls
from catalog.console.page import LOGIN, bare_route, render_bare
from catalog.context import CONTEXT
from catalog.model.errors import NotFound
from catalog.operations.access import WHOAMI

_START = "/console"
_PROVIDER = f"{LOGIN}/provider"
_RETURN = f"{LOGIN}/return"
_ATTEMPT = "concord-login"
_ATTEMPT_SECONDS = 600
_LONGEST_TARGET = 2000
_LONGEST_PART = 8192
_NOT_FOR_NODE = (
    "You are known to the provider, but the node does not accept the provider's access token. It "
    "needs to be a JWT for an audience of CONCORD_OIDC_AUDIENCES: many providers give one if "
    "CONCORD_OIDC_LOGIN_PARAMETERS asks for it by a resource or an audience."
)
_NOT_BEGUN = "This browser has not begun the log-in, or long ago: begin again."
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_LARGEST_FORM = 16 * 1024
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]{1,8000}={0,2}", re.ASCII)
_NO_TLS = (
    "This page came without TLS from another machine: a token would be readable on the way. Reach "
    "the node by https, or by a tunnel to its loopback address. Behind a proxy that ends TLS, the "
    "node needs to know its URL: CONCORD_PUBLIC_URL."
)


async def show_login(request: web.Request) -> web.Response:
    """The form for a token."""
    return _form(request, request.query.get("next", ""))


async def log_in(request: web.Request) -> web.Response:
    """Begin a session if the node accepts the token of the form."""
    form = await read_form(request, largest=_LARGEST_FORM)
    token = form.get("token", "").strip().removeprefix("Bearer ").strip()
    target = form.get("next", "")
    if not sessions.is_private(request):
        return _form(request, target, status=403)
    if not _TOKEN.fullmatch(token):
        return _form(request, target, "Paste the whole token, without quotes.", status=400)
    return await _let_in(
        request,
        target,
        ProviderTokens(access=token),
        "The node does not accept this token: it is unknown, revoked or expired.",
    )


async def go_to_provider(request: web.Request) -> web.Response:
    """Lead the browser to the log-in of the provider."""
    target = _safe_target(request.query.get("next", ""))
    if not sessions.is_private(request):
        return _form(request, target, status=403)
    attempt = LoginAttempt(secrets.token_urlsafe(32))
    try:
        address = await _provider_of(request).address(attempt)
    except LoginFailed as error:
        return _form(request, target, str(error), status=502)
    response = web.Response(status=302, headers={hdrs.LOCATION: address})
    # The page to return to is kept beside the secret, as text that a cookie may have.
    kept = base64.urlsafe_b64encode(target[:_LONGEST_TARGET].encode()).decode()
    response.set_cookie(
        sessions.cookie_name(request, _ATTEMPT),
        f"{attempt.secret}.{kept}",
        max_age=_ATTEMPT_SECONDS,
        path="/",
        secure=sessions.is_secure(request),
        httponly=True,
        samesite="Lax",
    )
    return response


async def return_from_provider(request: web.Request) -> web.Response:
    """Begin a session with the tokens of the provider to which the browser was led."""
    name = sessions.cookie_name(request, _ATTEMPT)
    secret, _, kept = request.cookies.get(name, "").partition(".")
    with contextlib.suppress(ValueError):
        kept = base64.urlsafe_b64decode(kept).decode()
    target = _safe_target(kept)
    if not sessions.is_private(request):
        return _form(request, target, status=403)
    provider = _provider_of(request)
    answer = {each: text for each, text in request.query.items() if len(text) <= _LONGEST_PART}
    try:
        # Everybody could derive the state of an attempt without a secret.
        if not _SECRET.fullmatch(secret):
            raise LoginFailed(_NOT_BEGUN)
        tokens = await provider.tokens(LoginAttempt(secret), answer)
    except LoginFailed as error:
        response = _form(request, target, str(error), status=400 if error.is_final else 502)
    else:
        response = await _let_in(request, target, tokens, _NOT_FOR_NODE)
    response.del_cookie(name, path="/", secure=sessions.is_secure(request), samesite="Lax")
    return response


def _provider_of(request: web.Request) -> CodeLogin:
    """The log-in at the provider of the node.

    Raises:
        NotFound: the settings name no client.
    """
    context = request[CONTEXT]
    if context.settings.oidc_login_client is None:
        raise NotFound(request.path)
    return CodeLogin(request, context.settings, f"{context.base_url(request)}{_RETURN}")


async def _let_in(
    request: web.Request, target: str, tokens: ProviderTokens, fault: str
) -> web.Response:
    """Begin a session with tokens that the node accepts; else tell a fault beside the form."""
    try:
        reader = await NodeCalls(request, tokens.access).call(WHOAMI)
    except Refused as error:
        if error.problem.status != 401:
            fault = f"{error.message} {error.hint}"
        return _form(request, target, fault, status=error.problem.status)
    response = web.Response(status=303, headers={hdrs.LOCATION: _safe_target(target)})
    # An open node knows no tokens, and has no sessions.
    if not reader.open:
        await sessions.begin_session(request, response, tokens)
    return response


async def log_out(request: web.Request) -> web.Response:
    """End the session."""
    sessions.check_same_site(request)
    response = web.Response(status=303, headers={hdrs.LOCATION: LOGIN})
    await sessions.end_session(request, response)
    return response


def _form(request: web.Request, target: str, fault: str = "", *, status: int = 200) -> web.Response:
    is_safe = sessions.is_private(request)
    settings = request[CONTEXT].settings
    return render_bare(
        "login.html",
        provider=settings.login_issuer if settings.oidc_login_client else "",
        provider_page=f"{_PROVIDER}?next={quote(_safe_target(target), safe='')}",
        status=status,
        target=_safe_target(target),
        fault=fault if is_safe else _NO_TLS,
        is_safe=is_safe,
        host=request.host,
    )


def _safe_target(target: str) -> str:
    """A page of the console, so that no link leads from the log-in to another server."""
    is_own = target == _START or target.startswith((f"{_START}/", f"{_START}?"))
    return target if is_own and target.isprintable() and "\\" not in target else _START


login_routes = (
    bare_route("GET", LOGIN, show_login, has_head=False),
    bare_route("GET", _PROVIDER, go_to_provider, has_head=False),
    bare_route("GET", _RETURN, return_from_provider, has_head=False),
    bare_route("POST", LOGIN, log_in),
    bare_route("POST", "/console/logout", log_out),
)
