"""The segments of a request's path: what is between its slashes, each a name or an id."""

from __future__ import annotations

from urllib.parse import unquote

from aiohttp import web
from aiohttp.typedefs import Handler

from catalog.model.errors import MalformedId

_ENCODED_SLASH = "%2f"


@web.middleware
async def segments_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuses paths with a segment that nothing can be called, for every API of the node.

    Raises:
        MalformedId: a segment is empty, or holds a slash.
    """
    path = request.rel_url.raw_path
    if "//" in path or _ENCODED_SLASH in path.lower():
        for segment in segments_of(path):
            if not segment or "/" in unquote(segment):
                raise MalformedId(
                    unquote(path), id=unquote(segment), error_detail=_fault_in(segment)
                )
    return await handler(request)


def segments_of(raw_path: str) -> list[str]:
    """The segments of a path, still percent-encoded; one slash at its end is none of them."""
    inner = raw_path.removeprefix("/")
    return inner.removesuffix("/").split("/") if inner else []


def _fault_in(segment: str) -> str:
    return "it holds a slash" if segment else "a segment of the path is empty"
