"""Admits a request by its caller, the rate and rights of that caller, its origin and its path."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from aiohttp import hdrs, web

from catalog.access.audittrail import author_of
from catalog.access.authentication import AUTHENTICATION
from catalog.access.identity import IDENTITY, Identity, demand
from catalog.access.ratelimits import RATE_LIMITS, key_of
from catalog.context import CONTEXT
from catalog.http.browsers import check_origin
from catalog.http.characters import check_characters
from catalog.http.conditions import READING
from catalog.http.flags import Flags
from catalog.http.positionwait import wait_for_positions
from catalog.http.requesthost import check_host
from catalog.model.author import author
from catalog.model.caller import caller
from catalog.model.capabilities import Capabilities
from catalog.model.concorderrors import TooManyAttempts, Unauthenticated
from catalog.model.errors import (
    ActionNotSupported,
    MalformedId,
    NotAvailable,
    UnsupportedSpecVersion,
)
from catalog.model.visibility import visibility
from catalog.model.writescope import writescope
from catalog.operations.operation import Anyone, Need, Operation

_ENCODED_SLASH = "%2f"
_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?:\.\d{1,9})?(-[0-9a-z.-]{1,64})?", re.ASCII)


async def admit(request: web.Request, operation: Operation[Any, Any]) -> None:
    """Let a request pass whose caller has the right that its operation needs.

    A credential that is shown has to be valid even where none is needed, except by operations that
    do not ask. What the handler reads is what the caller may see, what the handler writes has to be
    what the caller may write, and the caller is the author of it.

    Raises:
        XRegistryError: the request is refused.
    """
    need = operation.needs
    if request.method == hdrs.METH_OPTIONS:
        # OPTIONS tells methods only, and browsers send it without a credential (Fetch, 4.8).
        need = Anyone.UNASKED
    identity = await _identify(request, operation, need)
    # The requests of one connection share a task, and so its context.
    visibility.set(None if identity is None else identity.visibility)
    writescope.set(None if identity is None else identity.writescope)
    author.set(None if request.method in READING else author_of(request))
    context = request.app[CONTEXT]
    check_host(request, context)
    check_characters(request)
    check_origin(request, context)
    _check_segments(request.rel_url.raw_path)
    await context.catch_up()
    await wait_for_positions(request)


async def admit_again(request: web.Request, need: Need) -> None:
    """Ask anew what the caller of a request that has waited may see, if that is not everything.

    Raises:
        Unauthenticated: its credential is no longer valid.
        Forbidden
    """
    authentication = request.app[AUTHENTICATION]
    if visibility.get() is not None and not authentication.is_open:
        identity = await authentication.identify(request)
        visibility.set((await _permitted(request, identity, need)).visibility)


async def _identify(
    request: web.Request, operation: Operation[Any, Any], need: Need
) -> Identity | None:
    """The caller of a request, which has the right; `None` where nobody is asked.

    From here on the work of a known caller counts as its own, wherever it comes from.
    """
    authentication, rates = request.app[AUTHENTICATION], request.app[RATE_LIMITS]
    if authentication.is_open or need is Anyone.UNASKED:
        if operation.is_counted:
            rates.take(request, caller.get(), None)
        return None
    try:
        identity = await authentication.identify(request)
    except (TooManyAttempts, Unauthenticated):
        rates.take(request, caller.get(), None)
        raise
    if identity.kind != "anonymous":
        caller.set(key_of(identity))
    rates.take(request, caller.get(), identity)
    return await _permitted(request, identity, need)


async def _permitted(request: web.Request, identity: Identity, need: Need) -> Identity:
    if need not in identity.permissions:
        identity = await request.app[AUTHENTICATION].with_rules(identity)
    request[IDENTITY] = identity
    if not isinstance(need, Anyone):
        demand(request, need)
    return identity


def check_capabilities(
    request: web.Request, operation: Operation[Any, Any], able: Capabilities
) -> None:
    """Refuse what the capabilities in force do not offer.

    Raises:
        UnsupportedSpecVersion, NotAvailable, ActionNotSupported
    """
    if request.query_string:
        _check_specversion(request, able)
    name = operation.capability
    if name is None or request.method == hdrs.METH_OPTIONS:
        return
    if name not in able.available:
        raise NotAvailable(name)
    if request.method in (hdrs.METH_PUT, hdrs.METH_PATCH) and not able.is_mutable(name):
        raise ActionNotSupported(request.path, action=request.method, allow=READING)


def _check_segments(path: str) -> None:
    """Refuse paths with an empty segment, or with a slash in one."""
    if "//" not in path and _ENCODED_SLASH not in path.lower():
        return
    for segment in path.removeprefix("/").removesuffix("/").split("/"):
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
