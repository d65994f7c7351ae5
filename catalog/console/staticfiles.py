"""The style sheet, scripts and icon of the console; nothing comes from another server.

A file's address holds its digest, so that a browser keeps the file for ever.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from aiohttp import hdrs, web

from catalog.model.errors import NotFound
from catalog.operations.operation import Anyone, Operation

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_PATH = "/console/static"
_FOR_EVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class _StaticFile:
    content: bytes
    compressed: bytes
    digest: str
    content_type: str


@cache
def _known_files() -> Mapping[str, _StaticFile]:
    found = {}
    for each in (files("catalog.console") / "static").iterdir():
        content_type = _TYPES.get(each.name.rpartition(".")[2])
        if content_type is not None:
            content = each.read_bytes()
            digest = hashlib.sha256(content).hexdigest()[:16]
            compressed = gzip.compress(content, mtime=0)
            found[each.name] = _StaticFile(content, compressed, digest, content_type)
    return found


def address_of(name: str) -> str:
    """The address of a file, which changes with its content."""
    return f"{_PATH}/{_known_files()[name].digest}/{name}"


async def get_file(request: web.Request) -> web.Response:
    """Answer with a file of the console's pages."""
    found = _known_files().get(request.match_info["name"])
    if found is None:
        raise NotFound(request.path)
    headers = {hdrs.CONTENT_TYPE: found.content_type, hdrs.VARY: hdrs.ACCEPT_ENCODING}
    # A page of an earlier edition may ask for a file as it was: it gets the present one, unkept.
    if request.match_info["digest"] == found.digest:
        headers[hdrs.CACHE_CONTROL] = _FOR_EVER
    if "gzip" in request.headers.get(hdrs.ACCEPT_ENCODING, ""):
        headers[hdrs.CONTENT_ENCODING] = "gzip"
        return web.Response(body=found.compressed, headers=headers)
    return web.Response(body=found.content, headers=headers)


GET_FILE = Operation(
    method="GET", path=f"{_PATH}/{{digest}}/{{name}}", needs=Anyone.UNASKED, is_counted=False
)
