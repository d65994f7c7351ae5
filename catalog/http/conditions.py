"""Entity tags, and the conditions of requests on entity tags (RFC 9110, 13)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeAlias

from aiohttp import hdrs, web
from multidict import CIMultiDict, CIMultiDictProxy

from catalog.model.concorderrors import PreconditionFailed
from catalog.model.errors import NotFound
from catalog.store.database import Connection
from catalog.writing.writetransaction import Condition

_TAG = re.compile(r'(W/)?("[^"]*")')
# The prefixes of headers with metadata: of the native API, and of edition 0.4.
_METADATA = ("xregistry-", "registry-")
_OF_THE_BODY = (hdrs.CONTENT_LENGTH, hdrs.CONTENT_TYPE, hdrs.CONTENT_ENCODING)
# Caches may keep an answer, but must revalidate the answer before each use.
REVALIDATE = "no-cache"
# For answers with a tag that covers only a part of the content: caches do not keep such an answer,
# and no 304 replaces the answer.
NEVER_KEPT = "no-store"
_READ_AGAIN = "Read it again, and decide anew."
_NOT_ONE = "Only the write of one entity, at its own path, can be conditional."
# Answers a GET of one entity; raises NotFound if the entity does not exist.
Reading: TypeAlias = Callable[[Connection], Awaitable[web.Response]]


def strong_tag(body: bytes, headers: Mapping[str, str] | None = None) -> str:
    """The tag of an answer: a digest of the body and of the metadata in the headers."""
    digest = hashlib.sha256(body).hexdigest()
    metadata = [item for item in (headers or {}).items() if item[0].lower().startswith(_METADATA)]
    if metadata:
        digest = hashlib.sha256(f"{digest} {sorted(metadata)}".encode()).hexdigest()
    return f'"{digest[:32]}"'


def weak_tag(parts: Iterable[object]) -> str:
    """The tag of an answer that the given parts identify."""
    text = "\n".join(map(str, parts))
    return f'W/"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def has_tag(request: web.Request, tag: str) -> bool:
    """Whether `If-None-Match` matches a tag (RFC 9110, 13.1.2: weak comparison)."""
    return names_tag(request, tag) or request.headers.get(hdrs.IF_NONE_MATCH, "").strip() == "*"


def names_tag(request: web.Request, tag: str) -> bool:
    """Whether `If-None-Match` names a tag; `*` does not count."""
    given = request.headers.getall(hdrs.IF_NONE_MATCH, ())
    return tag.removeprefix("W/") in tags_in(given, weak=True)


def tags_in(headers: Iterable[str], *, weak: bool = False) -> list[str]:
    """The tags in the values of a header.

    Args:
        weak: include weak tags, without the prefix `W/`.
    """
    found = _TAG.findall(",".join(headers))
    return [tag for prefix, tag in found if weak or not prefix]


def not_modified(headers: CIMultiDict[str] | CIMultiDictProxy[str]) -> web.Response:
    """Answer that the client's copy is current."""
    kept = CIMultiDict(headers)
    for name in _OF_THE_BODY:
        kept.popall(name, None)
    return web.Response(status=304, headers=kept)


def tag(response: web.StreamResponse) -> None:
    """Add the tag and the caching rule to an answer to a read."""
    headers = response.headers
    if response.status < 400 and hdrs.CACHE_CONTROL not in headers:
        headers[hdrs.CACHE_CONTROL] = REVALIDATE
    if response.status == 200 and isinstance(response, web.Response) and hdrs.ETAG not in headers:
        body = response.body
        if body is None or isinstance(body, bytes):
            headers[hdrs.ETAG] = strong_tag(body or b"", headers)


def answer_conditionally(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Tag the answer to a read, or return a 304 if the client has the same answer."""
    tag(response)
    if hdrs.IF_NONE_MATCH not in request.headers or response.status != 200:
        return response
    if response.headers[hdrs.CACHE_CONTROL] == NEVER_KEPT:
        return response
    known = response.headers.get(hdrs.ETAG)
    return not_modified(response.headers) if known and has_tag(request, known) else response


def condition_on(request: web.Request, read: Reading | None, subject: str = "") -> Condition | None:
    """The condition of a write, to be checked under the locks of the write.

    Args:
        read: answers a GET of the same path; `None` for requests that write several entities.
        subject: the entity, if the path of the request does not name the entity.

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
    """Compare the conditions of a request with a tag.

    Args:
        tag: the tag of the entity; `None` if the entity does not exist.
        subject: as for `condition_on`.

    Raises:
        PreconditionFailed: a condition does not hold.
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
