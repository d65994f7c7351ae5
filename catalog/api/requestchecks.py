"""Checks each request before its handler: host, origin, path, standard's version, capabilities."""

from __future__ import annotations

import re
from urllib.parse import unquote

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from catalog.api.allowedmethods import KINDS
from catalog.api.requesttarget import segments_of
from catalog.context import CONTEXT, Context
from catalog.http.characters import check_characters
from catalog.http.crossorigin import check_origin
from catalog.http.etag import READING
from catalog.http.flags import Flags
from catalog.http.requesthost import check_host
from catalog.model.capabilities import Capabilities
from catalog.model.errors import (
    ActionNotSupported,
    MalformedId,
    NotAvailable,
    ServerBusy,
    UnsupportedSpecVersion,
)
from catalog.store.connections import StatementsOutdated
from catalog.store.database import has_committed
from catalog.store.locks import ConfigurationChanged

_MOST_ATTEMPTS = 3
_ENCODED_SLASH = "%2f"
_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?:\.\d{1,9})?(-[0-9a-z.-]{1,64})?", re.ASCII)


@web.middleware
async def checking_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Check a request, and handle it again if its configuration was replaced before its write, or
    if another version of Concord changed a table."""
    context = request.app[CONTEXT]
    check_host(request, context)
    check_characters(request)
    check_origin(request, context)
    _check_segments(request.rel_url.raw_path)
    await context.catch_up()
    for _ in range(_MOST_ATTEMPTS):
        try:
            _check_capabilities(request, context)
            return await handler(request)
        except ConfigurationChanged:
            await context.reload()
        except StatementsOutdated:
            if has_committed.get():
                raise
    raise ServerBusy(request.path, detail="The configuration is changing all the time.")


def _check_capabilities(request: web.Request, context: Context) -> None:
    able = context.capabilities
    if request.query_string:
        _check_specversion(request, able)
    kind = KINDS.get(request.path)
    if kind is None or request.method == hdrs.METH_OPTIONS:
        return
    if kind not in able.available:
        raise NotAvailable(kind)
    if request.method in (hdrs.METH_PUT, hdrs.METH_PATCH) and not able.is_mutable(kind):
        raise ActionNotSupported(request.path, action=request.method, allow=READING)


def _check_segments(path: str) -> None:
    """Refuse paths with an empty segment, or with a slash in one."""
    if "//" not in path and _ENCODED_SLASH not in path.lower():
        return
    for segment in segments_of(path):
        id = unquote(segment)
        if not id or "/" in id:
            fault = "it holds a slash" if id else "a segment of the path is empty"
            raise MalformedId(unquote(path), id=id, error_detail=fault)


def _check_specversion(request: web.Request, capabilities: Capabilities) -> None:
    """Check the `specversion` flag (core/spec.md, "SpecVersion Flag")."""
    given = Flags(request, capabilities).value("specversion")
    if given is None:
        return
    known = capabilities.specversions
    version = _comparable(given)
    if version is None or version not in map(_comparable, known):
        raise UnsupportedSpecVersion(request.path, specversion=given, list=",".join(known))


def _comparable(version: str) -> tuple[int, int, str] | None:
    """A version without its patch number, which makes no difference; its suffix does."""
    found = _VERSION.fullmatch(version.strip().lower())
    return (int(found[1]), int(found[2]), found[3] or "") if found else None
