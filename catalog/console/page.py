"""Pages: who reads, how a page is rendered, and the headers and refusals of every page.

A notice says what an action has done, once, on the page to which the action leads. The notice is in
a cookie, and not in the URL: a page that is reloaded, kept or sent tells nothing that has passed.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

import orjson
from aiohttp import hdrs, web
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from catalog.access.identity import unauthenticated
from catalog.client.errors import BadAnswer, Problem, Refused
from catalog.console.nodecalls import NodeCalls
from catalog.console.sessions import cookie_name, is_secure, token_of
from catalog.console.staticfiles import address_of
from catalog.http.problems import PROBLEM, problem_of
from catalog.http.route import Handler, Route
from catalog.model import roles
from catalog.model.concorderrors import Forbidden
from catalog.model.schema import RESERVED_GROUP_NAMES
from catalog.model.timestamps import parse_time
from catalog.model.xid import Xid
from catalog.operations.access import WHOAMI, Whoami
from catalog.operations.operation import Anyone, Operation

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


LOGIN = "/console/login"
ENTITIES = "/console/e"
# Texts of a catalog never become HTML, and nothing comes from another server. Trusted Types make
# the browser refuse every script that would turn a text into HTML.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # With `no-referrer`, browsers send forms with the origin `null`, as other sites do.
    "Referrer-Policy": "same-origin",
}
_PLACES: tuple[tuple[str, str, roles.Permission | None], ...] = (
    ("Catalog", ENTITIES, None),
    ("Changes", "/console/changes", None),
    ("Check", "/console/check", None),
    ("Federation", "/console/federation", roles.Permission.REPLICATE),
    ("Subscriptions", "/console/subscriptions", roles.Permission.SUBSCRIBE),
    ("Live", "/console/live", None),
    ("Comparisons", "/console/comparisons", roles.Permission.REPLICATE),
    ("Operation", "/console/operation", None),
)
_LONGEST_LINE = 240
_MOST_HIGHLIGHTED = 64 * 1024
# A part of a page is a piece of text of a template, or a value in it.
_PARTS_AT_ONCE = 200
_JSON_PART = re.compile(
    # A text that is not closed ends with the document, so that the time stays linear.
    r'(?P<name>"(?:[^"\\]|\\.)*+")(?=\s*+:)|(?P<text>"(?:[^"\\]|\\.)*+(?:"|\\?\Z))'
    r"|(?P<literal>-?\d[\d.eE+-]*+|\b(?:true|false|null)\b)",
    re.DOTALL,
)
_PLACEHOLDER = re.compile(r"(\{[^{}]{1,200}\})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolePage:
    """A request for a page: the reader, and the operations that the reader may call."""

    request: web.Request
    node: NodeCalls
    reader: Whoami
    has_session: bool

    def may(self, permission: roles.Permission, within: str = "") -> bool:
        """Whether the reader has a permission in the whole catalog, or in a group.

        Args:
            within: the path of the group or of an entity in the group; empty for any group.
        """
        if self.reader.open:
            return True
        # A reader with more grants than are listed may have the permission in a group of another.
        if self.reader.more and any(permission in each for each in roles.PATH_PERMISSIONS.values()):
            return True
        return any(
            permission
            in (roles.PERMISSIONS if each.path == roles.WHOLE_CATALOG else roles.PATH_PERMISSIONS)[
                each.role
            ]
            and (not within or roles.covers(each.path, within))
            for each in self.reader.grants
        )

    def may_everywhere(self, permission: roles.Permission) -> bool:
        """Whether the reader has a permission in the whole catalog."""
        return self.reader.open or any(
            permission in roles.PERMISSIONS[each.role]
            for each in self.reader.grants
            if each.path == roles.WHOLE_CATALOG
        )

    def demand(self, permission: roles.Permission) -> None:
        """Refuse a reader who lacks a permission; the operations of the page check the same.

        Raises:
            Unauthenticated: nobody has logged in.
            Forbidden
        """
        if self.may(permission):
            return
        if self.reader.kind == "anonymous":
            raise unauthenticated(self.request, "nobody has logged in")
        raise Forbidden(
            self.request.path,
            action=permission.value,
            roles=roles_for(permission),
            identity=self.reader.name or "",
        )

    @property
    def places(self) -> list[tuple[str, str]]:
        """The places of the bar, each with its page; places that show the reader nothing lack."""
        return [
            (name, address) for name, address, needs in _PLACES if needs is None or self.may(needs)
        ]

    @property
    def who(self) -> str:
        """The reader, in words."""
        if self.reader.open:
            return "open to everybody"
        name = self.reader.name or ""
        return "anonymous" if self.reader.kind == "anonymous" else f"{self.reader.kind} {name}"


Show = Callable[[ConsolePage], Awaitable[web.Response]]
_PAGE: web.RequestKey[ConsolePage] = web.RequestKey("console_page", ConsolePage)


def page_route(path: str, show: Show) -> Route:
    """The route of a page.

    The browser shows no credential that the door would check: the session, and every operation
    that the page calls, does.
    """

    async def answer(request: web.Request) -> web.Response:
        return await show(await open_page(request))

    answer.__name__ = show.__name__
    return bare_route("GET", path, answer)


def bare_route(
    method: str, path: str, handler: Handler, *, is_bounded: bool = True, has_head: bool = True
) -> Route:
    """A route that asks for no credential, and answers refusals by a page."""
    operation = Operation(
        method=method,
        path=path,
        needs=Anyone.UNASKED,
        is_kept=False,
        is_bounded=is_bounded,
        has_head=has_head,
    )
    return Route(operation, handler, answer_refusal)


async def open_page(request: web.Request) -> ConsolePage:
    """Find out who reads a page.

    Raises:
        Refused: the credential of the request or the token of the session is no longer valid.
    """
    token = await token_of(request)
    node = NodeCalls(request, token)
    reader = await node.call(WHOAMI)
    page = ConsolePage(request=request, node=node, reader=reader, has_session=token is not None)
    request[_PAGE] = page
    return page


async def render(
    page: ConsolePage, template: str, *, status: int = 200, **values: Any
) -> web.Response:
    """A page, made from a template; a long page does not hold up other requests."""
    notice = notice_for(page.request) if page.request.method == hdrs.METH_GET else None
    about = {"page": page, "place": page.request.path, "q": "", "notice": notice}
    parts: list[str] = []
    for part in _TEMPLATES.get_template(template).generate({**about, **values}):
        parts.append(part)
        if not len(parts) % _PARTS_AT_ONCE:
            await asyncio.sleep(0)
    response = _html("".join(parts), status=status)
    if notice is not None:
        forget_notice(page.request, response)
    return response


def render_bare(template: str, *, status: int = 200, **values: Any) -> web.Response:
    """A page without a notice, and perhaps without a known reader: the log-in, or a refusal."""
    about = {"page": None, "place": "", "q": "", "notice": None}
    return _html(_TEMPLATES.get_template(template).render(**{**about, **values}), status=status)


def _html(text: str, *, status: int = 200) -> web.Response:
    return web.Response(
        body=text.encode(errors="replace"),
        status=status,
        headers={**_HEADERS, hdrs.CONTENT_TYPE: "text/html; charset=utf-8"},
    )


def answer_refusal(request: web.Request, error: Exception) -> web.Response:
    """Answer a page that cannot be shown: by the log-in if a credential is missing, or in words."""
    match error:
        case Refused():
            problem, name = error.problem, error.problem.name
        case BadAnswer():
            problem = Problem.read(502, b"", error.message)
            name = "bad_answer"
        case _:
            document = problem_of(request, error)
            assert isinstance(document.body, bytes)
            problem = Problem.read(document.status, document.body, document.reason or "")
            name = document[PROBLEM]
    if problem.status == 401 and request.method in (hdrs.METH_GET, hdrs.METH_HEAD):
        response = web.Response(status=302, headers={hdrs.LOCATION: _login_for(request)})
    else:
        response = render_bare(
            "refused.html", status=problem.status, page=request.get(_PAGE), problem=problem
        )
    response[PROBLEM] = name
    return response


def _login_for(request: web.Request) -> str:
    return f"{LOGIN}?next={quote(request.path_qs, safe='')}"


def roles_for(permission: roles.Permission) -> str:
    """The roles with a permission, in words."""
    return " or ".join(roles.roles_with(permission))


def entity_url(path: str) -> str:
    """The page of an entity or a collection."""
    return ENTITIES + quote(path, safe="/:@~!$&'()*+,;=")


def local_path(reference: Any) -> str | None:
    """The path of an entity of this catalog that a text refers to, else `None`."""
    if not isinstance(reference, str):
        return None
    try:
        xid = Xid.parse(reference.removeprefix("#"))
    except ValueError:
        return None
    return str(xid) if xid.gid and xid.groups not in RESERVED_GROUP_NAMES else None


def web_url(text: Any) -> str | None:
    """A text as the target of a link, if it is an absolute URL of the web."""
    if not isinstance(text, str) or len(text) > 2000:
        return None
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    return text if parts.scheme in ("http", "https") and parts.netloc else None


def json_text(value: Any) -> str:
    """A value as JSON for people."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def in_words(seconds: float) -> str:
    """A duration, such as `3 s`, `12 min` or `5 days`."""
    for size, unit in ((86400, "day"), (3600, "h"), (60, "min")):
        if seconds >= size * (2 if unit == "day" else 1):
            number = round(seconds / size)
            return f"{number} days" if unit == "day" else f"{number} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 or seconds == 0 else "under 1 s"


def _ago(value: datetime | str) -> Markup:
    """A time, told from now; the exact time is in the title."""
    try:
        time = value if isinstance(value, datetime) else parse_time(value)
    except ValueError:
        return Markup("{}").format(value)
    age = (datetime.now(UTC) - time).total_seconds()
    told = f"{in_words(age)} ago" if age >= 1 else "now" if age > -1 else f"in {in_words(-age)}"
    return _time(time, told)


def _for(time: datetime) -> Markup:
    """How long a state has lasted that began at a time; the exact time is in the title."""
    age = (datetime.now(UTC) - time).total_seconds()
    return _time(time, f"for {in_words(max(age, 0.0))}")


def _time(time: datetime, told: str) -> Markup:
    exact = f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(time.isoformat(), exact, told)


def short_authority(uri: str) -> str:
    """An authority as short as its reader needs: the host of a URL, or the beginning of a UUID."""
    if web_url(uri):
        return urlsplit(uri).netloc
    return f"{uri[:17]}…" if uri.startswith("urn:uuid:") else uri


def authority_url(uri: str) -> str:
    """The page of an authority."""
    return f"/console/authority?of={quote(uri, safe='')}"


def _cut(text: Any, most: int = _LONGEST_LINE) -> str:
    line = str(text)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _place(pointer: str) -> str:
    """The attribute of a JSON pointer, such as `messagegroups` for `/messagegroups/0`."""
    return ".".join(part for part in pointer.split("/") if part and not part.isdigit())


def _marked_placeholders(text: str) -> Markup:
    """A text with its placeholders of a URI template marked."""
    parts = _PLACEHOLDER.split(str(text)[:2000])
    return Markup("").join(
        Markup('<span class="placeholder">{}</span>').format(part) if odd % 2 else part
        for odd, part in enumerate(parts)
    )


def _marked_commands(text: str) -> Markup:
    """A text with the commands that are between backticks marked."""
    parts = _cut(text, 1000).split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if odd % 2 else part
        for odd, part in enumerate(parts)
    )


def _highlighted(text: str) -> Markup:
    """JSON with its names and values marked; large JSON, and other texts, as they are."""
    if len(text) > _MOST_HIGHLIGHTED or not text.startswith(("{", "[")):
        return Markup("{}").format(text)
    parts, end = [], 0
    for found in _JSON_PART.finditer(text):
        parts.append(escape(text[end : found.start()]))
        parts.append(Markup('<span class="{}">{}</span>').format(found.lastgroup, found[0]))
        end = found.end()
    return Markup("").join([*parts, escape(text[end:])])


def _query(values: Mapping[str, Any], **changes: Any) -> str:
    """A query with some parameters changed; those without a value are left out."""
    pairs = {**values, **changes}.items()
    return "&".join(f"{name}={quote(str(value), safe='')}" for name, value in pairs if value)


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("catalog.console"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "ago": _ago,
        "commands": _marked_commands,
        "count": lambda number: f"{number:,}",
        "cut": _cut,
        "duration": in_words,
        "entity": entity_url,
        "highlighted": _highlighted,
        "json": json_text,
        "lasting": _for,
        "local": local_path,
        "place": _place,
        "placeholders": _marked_placeholders,
        "authority": short_authority,
        "authoritypage": authority_url,
        "weburl": web_url,
    }
    made.globals |= {"static": address_of, "query": _query, "login": LOGIN}
    return made


_TEMPLATES = _environment()
