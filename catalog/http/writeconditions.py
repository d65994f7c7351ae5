"""Conditional writes of all APIs: `If-Match` and `If-None-Match` (RFC 9110, 13.1).

The tag is that of a GET of the same path, and is compared under the locks of the write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from aiohttp import hdrs, web

from catalog.http.etag import strong_tag, tags_in
from catalog.model.concorderrors import PreconditionFailed
from catalog.model.errors import NotFound
from catalog.store.database import Connection
from catalog.writing.transaction import Condition

_READ_AGAIN = "Read it again, and decide anew."
_NOT_ONE = "Only the write of one entity, at its own path, can be conditional."


# Answers a GET of one entity; raises NotFound if it does not exist.
Reading: TypeAlias = Callable[[Connection], Awaitable[web.Response]]


def condition_on(request: web.Request, read: Reading | None, subject: str = "") -> Condition | None:
    """The condition of a write, to be checked under its locks.

    Args:
        read: answers a GET of the same path; `None` where the request writes several entities.
        subject: the entity, if the request's path does not name it.

    Returns:
        a check that raises PreconditionFailed; `None` for an unconditional request.

    Raises:
        PreconditionFailed: the request writes several entities.
    """
    if hdrs.IF_MATCH not in request.headers and hdrs.IF_NONE_MATCH not in request.headers:
        return None
    if read is None:
        raise PreconditionFailed(request.path, detail=_NOT_ONE)

    async def check(connection: Connection) -> None:
        check_tag(request, await _tag(connection, read), subject)

    return check


def check_tag(request: web.Request, tag: str | None, subject: str = "") -> None:
    """Compare a request's conditions with a tag.

    Args:
        tag: of the entity; `None` if it does not exist.
        subject: as for `condition_on`.

    Raises:
        PreconditionFailed
    """
    for header, must_match in ((hdrs.IF_MATCH, True), (hdrs.IF_NONE_MATCH, False)):
        if header in request.headers and _matches(request, header, tag) != must_match:
            raise PreconditionFailed(subject or request.path, detail=_READ_AGAIN)


def _matches(request: web.Request, header: str, tag: str | None) -> bool:
    given = request.headers.getall(header)
    return tag is not None and (given == ["*"] or tag in tags_in(given))


async def _tag(connection: Connection, read: Reading) -> str | None:
    try:
        response = await read(connection)
    except NotFound:
        return None
    body = response.body or b""
    assert isinstance(body, bytes), "one entity is not streamed"
    return strong_tag(body, response.headers)
