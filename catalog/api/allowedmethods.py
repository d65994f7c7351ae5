"""The methods that each path allows under the capabilities in force."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import hdrs, web

from catalog.api.requesttarget import RequestTarget
from catalog.http.conditions import READING
from catalog.model.capabilities import Capabilities
from catalog.model.errors import ActionNotSupported, DetailsRequired

_ENTITIES = {
    "registry": (*READING, "PATCH", "POST", "PUT"),
    "collection": ("DELETE", *READING, "PATCH", "POST"),
    "group": ("DELETE", *READING, "PATCH", "POST", "PUT"),
    "resource": ("DELETE", *READING, "PATCH", "POST", "PUT"),
    "meta": (*READING, "PATCH", "PUT"),
    "version": ("DELETE", *READING, "PATCH", "PUT"),
}
_DOCUMENTS = {
    kind: tuple(method for method in methods if method != hdrs.METH_PATCH)
    for kind, methods in _ENTITIES.items()
}


def methods_of(target: RequestTarget, capabilities: Capabilities) -> tuple[str, ...]:
    """The methods that an entity or collection allows, in alphabetical order."""
    if not capabilities.is_mutable("entities"):
        return READING
    return (_DOCUMENTS if target.is_document else _ENTITIES)[target.kind]


def methods_of_route(
    capability: str | None, defined: Iterable[str], capabilities: Capabilities
) -> tuple[str, ...]:
    """The methods that a fixed path allows, among the defined ones.

    Args:
        capability: the name of the path in the capabilities, if it has one.
    """
    if capability is None:
        return tuple(sorted({*defined, hdrs.METH_OPTIONS}))
    if capability not in capabilities.available:
        return (hdrs.METH_OPTIONS,)
    allowed = {*defined} if capabilities.is_mutable(capability) else {*defined} & {*READING}
    return tuple(sorted({*allowed, hdrs.METH_OPTIONS}))


def check_method(request: web.Request, target: RequestTarget, allow: tuple[str, ...]) -> None:
    """Refuse a method that an entity or collection does not allow.

    Raises:
        ActionNotSupported
        DetailsRequired: only metadata can be patched, and a document is addressed.
    """
    if request.method in allow:
        return
    if request.method == hdrs.METH_PATCH and target.is_document and allow != READING:
        raise DetailsRequired(str(target.xid), allow=allow)
    raise ActionNotSupported(request.path, action=request.method, allow=allow)


def answer_options(allow: tuple[str, ...]) -> web.Response:
    """Answer OPTIONS (core/http.md, "HTTP OPTIONS Method")."""
    methods = ", ".join(allow)
    return web.Response(headers={"Allow": methods, "Access-Control-Allow-Methods": methods})
