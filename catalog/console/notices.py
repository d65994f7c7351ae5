"""What an action has done, told once on the page to which the action leads.

The notice is in a cookie, and not in the URL: a page that is reloaded, kept or sent tells nothing
that has passed.
"""

from __future__ import annotations

import base64
import contextlib
from dataclasses import dataclass

import orjson
from aiohttp import web

from catalog.console.sessions import cookie_name, is_secure

_NAME = "concord-notice"
_LONGEST_COOKIE = 3800
_LONGEST = 600
_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence about an action, and whether the action went well."""

    says: str
    is_well: bool = True


def lead_to(request: web.Request, target: str, notice: Notice) -> web.Response:
    """Lead to a page of the console, which tells a notice.

    Args:
        target: the path and query of the page.
    """
    response = web.Response(status=303, headers={"Location": target})
    told = orjson.dumps([target, notice.says[:_LONGEST], notice.is_well])
    value = base64.urlsafe_b64encode(told).decode()
    # A longer cookie would be refused by the browser, and the page is right without the notice.
    if len(value) <= _LONGEST_COOKIE:
        response.set_cookie(
            cookie_name(request, _NAME),
            value,
            max_age=_SECONDS,
            path="/",
            secure=is_secure(request),
            httponly=True,
            samesite="Strict",
        )
    return response


def notice_for(request: web.Request) -> Notice | None:
    """The notice that a page is to tell, if there is one."""
    value = request.cookies.get(cookie_name(request, _NAME), "")
    if not value or len(value) > _LONGEST_COOKIE:
        return None
    with contextlib.suppress(ValueError):
        match orjson.loads(base64.urlsafe_b64decode(value)):
            case [target, str(says), bool(is_well)] if target == request.path_qs:
                return Notice(says[:_LONGEST], is_well)
    return None


def forget_notice(request: web.Request, response: web.StreamResponse) -> None:
    """Have the browser forget a notice, which the response tells."""
    name = cookie_name(request, _NAME)
    response.del_cookie(name, path="/", secure=is_secure(request), samesite="Strict")
