"""The log-in by a token of the node or of a provider, and the log-out."""

from __future__ import annotations

import re

from aiohttp import hdrs, web

from catalog.client.errors import Refused
from catalog.console.forms import read_form
from catalog.console.nodecalls import NodeCalls
from catalog.console.page import LOGIN, answer_refusal, render_bare
from catalog.console.sessions import begin_session, check_same_site, end_session, is_private
from catalog.http.route import Route
from catalog.operations.access import WHOAMI
from catalog.operations.operation import Anyone, Operation

_START = "/console"
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
    if not is_private(request):
        return _form(request, target, status=403)
    if not _TOKEN.fullmatch(token):
        return _form(request, target, "Paste the whole token, without quotes.", status=400)
    try:
        reader = await NodeCalls(request, token).call(WHOAMI)
    except Refused as error:
        if error.problem.status == 401:
            fault = "The node does not accept this token: it is unknown, revoked or expired."
        else:
            fault = f"{error.message} {error.hint}"
        return _form(request, target, fault, status=error.problem.status)
    response = web.Response(status=303, headers={hdrs.LOCATION: _safe_target(target)})
    # An open node knows no tokens, and has no sessions.
    if not reader.open:
        await begin_session(request, response, token)
    return response


async def log_out(request: web.Request) -> web.Response:
    """End the session."""
    check_same_site(request)
    response = web.Response(status=303, headers={hdrs.LOCATION: LOGIN})
    await end_session(request, response)
    return response


def _form(request: web.Request, target: str, fault: str = "", *, status: int = 200) -> web.Response:
    is_safe = is_private(request)
    return render_bare(
        "login.html",
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
    Route(
        Operation(method="GET", path=LOGIN, needs=Anyone.UNASKED, is_kept=False),
        show_login,
        answer_refusal,
    ),
    *(
        Route(
            Operation(method="POST", path=path, needs=Anyone.UNASKED, is_kept=False),
            handler,
            answer_refusal,
        )
        for path, handler in ((LOGIN, log_in), ("/console/logout", log_out))
    ),
)
