"""Admits a request by the caller, the caller's rate and rights, the origin and the path."""

from __future__ import annotations

import re
from functools import partial
from typing import Any
from urllib.parse import unquote

from aiohttp import hdrs, web

from catalog.access.authentication import AUTHENTICATION
from catalog.access.identity import IDENTITY, Identity, demand
from catalog.access.ratelimits import RATE_LIMITS, key_of
from catalog.audit.audittrail import author_of
from catalog.context import CLIENT, CONTEXT, SHARED, Context
from catalog.http.conditions import READING
from catalog.http.flags import Flags
from catalog.http.positionwait import wait_for_positions
from catalog.http.requestchecks import check_characters, check_host, check_origin
from catalog.load.longwork import begin_work
from catalog.model.caller import EVERYTHING, Author, Caller
from catalog.model.capabilities import Capabilities
from catalog.model.concorderrors import TooManyAttempts, Unauthenticated
from catalog.model.errors import (
    ActionNotSupported,
    MalformedId,
    NotAvailable,
    UnsupportedSpecVersion,
)
from catalog.operations.operation import Anyone, Need, Operation

_NODE = partial(Author, kind="node")
# The right that the operation of a request needs.
_NEED: web.RequestKey[Need] = web.RequestKey("need")
_ENCODED_SLASH = "%2f"
_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?:\.\d{1,9})?(-[0-9a-z.-]{1,64})?", re.ASCII)


async def admit(request: web.Request, operation: Operation[Any, Any]) -> None:
    """Let a request pass if the caller has the right that the operation needs.

    A credential in the request has to be valid even if no credential is needed, except for
    operations that do not ask. The handler reads only entities that the caller may see and writes
    only entities that the caller may write, and the caller is the author of the writes.

    Raises:
        XRegistryError: the request is refused.
    """
    need = operation.needs
    if request.method == hdrs.METH_OPTIONS:
        # OPTIONS only lists methods, and browsers send OPTIONS without a credential (Fetch, 4.8).
        need = Anyone.UNASKED
    request[_NEED] = need
    identity = await _identify(request, operation, need)
    shared = request.app[SHARED]
    context = request[CONTEXT] = shared.for_caller(_caller_of(request, identity))
    check_host(request, context)
    check_characters(request)
    check_origin(request, context)
    if not operation.has_slashes:
        _check_segments(request.rel_url.raw_path)
    # After the checks, so that a refused request never waits.
    await shared.catch_up()
    await wait_for_positions(request)


async def renew(request: web.Request) -> Context:
    """Identify the caller of a long request again, by the credential, the roles and the rules.

    Returns:
        the context of the caller from now on, which also replaces the context of the request.

    Raises:
        Unauthenticated: the credential is no longer valid.
        Forbidden: the caller no longer has the right.
    """
    authentication, context = request.app[AUTHENTICATION], request[CONTEXT]
    if not authentication.is_open and request[_NEED] is not Anyone.UNASKED:
        identity = await authentication.identify(request)
        identity = await _permitted(request, identity, request[_NEED])
        context = request[CONTEXT] = context.for_caller(_caller_of(request, identity))
    return context


def _caller_of(request: web.Request, identity: Identity | None) -> Caller:
    """The caller for whom a request is answered.

    Args:
        identity: `None` if the operation does not ask for a caller, and answers everybody alike.
    """
    return Caller(
        sees=EVERYTHING if identity is None else identity.visibility,
        writes=EVERYTHING if identity is None else identity.writescope,
        client=request[CLIENT],
        # The node itself is the author of data that it stores while answering a read.
        make_author=_NODE if request.method in READING else partial(author_of, request),
    )


async def _identify(
    request: web.Request, operation: Operation[Any, Any], need: Need
) -> Identity | None:
    """The caller of a request, who has the right; `None` if the operation does not ask.

    From here on, the work of a known caller counts for the caller, whatever the address.
    """
    authentication, rates = request.app[AUTHENTICATION], request.app[RATE_LIMITS]
    if authentication.is_open or need is Anyone.UNASKED:
        if operation.is_counted:
            rates.take(request, request[CLIENT], None)
        return None
    try:
        identity = await authentication.identify(request)
    # Without a known caller, the request counts towards the rate of the address.
    except (TooManyAttempts, Unauthenticated):
        rates.take(request, request[CLIENT], None)
        raise
    if identity.kind != "anonymous":
        request[CLIENT] = client = key_of(identity)
        begin_work(client)
    rates.take(request, request[CLIENT], identity)
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
    """Refuse a request that the capabilities in force do not offer.

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
    """Refuse paths with an empty segment, or with an encoded slash in a segment."""
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
    """A version without the patch number, which makes no difference, and with the suffix."""
    found = _VERSION.fullmatch(version.strip().lower())
    return (int(found[1]), int(found[2]), found[3] or "") if found else None
