"""What holds for every request: the configuration in force, and the version of the standard."""

from __future__ import annotations

import re

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from catalog.api.flags import Flags
from catalog.api.methods import KINDS, READING
from catalog.context import CONTEXT, Context
from catalog.model.capabilities import Capabilities
from catalog.model.errors import (
    ActionNotSupported,
    NotAvailable,
    ServerBusy,
    UnsupportedSpecVersion,
)
from catalog.store.locks import ConfigurationChanged

_MOST_ATTEMPTS = 3
_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?:\.\d{1,9})?(-[0-9a-z.-]{1,64})?", re.ASCII)


@web.middleware
async def configuration_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Runs a handler anew that wrote under a configuration which is not in force any more."""
    context = request.app[CONTEXT]
    for _ in range(_MOST_ATTEMPTS):
        try:
            _obey(request, context)
            return await handler(request)
        except ConfigurationChanged:
            await context.reload()
    raise ServerBusy(request.path, detail="The configuration is changing all the time.")


def _obey(request: web.Request, context: Context) -> None:
    able = context.capabilities
    if request.query_string:
        check_specversion(request, able)
    kind = KINDS.get(request.path)
    if kind is None or request.method == hdrs.METH_OPTIONS:
        return
    if kind not in able.available:
        raise NotAvailable(kind)
    if request.method in (hdrs.METH_PUT, hdrs.METH_PATCH) and not able.is_mutable(kind):
        raise ActionNotSupported(request.path, action=request.method, allow=READING)


def check_specversion(request: web.Request, capabilities: Capabilities) -> None:
    """The `specversion` flag (core/spec.md, "SpecVersion Flag").

    Raises:
        BadFlag: it is given more than once.
        UnsupportedSpecVersion
    """
    given = Flags(request, capabilities).value("specversion")
    if given is None:
        return
    known = {_comparable(version) for version in capabilities.specversions}
    version = _comparable(given)
    if version is None or version not in known:
        raise UnsupportedSpecVersion(
            request.path, specversion=given, list=",".join(capabilities.specversions)
        )


def _comparable(version: str) -> tuple[int, int, str] | None:
    """A version without its patch number, which makes no difference; its suffix does."""
    found = _VERSION.fullmatch(version.strip().lower())
    return (int(found[1]), int(found[2]), found[3] or "") if found else None
