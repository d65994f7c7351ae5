"""Writes on condition that what is there is what the client knows (RFC 9110, 13.1).

A tag is that of a GET of the same path without flags.
"""

from __future__ import annotations

from aiohttp import hdrs, web

from catalog.api.etag import strong_tag, tags_in
from catalog.api.params import PLAIN
from catalog.api.paths import Target
from catalog.api.reading import answer_document, read_document, read_one, shown
from catalog.api.responses import to_json
from catalog.api.view import View
from catalog.context import Context
from catalog.model.configuration import Configuration
from catalog.model.errors import NotFound
from catalog.model.ownerrors import PreconditionFailed
from catalog.registry.write import Condition
from catalog.store.database import Connection

_READ_AGAIN = "Read it again, and decide anew."
_NOT_ONE = "Only the write of one entity, at its own path, can be conditional."


def condition_of(
    request: web.Request, context: Context, configuration: Configuration, target: Target
) -> Condition | None:
    """What is to be found out before anything is written, while nobody else can write it.

    Returns:
        whoever finds it out, which raises PreconditionFailed; `None` if all is well anyway.

    Raises:
        PreconditionFailed: nothing can have a tag there.
    """
    if hdrs.IF_MATCH not in request.headers and hdrs.IF_NONE_MATCH not in request.headers:
        return None
    if target.kind == "collection":
        raise PreconditionFailed(request.path, detail=_NOT_ONE)
    view = View(
        request=request, context=context, configuration=configuration, target=target, query=PLAIN
    )

    async def check(connection: Connection) -> None:
        check_tag(request, await _tag(connection, view))

    return check


def check_tag(request: web.Request, tag: str | None) -> None:
    """Hold a request to its headers.

    Args:
        tag: of what is there, `None` if nothing is.

    Raises:
        PreconditionFailed
    """
    if hdrs.IF_MATCH in request.headers and not _matches(request, hdrs.IF_MATCH, tag):
        raise PreconditionFailed(request.path, detail=_READ_AGAIN)
    if hdrs.IF_NONE_MATCH in request.headers and _matches(request, hdrs.IF_NONE_MATCH, tag):
        raise PreconditionFailed(request.path, detail=_READ_AGAIN)


def _matches(request: web.Request, header: str, tag: str | None) -> bool:
    given = request.headers.getall(header)
    return tag is not None and (given == ["*"] or tag in tags_in(given))


async def _tag(connection: Connection, view: View) -> str | None:
    try:
        if view.target.is_document:
            known, body = await read_document(connection, view)
            return strong_tag(body, answer_document(view, known, body).headers)
        known = await read_one(connection, view)
    except NotFound:
        return None
    return strong_tag(to_json(shown(view.renderer(known), view)))
