"""Forms that pages of the console send, and their routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl

from aiohttp import web
from multidict import MultiDict, MultiMapping

from catalog.console.page import ConsolePage, answer_refusal, open_page
from catalog.console.sessions import check_same_site
from catalog.http.body import read_body
from catalog.http.route import Route
from catalog.model.concorderrors import LimitExceeded, UnsupportedMediaType
from catalog.operations.operation import Anyone, Operation

LARGEST_FORM = 256 * 1024
_MOST_FIELDS = 1000
_URLENCODED = "application/x-www-form-urlencoded"

Form = MultiMapping[str]
"""The fields of a form by name, in their order; a name may come several times."""

Take = Callable[[ConsolePage, Form], Awaitable[web.Response]]


def form_route(path: str, take: Take, *, largest: int = LARGEST_FORM) -> Route:
    """The route of a form that pages of this console send to a path.

    Args:
        path: the path with placeholders.
        take: answers the form, as the reader of the page.
        largest: the most bytes of the form as sent.
    """

    async def answer(request: web.Request) -> web.Response:
        form = await read_form(request, largest=largest)
        return await take(await open_page(request), form)

    answer.__name__ = take.__name__
    answer.__doc__ = take.__doc__
    return Route(
        # Each operation that the form calls has a time limit of its own, which may be longer.
        Operation(method="POST", path=path, needs=Anyone.UNASKED, is_kept=False, is_bounded=False),
        answer,
        answer_error=answer_refusal,
    )


async def read_form(request: web.Request, *, largest: int = LARGEST_FORM) -> Form:
    """Read a form of a page of this console; lines end with a line feed alone.

    Raises:
        OriginRefused: a page of another origin has sent the form.
        UnsupportedMediaType: the body is no form.
        LimitExceeded: the form has too many fields; and the errors of `read_body`.
    """
    check_same_site(request)
    if request.content_type != _URLENCODED:
        raise UnsupportedMediaType(
            request.path, contenttype=request.content_type, detail=f"A form is {_URLENCODED}."
        )
    body = await read_body(request, most=largest)
    if body.count(b"&") >= _MOST_FIELDS:
        raise LimitExceeded(
            request.path,
            limit=str(_MOST_FIELDS),
            things="fields in a form",
            setting="a fixed limit",
        )
    pairs = parse_qsl(body.decode("ascii", errors="replace"), keep_blank_values=True)
    return MultiDict((name, text.replace("\r\n", "\n")) for name, text in pairs)
